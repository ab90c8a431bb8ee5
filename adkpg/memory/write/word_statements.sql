-- name: select_configs
SELECT cfgname::text AS name
FROM pg_ts_config
WHERE pg_ts_config_is_visible(oid)
UNION ALL
SELECT concat(n.nspname, '.', c.cfgname)
FROM pg_ts_config AS c
JOIN pg_namespace AS n ON n.oid = c.cfgnamespace;

-- name: select_config
SELECT text_search_config
FROM {schema}.app_settings
WHERE app_name = :app_name;

-- name: set_config
INSERT INTO {schema}.app_settings (app_name, text_search_config)
VALUES (:app_name, :own)
ON CONFLICT (app_name) DO UPDATE
SET text_search_config = excluded.text_search_config, updated_at = excluded.updated_at;

-- name: hold_writers
LOCK TABLE {schema}.memories IN EXCLUSIVE MODE;

-- name: count_app
SELECT count(*) AS memories
FROM {schema}.memories
WHERE app_name = :app_name;

-- name: select_bodies
SELECT user_id, position, author, body
FROM {schema}.memories
WHERE app_name = :app_name AND (user_id, position) > (:after_user, :after_position)
ORDER BY user_id, position
LIMIT :limit;

-- name: delete_words
DELETE FROM {schema}.memory_lexemes AS l
USING unnest(:user_ids::text[], :positions::bigint[]) AS given (user_id, position)
WHERE l.app_name = :app_name AND l.user_id = given.user_id AND l.position = given.position;

-- name: write_words
WITH given AS (
  SELECT g.user_id, g.position,
    to_tsvector(
      -- The app's own configuration, else the script's, else the one that is set.
      coalesce(
        (SELECT text_search_config FROM {schema}.app_settings WHERE app_name = :app_name),
        g.script, :config
      )::regconfig,
      g.words
    ) AS words
  FROM unnest(:user_ids::text[], :positions::bigint[], :words::text[], :scripts::text[])
    AS g (user_id, position, words, script)
),
measured AS (
  UPDATE {schema}.memories AS m
  SET length = (
      SELECT coalesce(sum(cardinality(word.positions)), 0) FROM unnest(given.words) AS word
    )
  FROM given
  WHERE m.app_name = :app_name AND m.user_id = given.user_id AND m.position = given.position
  RETURNING m.app_name, m.user_id, m.position, m.length
),
posted AS (
  INSERT INTO {schema}.memory_lexemes (
    app_name, user_id, lexeme, position, frequency, memory_length
  )
  SELECT m.app_name, m.user_id, word.lexeme, m.position, cardinality(word.positions), m.length
  FROM measured AS m
  JOIN given ON given.user_id = m.user_id AND given.position = m.position
  CROSS JOIN LATERAL unnest(given.words) AS word
  -- A key of app, user and lexeme must fit a B-tree entry.
  WHERE octet_length(word.lexeme) <= 512
  -- As the index has them: neighbours' pages are found in the caches.
  ORDER BY m.app_name, m.user_id, word.lexeme COLLATE "C", m.position
)
SELECT count(*) AS written FROM measured;
