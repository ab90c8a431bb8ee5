-- name: insert_task
WITH changed AS (
  INSERT INTO {schema}.tasks (
    app_name, user_id, task_id, session_id, state, status_at, payload, revision_token, ends_at
  )
  VALUES (
    :app_name, :user_id, :task_id, :session_id, :state, :status_at, :payload, :token::uuid,
    CASE
      WHEN :state IN {final} THEN now()
      WHEN :state IN {running} THEN now() + make_interval(secs => :lease_s)
    END
  )
  ON CONFLICT (app_name, user_id, task_id) DO NOTHING
  RETURNING revision
)
{saved};

-- name: replace_task
WITH changed AS (
  UPDATE {schema}.tasks AS t
  SET payload_revision = t.revision + 1,
    payload = :payload,
    session_id = :session_id,
    {advanced}
  RETURNING t.revision
),
replaced AS (
  DELETE FROM {schema}.task_events AS e
  USING changed
  WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.task_id = :task_id
)
{saved};

-- name: add_event
WITH changed AS (
  UPDATE {schema}.tasks AS t
  SET {advanced}
  RETURNING t.revision, t.session_id
),
added AS (
  INSERT INTO {schema}.task_events (app_name, user_id, task_id, revision, session_id, payload)
  SELECT :app_name, :user_id, :task_id, c.revision, c.session_id, :payload::json
  FROM changed AS c
  -- An import may have brought one, of the same task elsewhere.
  ON CONFLICT (app_name, user_id, task_id, revision) DO UPDATE SET payload = excluded.payload
)
{saved};

-- name: saved
SELECT revision FROM (
    SELECT c.revision FROM changed AS c
    UNION ALL
    -- A save whose answer was lost.
    SELECT t.revision
    FROM {schema}.tasks AS t
    WHERE t.app_name = :app_name AND t.user_id = :user_id AND t.task_id = :task_id
      AND t.revision_token = :token
  ) AS saved

-- name: advanced
revision = t.revision + 1,
    revision_token = :token,
    state = :state,
    status_at = :status_at,
    updated_at = now(),
    ends_at = CASE
      WHEN :state IN {final} THEN now()
      -- In an index: renewed by its half, so that saves in between are in place.
      WHEN :state IN {running} AND t.ends_at > now() + make_interval(secs => :lease_s::float8 / 2) THEN t.ends_at
      WHEN :state IN {running} THEN now() + make_interval(secs => :lease_s)
    END
  WHERE t.app_name = :app_name AND t.user_id = :user_id AND t.task_id = :task_id
    AND t.state NOT IN {final}
    AND (:revision::bigint IS NULL OR t.revision = :revision)
    AND (:before::uuid IS NULL OR t.revision_token = :before)

-- name: renew
WITH renewed AS (
  UPDATE {schema}.tasks
  SET ends_at = now() + make_interval(secs => :lease_s)
  WHERE app_name = :app_name AND user_id = :user_id AND task_id = :task_id AND state IN {running}
)
SELECT state, revision_token::text AS token
FROM {schema}.tasks
WHERE app_name = :app_name AND user_id = :user_id AND task_id = :task_id;

-- name: fail_lapsed
-- The process of a running task is gone: it is not renewed.
WITH lapsed AS (
  UPDATE {schema}.tasks AS t
  SET revision = t.revision + 1,
    revision_token = gen_random_uuid(),
    state = 'TASK_STATE_FAILED',
    status_at = now(),
    updated_at = now(),
    ends_at = now()
  WHERE t.app_name = :app_name AND t.user_id = :user_id
    AND (:task_id::text IS NULL OR t.task_id = :task_id)
    AND t.state IN {running} AND t.ends_at <= now()
  RETURNING t.task_id, t.revision, t.session_id
),
told AS (
  INSERT INTO {schema}.task_events (app_name, user_id, task_id, revision, session_id, payload)
  SELECT :app_name, :user_id, l.task_id, l.revision, l.session_id, json_build_object(
      'statusUpdate', json_build_object(
        'taskId', l.task_id,
        'contextId', l.session_id,
        'status', json_build_object(
          'state', 'TASK_STATE_FAILED',
          'timestamp', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
          'message', json_build_object(
            'messageId', gen_random_uuid(),
            'role', 'ROLE_AGENT',
            'parts', json_build_array(json_build_object('text', :reason::text))
          )
        )
      )
    )
  FROM lapsed AS l
)
SELECT task_id FROM lapsed;

