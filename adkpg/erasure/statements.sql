-- name: select_session_ids
SELECT known.session_id
FROM (
  SELECT s.session_id
  FROM {schema}.sessions AS s
  WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id <> ''
  UNION
  SELECT m.session_id
  FROM {schema}.memories AS m
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.session_id <> ''
  UNION
  SELECT t.session_id
  FROM {schema}.memory_tombstones AS t
  WHERE t.app_name = :app_name AND t.user_id = :user_id AND t.session_id <> ''
) AS known
ORDER BY known.session_id;

-- name: lock_sessions
SELECT session_id
FROM {schema}.sessions
WHERE app_name = :app_name AND user_id = :user_id
ORDER BY session_id
FOR UPDATE;

-- name: count_rows
-- `{table}` is each table of persons, and `{kind}` what says of what kind its rows are.
SELECT {kind} AS kind, count(*) AS rows
FROM {schema}.{table}
WHERE app_name = :app_name AND user_id = :user_id
GROUP BY 1;

-- name: delete_rows
WITH deleted AS (
  DELETE FROM {schema}.{table}
  WHERE app_name = :app_name AND user_id = :user_id
  RETURNING {kind} AS kind
)
SELECT kind, count(*) AS rows
FROM deleted
GROUP BY kind;

-- name: select_objects
SELECT a.location
FROM {schema}.artifacts AS a
WHERE a.app_name = :app_name AND a.user_id = :user_id AND a.location IS NOT NULL
UNION
SELECT u.location
FROM {schema}.artifact_uploads AS u
WHERE u.app_name = :app_name AND u.user_id = :user_id AND u.location IS NOT NULL;

-- name: hold_session
SELECT session_id
FROM {schema}.sessions
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
FOR UPDATE;

-- name: select_session_objects
SELECT a.location
FROM {schema}.artifacts AS a
WHERE a.app_name = :app_name AND a.user_id = :user_id AND a.session_id = :session_id
  AND a.location IS NOT NULL
UNION
SELECT u.location
FROM {schema}.artifact_uploads AS u
WHERE u.app_name = :app_name AND u.user_id = :user_id AND u.session_id = :session_id
  AND u.location IS NOT NULL;

-- name: lock_session_memories
SELECT position
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
ORDER BY position
FOR UPDATE;

-- name: delete_session_memories
WITH chosen AS (
  SELECT m.app_name, m.user_id, m.memory_id
  FROM {schema}.memories AS m
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.session_id = :session_id
),
drawn AS (
  SELECT m.app_name, m.user_id, m.memory_id
  FROM {schema}.memory_provenance AS p
  JOIN chosen AS c
    ON p.origin_id = c.memory_id AND p.app_name = c.app_name AND p.user_id = c.user_id
  JOIN {schema}.memories AS m
    ON m.memory_id = p.memory_id AND m.app_name = p.app_name AND m.user_id = p.user_id
  -- Locked in one order, too, because two sources may share facts.
  ORDER BY m.position
  FOR UPDATE OF m
),
gone AS (
  SELECT app_name, user_id, memory_id FROM chosen
  UNION ALL
  SELECT app_name, user_id, memory_id FROM drawn
),
erased AS (
  -- Words, vectors and jobs go with their memory, by a trigger and foreign keys.
  DELETE FROM {schema}.memories AS m
  USING gone
  WHERE m.memory_id = gone.memory_id AND m.app_name = gone.app_name AND m.user_id = gone.user_id
  RETURNING m.memory_id
)
SELECT count(*) AS erased FROM erased;

-- name: delete_session_tombstones
DELETE FROM {schema}.memory_tombstones
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id;

-- name: delete_session
DELETE FROM {schema}.sessions
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id;
