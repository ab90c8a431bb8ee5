-- name: begin_upload
WITH person AS MATERIALIZED (
  -- Waits for a call that forgets the person, and makes it wait, to the transaction's end.
  SELECT pg_advisory_xact_lock_shared(
    hashtextextended(jsonb_build_array(:app_name::text, :user_id::text)::text, 0)
  ) AS locked
),
session AS MATERIALIZED (
  -- The session, if it is stored, is held; the count makes the person come first.
  SELECT s.session_id
  FROM {schema}.sessions AS s
  WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
    AND (SELECT count(*) FROM person) >= 0
  FOR KEY SHARE
),
fate AS MATERIALIZED (
  -- It was stored when the statement began, and who waited to hold it found it deleted.
  SELECT EXISTS (
      SELECT FROM {schema}.sessions AS s
      WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
    ) AND NOT EXISTS (SELECT FROM session) AS is_gone
),
noted AS (
  INSERT INTO {schema}.artifact_uploads (app_name, user_id, session_id, artifact_id, location)
  SELECT :app_name, :user_id, :session_id, :artifact_id::uuid, :location
  WHERE NOT (SELECT is_gone FROM fate)
  ON CONFLICT DO NOTHING
)
SELECT is_gone FROM fate;

-- name: end_upload
DELETE FROM {schema}.artifact_uploads
WHERE app_name = :app_name AND user_id = :user_id AND artifact_id = :artifact_id::uuid
RETURNING artifact_id;

-- name: save
WITH person AS MATERIALIZED (
  -- Waits for a call that forgets the person, and makes it wait, to the transaction's end.
  SELECT pg_advisory_xact_lock_shared(
    hashtextextended(jsonb_build_array(:app_name::text, :user_id::text)::text, 0)
  ) AS locked
),
session AS MATERIALIZED (
  -- The session, if it is stored, is held; the count makes the person come first.
  SELECT s.session_id
  FROM {schema}.sessions AS s
  WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
    AND (SELECT count(*) FROM person) >= 0
  FOR KEY SHARE
),
gone AS MATERIALIZED (
  -- It was stored when the statement began, and who waited to hold it found it deleted.
  SELECT EXISTS (
      SELECT FROM {schema}.sessions AS s
      WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
    ) AND NOT EXISTS (SELECT FROM session) AS is_gone
),
begun AS MATERIALIZED (
  -- Locked, so that one that was deleted while this waited is seen to be gone.
  SELECT u.artifact_id
  FROM {schema}.artifact_uploads AS u
  WHERE u.app_name = :app_name AND u.user_id = :user_id AND u.artifact_id = :artifact_id::uuid
    AND :uploaded AND NOT (SELECT is_gone FROM gone)
  FOR UPDATE
),
fate AS MATERIALIZED (
  SELECT CASE
      WHEN :uploaded THEN NOT EXISTS (SELECT FROM begun)
      ELSE (SELECT is_gone FROM gone)
    END AS is_erased
),
known AS (
  -- What a run before this one stored, whose answer was lost.
  SELECT a.version
  FROM {schema}.artifacts AS a
  WHERE a.app_name = :app_name AND a.user_id = :user_id AND a.artifact_id = :artifact_id::uuid
),
made AS (
  INSERT INTO {schema}.artifacts (
    app_name, user_id, session_id, name, version, artifact_id, part, mime_type, custom_metadata,
    size, location, created_at
  )
  SELECT :app_name, :user_id, :session_id, :name, last.version, :artifact_id::uuid, :part::json,
    :mime_type, :custom_metadata::json, :size, :location, :created_at
  FROM (
    SELECT coalesce(max(a.version), -1) + 1 AS version
    FROM {schema}.artifacts AS a
    WHERE a.app_name = :app_name AND a.user_id = :user_id AND a.session_id = :session_id
      AND a.name = :name
  ) AS last
  WHERE NOT (SELECT is_erased FROM fate) AND NOT EXISTS (SELECT FROM known)
  ON CONFLICT DO NOTHING
  RETURNING app_name, user_id, artifact_id, version
),
filled AS (
  INSERT INTO {schema}.artifact_chunks (app_name, user_id, artifact_id, chunk, data)
  SELECT made.app_name, made.user_id, made.artifact_id, given.number - 1, given.data
  FROM made
  CROSS JOIN unnest(:data::bytea[]) WITH ORDINALITY AS given (data, number)
),
ended AS (
  DELETE FROM {schema}.artifact_uploads AS u
  WHERE u.app_name = :app_name AND u.user_id = :user_id AND :uploaded
    AND u.artifact_id IN (SELECT made.artifact_id FROM made)
),
stored AS (
  SELECT made.version FROM made
  UNION ALL
  SELECT known.version FROM known
  UNION ALL
  SELECT NULL
  WHERE (SELECT is_erased FROM fate) AND NOT EXISTS (SELECT FROM known)
)
SELECT version FROM stored;