-- name: select_task
SELECT t.revision, t.revision_token::text AS token, t.payload::text AS payload,
  t.state IN {running} AND t.ends_at <= now() AS lapsed,
  ARRAY(
    SELECT e.payload::text
    FROM {schema}.task_events AS e
    WHERE e.app_name = t.app_name AND e.user_id = t.user_id AND e.task_id = t.task_id
      AND e.revision > t.payload_revision AND e.revision <= t.revision
    ORDER BY e.revision
  ) AS events
FROM {schema}.tasks AS t
WHERE t.app_name = :app_name AND t.user_id = :user_id AND t.task_id = :task_id;

-- name: select_anonymous_user
SELECT t.user_id
FROM {schema}.tasks AS t
WHERE t.app_name = :app_name AND t.task_id = :task_id AND t.user_id = 'A2A_USER_' || t.session_id;

-- name: select_news
SELECT t.state, t.revision,
  t.state IN {running} AND t.ends_at <= now() AS lapsed,
  ARRAY(
    SELECT e.payload::text
    FROM {schema}.task_events AS e
    WHERE e.app_name = t.app_name AND e.user_id = t.user_id AND e.task_id = t.task_id
      AND e.revision > :revision AND e.revision <= t.revision
    ORDER BY e.revision
  ) AS events
FROM {schema}.tasks AS t
WHERE t.app_name = :app_name AND t.user_id = :user_id AND t.task_id = :task_id;

-- name: select_page
WITH wanted AS (
  SELECT t.task_id, coalesce(t.status_at, '-infinity') AS status_at
  FROM {schema}.tasks AS t
  WHERE t.app_name = :app_name AND t.user_id = :user_id
    AND (:session_id::text IS NULL OR t.session_id = :session_id)
    AND (:state::text IS NULL OR t.state = :state)
    AND (:since::timestamptz IS NULL OR t.status_at >= :since)
),
counted AS (
  SELECT count(*) AS total, EXISTS (
      SELECT FROM {schema}.tasks AS l
      WHERE l.app_name = :app_name AND l.user_id = :user_id
        AND l.state IN {running} AND l.ends_at <= now()
    ) AS lapsed
  FROM wanted AS w
),
page AS (
  SELECT w.task_id, w.status_at
  FROM wanted AS w
  WHERE :after_id::text IS NULL
    OR (w.status_at, w.task_id) < (coalesce(:after_at, '-infinity'::timestamptz), :after_id)
  ORDER BY w.status_at DESC, w.task_id DESC
  LIMIT :limit
)
SELECT counted.total, counted.lapsed, t.payload::text AS payload,
  ARRAY(
    SELECT e.payload::text
    FROM {schema}.task_events AS e
    WHERE e.app_name = t.app_name AND e.user_id = t.user_id AND e.task_id = t.task_id
      AND e.revision > t.payload_revision AND e.revision <= t.revision
    ORDER BY e.revision
  ) AS events
FROM counted
LEFT JOIN page ON true
LEFT JOIN {schema}.tasks AS t
  ON t.app_name = :app_name AND t.user_id = :user_id AND t.task_id = page.task_id
ORDER BY page.status_at DESC, page.task_id DESC;

-- name: delete_task
DELETE FROM {schema}.tasks
WHERE app_name = :app_name AND user_id = :user_id AND task_id = :task_id
RETURNING task_id;
