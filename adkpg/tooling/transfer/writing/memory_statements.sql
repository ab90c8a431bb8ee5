-- name: select_stored
SELECT memory_id, position, digest, custom_metadata::text, topics::text,
  importance::float8 AS importance, expires_at
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND memory_id = ANY (:memory_ids);

-- name: select_taken
SELECT position
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND position = ANY (:positions);

-- name: select_barred
SELECT given.session_id, given.event_id
FROM unnest(:session_ids::text[], :event_ids::text[], :memory_ids::text[])
  AS given (session_id, event_id, memory_id)
WHERE EXISTS (
    SELECT FROM {schema}.memory_tombstones AS t
    WHERE t.app_name = :app_name AND t.user_id = :user_id
      AND t.session_id = given.session_id AND t.event_id = given.event_id
  ) OR EXISTS (
    SELECT FROM {schema}.memories AS m
    WHERE m.app_name = :app_name AND m.user_id = :user_id
      AND m.session_id = given.session_id AND m.event_id = given.event_id
      AND m.memory_id <> given.memory_id
  );

-- name: complete_memories
WITH completed AS (
  UPDATE {schema}.memories AS m
  SET created_at = coalesce(given.created_at, m.created_at), superseded_by = given.superseded_by,
    extracted_at = given.extracted_at
  FROM unnest(
    :memory_ids::text[], :created::timestamptz[], :superseded::text[], :extracted::timestamptz[]
  ) AS given (memory_id, created_at, superseded_by, extracted_at)
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.memory_id = given.memory_id
  RETURNING m.position, m.extracted_at
),
done AS (
  DELETE FROM {schema}.memory_jobs AS j
  USING completed AS c
  WHERE j.app_name = :app_name AND j.user_id = :user_id AND j.work = 'extract'
    AND j.position = c.position AND c.extracted_at IS NOT NULL
)
SELECT count(*) AS completed FROM completed;

-- name: insert_origins
INSERT INTO {schema}.memory_provenance (app_name, user_id, memory_id, origin_id)
SELECT drawn.app_name, drawn.user_id, given.memory_id, given.origin_id
FROM unnest(:memory_ids::text[], :origin_ids::text[]) AS given (memory_id, origin_id)
JOIN {schema}.memories AS drawn
  ON drawn.app_name = :app_name AND drawn.user_id = :user_id
  AND drawn.memory_id = given.memory_id
JOIN {schema}.memories AS origin
  ON origin.app_name = :app_name AND origin.user_id = :user_id
  AND origin.memory_id = given.origin_id
ON CONFLICT DO NOTHING;

-- name: insert_tombstone
INSERT INTO {schema}.memory_tombstones AS t (app_name, user_id, session_id, event_id, needed_at)
VALUES (:app_name, :user_id, :session_id, :event_id, :needed_at)
ON CONFLICT (app_name, user_id, session_id, event_id) DO UPDATE
SET needed_at = greatest(t.needed_at, excluded.needed_at);

-- name: settle_app
WITH settled AS (
  INSERT INTO {schema}.app_settings (app_name, text_search_config, extract_facts)
  SELECT :app_name,
    CASE WHEN (
      :text_search_config::text IS NULL OR EXISTS (
        SELECT 1 FROM pg_ts_config WHERE cfgname = :text_search_config
      )
    ) AND NOT EXISTS (
      SELECT 1 FROM {schema}.memories AS m WHERE m.app_name = :app_name
    ) THEN :text_search_config END,
    :extract_facts::boolean
  ON CONFLICT DO NOTHING
)
SELECT :text_search_config::text IS NULL OR EXISTS (
    SELECT 1 FROM pg_ts_config WHERE cfgname = :text_search_config
  ) AS known;

-- name: activate_model
UPDATE {schema}.app_settings
SET model_id = (
    SELECT m.model_id
    FROM {schema}.embedding_models AS m
    WHERE m.name = :model AND m.dimensions = :dimensions
  )
WHERE app_name = :app_name AND model_id IS NULL;
