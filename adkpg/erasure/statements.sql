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

-- name: hold_rows
-- Here and below `{table}` is each table of persons, and `{place}` says whose rows, or of which
-- session.
SELECT {key}
FROM {schema}.{table}
WHERE {place}
ORDER BY {key}
FOR UPDATE;

-- name: select_objects
SELECT location
FROM {schema}.{table}
WHERE {place} AND location IS NOT NULL;

-- name: count_rows
-- `{kind}` says of what kind the rows are.
SELECT {kind} AS kind, count(*) AS rows
FROM {schema}.{table}
WHERE {place}
GROUP BY 1;

-- name: delete_rows
WITH deleted AS (
  DELETE FROM {schema}.{table}
  WHERE {place}
  RETURNING {kind} AS kind
)
SELECT kind, count(*) AS rows
FROM deleted
GROUP BY kind;

-- name: delete_session
-- The marks of memories that were deleted from it stay for a while: a caller that still has the session
-- may add it to memory once again.
WITH ending AS (
  UPDATE {schema}.memory_tombstones
  SET needed_at = now()
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
),
gone AS (
  DELETE FROM {schema}.sessions
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
  RETURNING session_id
)
SELECT session_id FROM gone;
