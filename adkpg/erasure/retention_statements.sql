-- name: select_old
SELECT s.app_name, s.user_id, s.session_id, (
    SELECT count(*)
    FROM {schema}.events AS e
    WHERE e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.session_id
  ) AS events
FROM {schema}.sessions AS s
WHERE (greatest(s.updated_at, s.created_at) < :before OR s.expires_at <= now())
  AND (:app_name::text IS NULL OR s.app_name = :app_name)
  AND (:of_user::text IS NULL OR s.user_id = :of_user)
  AND (s.app_name, s.user_id, s.session_id) > (:after_app_name, :after_user_id, :after_session_id)
ORDER BY s.app_name, s.user_id, s.session_id
LIMIT :limit;

-- name: select_with_old_events
SELECT s.app_name, s.user_id, s.session_id, (
    SELECT count(*)
    FROM {schema}.events AS e
    WHERE e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.session_id
      AND e.timestamp < :before
  ) AS events
FROM {schema}.sessions AS s
WHERE EXISTS (
    SELECT e.seq
    FROM {schema}.events AS e
    WHERE e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.session_id
      AND e.timestamp < :before
  )
  AND (:app_name::text IS NULL OR s.app_name = :app_name)
  AND (:of_user::text IS NULL OR s.user_id = :of_user)
  AND (s.app_name, s.user_id, s.session_id) > (:after_app_name, :after_user_id, :after_session_id)
ORDER BY s.app_name, s.user_id, s.session_id
LIMIT :limit;

-- name: delete_old_sessions
WITH locked AS (
  SELECT s.app_name, s.user_id, s.session_id
  FROM {schema}.sessions AS s
  JOIN unnest(:app_names::text[], :user_ids::text[], :session_ids::text[])
    AS given (app_name, user_id, session_id)
    ON (s.app_name, s.user_id, s.session_id) = (given.app_name, given.user_id, given.session_id)
  WHERE greatest(s.updated_at, s.created_at) < :before OR s.expires_at <= now()
  ORDER BY s.app_name, s.user_id, s.session_id
  FOR UPDATE OF s SKIP LOCKED
),
counts AS (
  SELECT l.app_name, l.user_id, l.session_id, (
      SELECT count(*)
      FROM {schema}.events AS e
      WHERE e.app_name = l.app_name AND e.user_id = l.user_id AND e.session_id = l.session_id
    ) AS events
  FROM locked AS l
),
ending AS (
  -- Whoever still has such a session may add it to memory once again.
  UPDATE {schema}.memory_tombstones AS t
  SET needed_at = now()
  FROM counts AS c
  WHERE t.app_name = c.app_name AND t.user_id = c.user_id AND t.session_id = c.session_id
),
gone AS (
  DELETE FROM {schema}.sessions AS s
  USING counts AS c
  WHERE s.app_name = c.app_name AND s.user_id = c.user_id AND s.session_id = c.session_id
  RETURNING c.app_name, c.user_id, c.session_id, c.events
)
SELECT app_name, user_id, session_id, events FROM gone;

-- name: delete_old_events
WITH chosen AS (
  SELECT e.app_name, e.user_id, e.session_id, e.seq
  FROM {schema}.events AS e
  JOIN unnest(:app_names::text[], :user_ids::text[], :session_ids::text[])
    AS given (app_name, user_id, session_id)
    ON (e.app_name, e.user_id, e.session_id) = (given.app_name, given.user_id, given.session_id)
  WHERE e.timestamp < :before
  LIMIT :limit
),
gone AS (
  DELETE FROM {schema}.events AS e
  USING chosen AS c
  WHERE e.app_name = c.app_name AND e.user_id = c.user_id AND e.session_id = c.session_id
    AND e.seq = c.seq
  RETURNING e.app_name, e.user_id, e.session_id
)
SELECT app_name, user_id, session_id FROM gone;

-- name: select_nobodys_states
SELECT u.app_name, u.user_id
FROM {schema}.user_states AS u
WHERE u.updated_at < :before
  AND NOT EXISTS (
    SELECT s.session_id
    FROM {schema}.sessions AS s
    WHERE s.app_name = u.app_name AND s.user_id = u.user_id
  )
  AND (:app_name::text IS NULL OR u.app_name = :app_name)
  AND (:of_user::text IS NULL OR u.user_id = :of_user)
ORDER BY u.app_name, u.user_id;

-- name: delete_nobodys_states
WITH chosen AS (
  SELECT u.app_name, u.user_id
  FROM {schema}.user_states AS u
  WHERE u.updated_at < :before
    AND NOT EXISTS (
      SELECT s.session_id
      FROM {schema}.sessions AS s
      WHERE s.app_name = u.app_name AND s.user_id = u.user_id
    )
    AND (:app_name::text IS NULL OR u.app_name = :app_name)
    AND (:of_user::text IS NULL OR u.user_id = :of_user)
  LIMIT :limit
  FOR UPDATE SKIP LOCKED
),
gone AS (
  DELETE FROM {schema}.user_states AS u
  USING chosen AS c
  WHERE u.app_name = c.app_name AND u.user_id = c.user_id
  RETURNING u.app_name, u.user_id
)
SELECT app_name, user_id FROM gone;
