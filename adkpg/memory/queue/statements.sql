-- Work is claimed user by user, so that a queue distributed by user needs no other statements, and
-- in the order of one index, so that a claim costs the same whatever waits. Parts that name no user
-- and stand before each row are looked up once: whether an app's active model is the one asked for,
-- or none.

-- name: select_users
-- An end or a time that is later than any can be was written before the server's clock went back:
-- it is over. A lease that a younger transaction takes ends a little later than one of this one.
-- It goes from user to user in the index, whatever each has. Whether there is work is no EXISTS,
-- for which the planner may read all users' jobs into a hash table.
WITH RECURSIVE users AS (
  SELECT first.app_name, first.user_id, 1 AS number
  FROM (
    SELECT app_name, user_id
    FROM {schema}.memory_jobs
    WHERE work = :work AND NOT dead AND (app_name, user_id) > (:after_app, :after_user)
    ORDER BY app_name, user_id
    LIMIT 1
  ) AS first
  UNION ALL
  SELECT following.app_name, following.user_id, users.number + 1
  FROM users
  CROSS JOIN LATERAL (
    SELECT app_name, user_id
    FROM {schema}.memory_jobs
    WHERE work = :work AND NOT dead AND (app_name, user_id) > (users.app_name, users.user_id)
    ORDER BY app_name, user_id
    LIMIT 1
  ) AS following
  WHERE users.number < :limit::integer
)
SELECT users.app_name, users.user_id,
  NOT EXISTS (
    SELECT
    FROM {schema}.app_settings AS a
    WHERE a.app_name = users.app_name AND a.model_id <> :model_id::smallint
  ) AND (
    SELECT 1
    FROM {schema}.memory_jobs AS j
    WHERE j.app_name = users.app_name AND j.user_id = users.user_id AND j.work = :work
      AND NOT j.dead AND (
        j.lease_expires_at IS NULL
        OR j.lease_expires_at <= now()
        OR j.lease_expires_at > now() + 2 * make_interval(secs => :lease_s)
      )
      AND (:eager OR j.due_at <= now() OR j.due_at > now() + interval '2 hours')
    LIMIT 1
  ) IS NOT NULL AS due
FROM users
ORDER BY users.number;

-- name: select_users_of_app
-- The first place is before all users, also the one whose id is empty, so its app is compared, too;
-- the index begins at the user alone.
WITH RECURSIVE users AS (
  SELECT first.user_id, 1 AS number
  FROM (
    SELECT user_id
    FROM {schema}.memory_jobs
    WHERE work = :work AND NOT dead AND app_name = :app_name AND user_id >= :after_user
      AND (app_name, user_id) > (:after_app, :after_user)
    ORDER BY user_id
    LIMIT 1
  ) AS first
  UNION ALL
  SELECT following.user_id, users.number + 1
  FROM users
  CROSS JOIN LATERAL (
    SELECT user_id
    FROM {schema}.memory_jobs
    WHERE work = :work AND NOT dead AND app_name = :app_name AND user_id > users.user_id
    ORDER BY user_id
    LIMIT 1
  ) AS following
  WHERE users.number < :limit::integer
)
SELECT :app_name AS app_name, users.user_id,
  NOT EXISTS (
    SELECT
    FROM {schema}.app_settings AS a
    WHERE a.app_name = :app_name AND a.model_id <> :model_id::smallint
  ) AND (
    SELECT 1
    FROM {schema}.memory_jobs AS j
    WHERE j.app_name = :app_name AND j.user_id = users.user_id AND j.work = :work
      AND NOT j.dead AND (
        j.lease_expires_at IS NULL
        OR j.lease_expires_at <= now()
        OR j.lease_expires_at > now() + 2 * make_interval(secs => :lease_s)
      )
      AND (:eager OR j.due_at <= now() OR j.due_at > now() + interval '2 hours')
    LIMIT 1
  ) IS NOT NULL AS due
FROM users
ORDER BY users.number;