-- name: lock_name
SELECT
  pg_advisory_xact_lock_shared(
    hashtextextended(jsonb_build_array(:app_name::text, :user_id::text)::text, 0)
  ) AS person,
  pg_advisory_xact_lock(
    hashtextextended(
      jsonb_build_array(:app_name::text, :user_id::text, :session_id::text, :name::text)::text, 1
    )
  ) AS name;

-- name: add_chunks
INSERT INTO {schema}.artifact_chunks (app_name, user_id, artifact_id, chunk, data)
SELECT :app_name, :user_id, :artifact_id::uuid, :first_chunk + given.number - 1, given.data
FROM unnest(:data::bytea[]) WITH ORDINALITY AS given (data, number)
ON CONFLICT DO NOTHING;

-- name: select_version
WITH found AS (
  SELECT a.artifact_id, a.version, a.part, a.mime_type, a.custom_metadata, a.size, a.location,
    a.created_at
  FROM {schema}.artifacts AS a
  WHERE a.app_name = :app_name AND a.user_id = :user_id AND a.session_id = :session_id
    AND a.name = :name
    -- A range: both ends of the key's last column are found by its index.
    AND a.version >= coalesce(:version, 0) AND a.version <= coalesce(:version, 2147483647)
  ORDER BY a.version DESC
  LIMIT 1
)
SELECT f.version, f.artifact_id::text, f.part::text, f.mime_type, f.custom_metadata::text,
  f.size, f.location, f.created_at,
  ARRAY(
    SELECT c.data
    FROM {schema}.artifact_chunks AS c
    WHERE c.app_name = :app_name AND c.user_id = :user_id
      AND c.artifact_id = (SELECT found.artifact_id FROM found)
      AND c.chunk < :chunk_count
    ORDER BY c.chunk
  ) AS chunks
FROM found AS f;

-- name: select_chunks
SELECT data
FROM {schema}.artifact_chunks
WHERE app_name = :app_name AND user_id = :user_id AND artifact_id = :artifact_id::uuid
  AND chunk >= :first_chunk AND chunk < :first_chunk + :chunk_count
ORDER BY chunk;

-- name: select_versions
SELECT version, artifact_id::text, part::text, mime_type, custom_metadata::text, size, location,
  created_at
FROM {schema}.artifacts
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id AND name = :name
ORDER BY version;

-- name: select_names
SELECT name
FROM {schema}.artifacts
WHERE app_name = :app_name AND user_id = :user_id AND session_id IN ('', :session_id)
GROUP BY name
ORDER BY name;

-- name: select_page
SELECT session_id, name, version, artifact_id::text, part::text, mime_type,
  custom_metadata::text, size, location, created_at
FROM {schema}.artifacts
WHERE app_name = :app_name AND user_id = :user_id
  AND (session_id, name, version) > (:after_session_id, :after_name, :after_version)
ORDER BY session_id, name, version
LIMIT :limit;

-- name: select_locations
SELECT location
FROM {schema}.artifacts
WHERE location = ANY (:locations);

-- name: select_removals
SELECT location
FROM {schema}.artifact_removals
ORDER BY location
LIMIT :limit;

-- name: note_removals
INSERT INTO {schema}.artifact_removals (location)
SELECT unnest(:locations::text[])
ON CONFLICT DO NOTHING;

-- name: delete_removals
DELETE FROM {schema}.artifact_removals
WHERE location = ANY (:locations);

-- name: select_claim
SELECT
  -- What a copy by dump or template has not: the server's identity and the database's.
  installation = (
    SELECT c.system_identifier || '/' || d.oid
    FROM pg_catalog.pg_control_system() AS c, pg_catalog.pg_database AS d
    WHERE d.datname = current_database()
  ) AS own,
  claimed_at > now() - interval '1 hour' AS fresh
FROM {schema}.artifact_claims
-- As text, because what a folder holds may be no uuid.
WHERE token::text = :token;

-- name: select_own_claim
SELECT token
FROM {schema}.artifact_claims
WHERE installation = (
  SELECT c.system_identifier || '/' || d.oid
  FROM pg_catalog.pg_control_system() AS c, pg_catalog.pg_database AS d
  WHERE d.datname = current_database()
)
LIMIT 1;

-- name: insert_claim
INSERT INTO {schema}.artifact_claims (token, installation)
SELECT :token::uuid, c.system_identifier || '/' || d.oid
FROM pg_catalog.pg_control_system() AS c, pg_catalog.pg_database AS d
WHERE d.datname = current_database();

-- name: delete_claims
DELETE FROM {schema}.artifact_claims
WHERE claimed_at < now() - interval '720 hours' AND token::text <> :token;

-- name: delete_artifact
DELETE FROM {schema}.artifacts
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id AND name = :name
RETURNING location;
