-- Where a session is asked for, a plan that is kept for any reads all rows of its user by the key.
-- An export does so once for each kind, so that is no query of its own.

-- name: select_settings
SELECT s.text_search_config, s.extract_facts, m.name AS model, m.dimensions
FROM {schema}.app_settings AS s
LEFT JOIN {schema}.embedding_models AS m ON m.model_id = s.model_id
WHERE s.app_name = :app_name;

-- name: select_app_state
SELECT state::text, updated_at
FROM {schema}.app_states
WHERE app_name = :app_name;

-- name: select_user_states
SELECT user_id, state::text, updated_at
FROM {schema}.user_states
WHERE app_name = :app_name AND user_id >= :first_user
ORDER BY user_id
LIMIT :limit;

-- name: select_user_state
SELECT user_id, state::text, updated_at
FROM {schema}.user_states
WHERE app_name = :app_name AND user_id = :user_id;

-- name: select_tombstones_of_app
SELECT user_id, session_id, event_id, needed_at
FROM {schema}.memory_tombstones
WHERE app_name = :app_name
  AND (user_id, session_id, event_id) > (:after_user, :after_session, :after_event)
ORDER BY user_id, session_id, event_id
LIMIT :limit;

-- name: select_tombstones_of_user
SELECT user_id, session_id, event_id, needed_at
FROM {schema}.memory_tombstones
WHERE app_name = :app_name AND user_id = :user_id
  AND (:session_id::text IS NULL OR session_id = :session_id)
  AND (user_id, session_id, event_id) > (:after_user, :after_session, :after_event)
ORDER BY user_id, session_id, event_id
LIMIT :limit;

-- name: select_sessions_of_app
SELECT user_id, session_id, state::text, revision, created_at, updated_at, memory_position,
  initial_state::text, extract(epoch FROM ttl)::float8 AS ttl_s, expires_at
FROM {schema}.sessions
WHERE app_name = :app_name AND (user_id, session_id) > (:after_user, :after_session)
ORDER BY user_id, session_id
LIMIT :limit;

-- name: select_sessions_of_user
SELECT user_id, session_id, state::text, revision, created_at, updated_at, memory_position,
  initial_state::text, extract(epoch FROM ttl)::float8 AS ttl_s, expires_at
FROM {schema}.sessions
WHERE app_name = :app_name AND user_id = :user_id
  AND (:session_id::text IS NULL OR session_id = :session_id)
  AND (user_id, session_id) > (:after_user, :after_session)
ORDER BY user_id, session_id
LIMIT :limit;

-- name: select_events
SELECT user_id, session_id, seq, payload::text
FROM {schema}.events
WHERE app_name = :app_name
  AND (user_id, session_id, seq) > (:after_user, :after_session, :after_seq)
  AND (user_id, session_id) <= (:last_user, :last_session)
ORDER BY user_id, session_id, seq
LIMIT :limit;

-- name: select_memories_of_app
SELECT user_id, position, memory_id, kind, session_id, event_id, invocation_id, author, timestamp,
  -- As `records.plain_content` writes it, where the body says it all.
  coalesce(content::text, concat(
    '{"parts":[{"text":',
    to_json(substr(body, coalesce(length(author) + 3, 1)))::text,
    CASE
      WHEN author IS NULL THEN '}]}'
      WHEN author = 'user' THEN '}],"role":"user"}'
      ELSE '}],"role":"model"}'
    END
  )) AS content,
  body, custom_metadata::text, source, artifacts::text, topics::text, importance, expires_at,
  digest, created_at, superseded_by, extracted_at
FROM {schema}.memories
WHERE app_name = :app_name AND (kind IN ('fact', 'summary')) = :derived
  AND (user_id, position) > (:after_user, :after_position)
ORDER BY user_id, position
LIMIT :limit;

-- name: select_memories_of_user
SELECT user_id, position, memory_id, kind, session_id, event_id, invocation_id, author, timestamp,
  -- As `records.plain_content` writes it, where the body says it all.
  coalesce(content::text, concat(
    '{"parts":[{"text":',
    to_json(substr(body, coalesce(length(author) + 3, 1)))::text,
    CASE
      WHEN author IS NULL THEN '}]}'
      WHEN author = 'user' THEN '}],"role":"user"}'
      ELSE '}],"role":"model"}'
    END
  )) AS content,
  body, custom_metadata::text, source, artifacts::text, topics::text, importance, expires_at,
  digest, created_at, superseded_by, extracted_at
FROM {schema}.memories AS m
WHERE app_name = :app_name AND user_id = :user_id AND (kind IN ('fact', 'summary')) = :derived
  AND (
    :session_id::text IS NULL
    OR session_id = :session_id
    -- Of a session comes what was drawn from its own, too.
    OR (:derived AND EXISTS (
      SELECT FROM {schema}.memory_provenance AS p
      JOIN {schema}.memories AS origin
        ON origin.app_name = p.app_name AND origin.user_id = p.user_id
        AND origin.memory_id = p.origin_id
      WHERE p.app_name = m.app_name AND p.user_id = m.user_id AND p.memory_id = m.memory_id
        AND origin.session_id = :session_id
    ))
  )
  AND (user_id, position) > (:after_user, :after_position)
ORDER BY user_id, position
LIMIT :limit;

-- name: select_artifacts_of_app
SELECT user_id, session_id, name, version, artifact_id::text, part::text, mime_type,
  custom_metadata::text, size, location, created_at
FROM {schema}.artifacts
WHERE app_name = :app_name
  AND (user_id, session_id, name, version)
    > (:after_user, :after_session, :after_name, :after_version)
ORDER BY user_id, session_id, name, version
LIMIT :limit;

-- name: select_artifacts_of_user
SELECT user_id, session_id, name, version, artifact_id::text, part::text, mime_type,
  custom_metadata::text, size, location, created_at
FROM {schema}.artifacts
WHERE app_name = :app_name AND user_id = :user_id
  AND (:session_id::text IS NULL OR session_id = :session_id)
  AND (user_id, session_id, name, version)
    > (:after_user, :after_session, :after_name, :after_version)
ORDER BY user_id, session_id, name, version
LIMIT :limit;

-- name: select_origins
SELECT memory_id, origin_id
FROM {schema}.memory_provenance
WHERE app_name = :app_name AND user_id = :user_id AND memory_id = ANY (:memory_ids)
ORDER BY memory_id, origin_id;
