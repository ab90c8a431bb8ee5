-- name: select_app_names
WITH RECURSIVE walk AS (
  -- Each app is looked up in the keys after the one before, so no table is read through.
  SELECT 1 AS number, least(
    (SELECT min(app_name) FROM {schema}.sessions),
    (SELECT min(app_name) FROM {schema}.memories)
  ) AS app_name
  UNION ALL
  SELECT w.number + 1, least(
    (SELECT min(s.app_name) FROM {schema}.sessions AS s WHERE s.app_name > w.app_name),
    (SELECT min(m.app_name) FROM {schema}.memories AS m WHERE m.app_name > w.app_name)
  )
  FROM walk AS w
  WHERE w.app_name IS NOT NULL AND w.number < :limit
)
SELECT app_name
FROM walk
WHERE app_name IS NOT NULL
ORDER BY app_name;

-- name: select_users
WITH RECURSIVE walk AS (
  -- Each user is looked up in the keys after the one before, so no table is read through. No id has
  -- NUL, so the next one by its bytes is the id with a \x01 after it.
  SELECT 0 AS number, :first_app::text COLLATE "C" AS app_name, NULL::text COLLATE "C" AS user_id,
    :first::text COLLATE "C" AS next
  UNION ALL
  SELECT w.number + 1, found.app_name, found.user_id, found.user_id || E'\x01'
  FROM walk AS w
  CROSS JOIN LATERAL (
    SELECT each.app_name, each.user_id
    FROM (
      (
        SELECT app_name, user_id
        FROM {schema}.sessions
        WHERE (app_name, user_id) >= (w.app_name, w.next)
        ORDER BY app_name, user_id
        LIMIT 1
      )
      UNION ALL
      (
        SELECT app_name, user_id
        FROM {schema}.memories
        WHERE (app_name, user_id) >= (w.app_name, w.next)
        ORDER BY app_name, user_id
        LIMIT 1
      )
      UNION ALL
      (
        SELECT app_name, user_id
        FROM {schema}.user_states
        WHERE (app_name, user_id) >= (w.app_name, w.next)
        ORDER BY app_name, user_id
        LIMIT 1
      )
    ) AS each
    ORDER BY each.app_name, each.user_id
    LIMIT 1
  ) AS found
  WHERE w.number < :walked AND found.app_name = coalesce(:app_name, found.app_name)
), reached AS (
  SELECT max(app_name) AS app_name, max(user_id) AS user_id FROM walk WHERE number = :walked
), page AS (
  SELECT app_name, user_id
  FROM walk
  -- What an app knows for all its users is no user's.
  WHERE user_id <> E'\x01app' AND strpos(user_id, :part) > 0
  ORDER BY app_name, user_id
  LIMIT :limit
)
SELECT p.app_name, p.user_id, s.sessions, s.updated_at, m.memories, r.app_name AS reached_app,
  r.user_id AS reached
FROM reached AS r
LEFT JOIN page AS p ON true
CROSS JOIN LATERAL (
  SELECT count(*) AS sessions, max(updated_at) AS updated_at
  FROM {schema}.sessions
  WHERE app_name = p.app_name AND user_id = p.user_id
    AND (expires_at IS NULL OR expires_at > now())
) AS s
CROSS JOIN LATERAL (
  SELECT count(*) AS memories
  FROM {schema}.memories
  WHERE app_name = p.app_name AND user_id = p.user_id
) AS m
ORDER BY p.app_name, p.user_id;

-- name: first_app
-- `{table}` is each table of persons.
(SELECT min(t.app_name) FROM {schema}.{table} AS t WHERE t.app_name >= w.next)

-- name: row_of_user
(SELECT true FROM {schema}.{table} AS t
  WHERE t.app_name = w.app_name AND t.user_id = :user_id LIMIT 1)

-- name: select_apps_of
WITH RECURSIVE walk AS (
  -- Each app is looked up in the keys after the one before, so no table is read through. No name
  -- has NUL, so the next one by its bytes is the name with a \x01 after it.
  SELECT NULL::text COLLATE "C" AS app_name, ''::text COLLATE "C" AS next
  UNION ALL
  SELECT found.app_name, found.app_name || E'\x01'
  FROM walk AS w
  CROSS JOIN LATERAL (SELECT least({firsts}) AS app_name) AS found
  WHERE found.app_name IS NOT NULL
), kept AS (
  -- The first table that has a row of the user ends the search.
  SELECT w.app_name
  FROM walk AS w
  WHERE coalesce({rows_of_user})
)
SELECT k.app_name, s.sessions, m.memories, f.files, greatest(s.seen_at, m.seen_at) AS seen_at
FROM kept AS k
CROSS JOIN LATERAL (
  SELECT count(*) AS sessions, max(updated_at) AS seen_at
  FROM {schema}.sessions
  WHERE app_name = k.app_name AND user_id = :user_id
) AS s
CROSS JOIN LATERAL (
  SELECT count(*) AS memories, max(timestamp) AS seen_at
  FROM {schema}.memories
  WHERE app_name = k.app_name AND user_id = :user_id
) AS m
CROSS JOIN LATERAL (
  SELECT count(DISTINCT (session_id, name)) AS files
  FROM {schema}.artifacts
  WHERE app_name = k.app_name AND user_id = :user_id
) AS f
ORDER BY k.app_name;