-- name: claim
-- Jobs that others are claiming are left out. There is no join, which might read all that the user
-- has waiting, and OFFSET 0 keeps memories looked up one by one.
WITH chosen AS (
  SELECT position
  FROM {schema}.memory_jobs
  WHERE app_name = :app_name AND user_id = :user_id AND work = :work AND NOT dead
    AND (
      lease_expires_at IS NULL
      OR lease_expires_at <= now()
      OR lease_expires_at > now() + 2 * make_interval(secs => :lease_s)
      OR coalesce(claim = :claim::uuid, false)
    )
    AND (due_at <= now() OR due_at > now() + interval '2 hours')
    AND NOT EXISTS (
      SELECT
      FROM {schema}.app_settings AS a
      WHERE a.app_name = :app_name AND a.model_id <> :model_id::smallint
    )
  ORDER BY position
  LIMIT :limit::integer
  FOR UPDATE SKIP LOCKED
),
claimed AS (
  UPDATE {schema}.memory_jobs
  SET lease_expires_at = now() + make_interval(secs => :lease_s),
    attempts = CASE
      WHEN coalesce(claim = :claim::uuid, false) THEN attempts
      ELSE attempts + 1
    END,
    claim = :claim::uuid
  WHERE app_name = :app_name AND user_id = :user_id AND work = :work
    AND position = ANY (ARRAY(SELECT position FROM chosen))
  RETURNING position, attempts, lease_expires_at
)
SELECT claimed.position, claimed.attempts, claimed.lease_expires_at, memory.*
FROM claimed
CROSS JOIN LATERAL (
  SELECT app_name, user_id, memory_id, session_id, event_id, author, timestamp, body, digest
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = :user_id AND position = claimed.position
  OFFSET 0
) AS memory
ORDER BY claimed.position;

-- name: claim_eagerly
WITH chosen AS (
  SELECT position
  FROM {schema}.memory_jobs
  WHERE app_name = :app_name AND user_id = :user_id AND work = :work AND NOT dead
    AND (
      lease_expires_at IS NULL
      OR lease_expires_at <= now()
      OR lease_expires_at > now() + 2 * make_interval(secs => :lease_s)
      OR coalesce(claim = :claim::uuid, false)
    )
    AND (due_at <= now() OR due_at > now() + interval '2 hours')
    AND NOT EXISTS (
      SELECT
      FROM {schema}.app_settings AS a
      WHERE a.app_name = :app_name AND a.model_id <> :model_id::smallint
    )
  ORDER BY position
  LIMIT :limit::integer
  FOR UPDATE SKIP LOCKED
),
later AS (
  SELECT position
  FROM {schema}.memory_jobs
  WHERE app_name = :app_name AND user_id = :user_id AND work = :work AND NOT dead
    AND (
      lease_expires_at IS NULL
      OR lease_expires_at <= now()
      OR lease_expires_at > now() + 2 * make_interval(secs => :lease_s)
      OR coalesce(claim = :claim::uuid, false)
    )
    AND due_at > now()
    AND NOT EXISTS (
      SELECT
      FROM {schema}.app_settings AS a
      WHERE a.app_name = :app_name AND a.model_id <> :model_id::smallint
    )
  ORDER BY position
  LIMIT :limit::integer - (SELECT count(*) FROM chosen)
  FOR UPDATE SKIP LOCKED
),
claimed AS (
  UPDATE {schema}.memory_jobs
  SET lease_expires_at = now() + make_interval(secs => :lease_s),
    attempts = CASE
      WHEN coalesce(claim = :claim::uuid, false) THEN attempts
      ELSE attempts + 1
    END,
    claim = :claim::uuid
  WHERE app_name = :app_name AND user_id = :user_id AND work = :work
    AND position = ANY (
      ARRAY(SELECT position FROM chosen UNION ALL SELECT position FROM later)
    )
  RETURNING position, attempts, lease_expires_at
)
SELECT claimed.position, claimed.attempts, claimed.lease_expires_at, memory.*
FROM claimed
CROSS JOIN LATERAL (
  SELECT app_name, user_id, memory_id, session_id, event_id, author, timestamp, body, digest
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = :user_id AND position = claimed.position
  OFFSET 0
) AS memory
ORDER BY claimed.position;

-- name: put_back
UPDATE {schema}.memory_jobs
SET lease_expires_at = NULL,
  claim = NULL,
  attempts = CASE WHEN :refused THEN attempts ELSE attempts - 1 END,
  due_at = CASE
    WHEN :error::text IS NULL THEN due_at
    ELSE now() + make_interval(secs => :delay_s)
  END,
  error = coalesce(:error, error),
  dead = :refused AND attempts >= :max_attempts AND due_at <= now()
