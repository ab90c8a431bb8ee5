-- name: insert_artifacts
INSERT INTO {schema}.artifacts (
  app_name, user_id, session_id, name, version, artifact_id, part, mime_type, custom_metadata,
  size, location, created_at
)
SELECT :app_name, :user_id, session_id, name, version, artifact_id::uuid, part::json, mime_type,
  custom_metadata::json, size, location, created_at
FROM unnest(
  :session_ids::text[], :names::text[], :versions::int[], :artifact_ids::text[], :parts::text[],
  :mime_types::text[], :custom_metadata::text[], :sizes::bigint[], :locations::text[],
  :created::timestamptz[]
) AS given (
  session_id, name, version, artifact_id, part, mime_type, custom_metadata, size, location,
  created_at
)
ON CONFLICT DO NOTHING;

-- name: insert_chunks
INSERT INTO {schema}.artifact_chunks (app_name, user_id, artifact_id, chunk, data)
SELECT a.app_name, a.user_id, a.artifact_id, given.chunk, given.data
FROM unnest(
  :session_ids::text[], :names::text[], :versions::int[], :sizes::bigint[], :artifact_ids::text[],
  :chunks::int[], :data::bytea[]
) AS given (session_id, name, version, size, artifact_id, chunk, data)
JOIN {schema}.artifacts AS a
  ON a.app_name = :app_name AND a.user_id = :user_id AND a.artifact_id = given.artifact_id::uuid
  AND a.session_id = given.session_id AND a.name = given.name AND a.version = given.version
  AND a.size = given.size
WHERE a.location IS NULL
ON CONFLICT DO NOTHING;

-- name: select_artifacts
SELECT a.session_id, a.name, a.version, a.artifact_id::text, a.location
FROM unnest(:session_ids::text[], :names::text[], :versions::int[])
  AS given (session_id, name, version)
JOIN {schema}.artifacts AS a
  ON a.app_name = :app_name AND a.user_id = :user_id AND a.session_id = given.session_id
  AND a.name = given.name AND a.version = given.version;

-- name: select_chunks
SELECT c.artifact_id::text, c.chunk, c.data
FROM unnest(:artifact_ids::text[], :chunks::int[]) AS given (artifact_id, chunk)
JOIN {schema}.artifact_chunks AS c
  ON c.app_name = :app_name AND c.user_id = :user_id
  AND c.artifact_id = given.artifact_id::uuid AND c.chunk = given.chunk;