WHERE app_name = :app_name AND user_id = :user_id AND work = :work
  AND lease_expires_at = :claimed_until
  AND position IN (
    SELECT position
    FROM {schema}.memories
    WHERE app_name = :app_name AND user_id = :user_id AND memory_id = ANY (:memory_ids)
  );

-- name: complete
DELETE FROM {schema}.memory_jobs
WHERE app_name = :app_name AND user_id = :user_id AND work = :work
  AND lease_expires_at = :claimed_until AND position = ANY (:positions);

-- name: end
DELETE FROM {schema}.memory_jobs
WHERE app_name = :app_name AND user_id = :user_id AND work = :work AND position = ANY (:positions);

-- name: revive
WITH revived AS (
  UPDATE {schema}.memory_jobs
  SET dead = false, attempts = 0, due_at = now(), lease_expires_at = NULL
  WHERE work = :work AND dead
    AND (:of_app::text IS NULL OR app_name = :of_app)
    AND (:of_user::text IS NULL OR user_id = :of_user)
  RETURNING 1
)
SELECT count(*) AS revived FROM revived;

-- name: revive_of_user
WITH revived AS (
  UPDATE {schema}.memory_jobs
  SET dead = false, attempts = 0, due_at = now(), lease_expires_at = NULL
  WHERE work = :work AND dead AND app_name = :app_name AND user_id = :user_id
    AND (
      :memory_id::text IS NULL
      OR position IN (
        SELECT position
        FROM {schema}.memories
        WHERE app_name = :app_name AND user_id = :user_id AND memory_id = :memory_id
      )
    )
  RETURNING 1
)
SELECT count(*) AS revived FROM revived;

-- name: select_dead
SELECT j.app_name, j.user_id, j.position, m.memory_id, j.created_at, j.attempts, j.error
FROM {schema}.memory_jobs AS j
JOIN {schema}.memories AS m
  ON m.app_name = j.app_name AND m.user_id = j.user_id AND m.position = j.position
WHERE j.work = :work AND j.dead
  AND (:of_app::text IS NULL OR j.app_name = :of_app)
  AND (:of_user::text IS NULL OR j.user_id = :of_user)
  AND (j.app_name, j.user_id, j.position) > (:after_app, :after_user, :after_position)
ORDER BY j.app_name, j.user_id, j.position
LIMIT :limit;

-- name: select_dead_of_user
SELECT j.app_name, j.user_id, j.position, m.memory_id, j.created_at, j.attempts, j.error
FROM {schema}.memory_jobs AS j
JOIN {schema}.memories AS m
  ON m.app_name = j.app_name AND m.user_id = j.user_id AND m.position = j.position
WHERE j.work = :work AND j.dead AND j.app_name = :app_name AND j.user_id = :user_id
  AND j.position > :after_position
ORDER BY j.position
LIMIT :limit;

-- name: count_jobs
SELECT count(*) FILTER (WHERE NOT dead) AS waiting,
  count(*) FILTER (WHERE NOT dead AND error IS NOT NULL) AS failed,
  count(*) FILTER (WHERE dead) AS dead,
  max(error) AS error
FROM {schema}.memory_jobs
WHERE work = :work
  AND (:of_app::text IS NULL OR app_name = :of_app)
  AND (:of_user::text IS NULL OR user_id = :of_user);

-- name: count_jobs_of_user
SELECT count(*) FILTER (WHERE NOT dead) AS waiting,
  count(*) FILTER (WHERE NOT dead AND error IS NOT NULL) AS failed,
  count(*) FILTER (WHERE dead) AS dead,
  max(error) AS error
FROM {schema}.memory_jobs
WHERE work = :work AND app_name = :app_name AND user_id = :user_id;

-- name: select_waiting
SELECT count(*) FILTER (WHERE waiting.own) AS own,
  min(waiting.app_name) FILTER (WHERE NOT waiting.own) AS other_app
FROM (
  SELECT j.app_name,
    NOT EXISTS (
      SELECT
      FROM {schema}.app_settings AS a
      WHERE a.app_name = j.app_name AND a.model_id <> :model_id::smallint
    ) AS own
  FROM {schema}.memory_jobs AS j
  WHERE j.work = :work AND NOT j.dead AND (:of_app::text IS NULL OR j.app_name = :of_app)
) AS waiting;
