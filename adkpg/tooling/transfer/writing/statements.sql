-- name: select_sessions
SELECT s.app_name, s.user_id, s.session_id, s.revision, s.state::text
FROM unnest(:app_names::text[], :user_ids::text[], :session_ids::text[])
  AS given (app_name, user_id, session_id)
JOIN {schema}.sessions AS s
  ON s.app_name = given.app_name AND s.user_id = given.user_id
  AND s.session_id = given.session_id;

-- name: hold_sessions
SELECT s.app_name, s.user_id, s.session_id, s.revision, s.state::text
FROM unnest(:app_names::text[], :user_ids::text[], :session_ids::text[])
  AS given (app_name, user_id, session_id)
JOIN {schema}.sessions AS s
  ON s.app_name = given.app_name AND s.user_id = given.user_id
  AND s.session_id = given.session_id
ORDER BY s.app_name, s.user_id, s.session_id
FOR UPDATE OF s;

-- name: select_windows
SELECT e.app_name, e.user_id, e.session_id, e.seq, e.event_id
FROM unnest(
  :app_names::text[], :user_ids::text[], :session_ids::text[], :firsts::bigint[], :lasts::bigint[]
) AS given (app_name, user_id, session_id, first, last)
JOIN {schema}.events AS e
  ON e.app_name = given.app_name AND e.user_id = given.user_id
  AND e.session_id = given.session_id AND e.seq BETWEEN given.first AND given.last;

-- name: select_payloads
SELECT seq, payload::text
FROM {schema}.events
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
  AND seq BETWEEN :first AND :last;

-- name: select_digests
SELECT s.app_name, s.user_id, s.session_id, s.revision,
  s.state = given.state::jsonb AS same_state,
  encode(sha256(coalesce((
    SELECT string_agg(sha256(convert_to(e.payload::text, 'UTF8')), '' ORDER BY e.seq)
    FROM {schema}.events AS e
    WHERE e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.session_id
      AND e.seq BETWEEN given.first AND given.last
  ), '')), 'hex') AS digest
FROM unnest(
  :app_names::text[], :user_ids::text[], :session_ids::text[], :firsts::bigint[],
  :lasts::bigint[], :states::text[]
) AS given (app_name, user_id, session_id, first, last, state)
JOIN {schema}.sessions AS s
  ON s.app_name = given.app_name AND s.user_id = given.user_id
  AND s.session_id = given.session_id;

-- name: select_known
SELECT event_id
FROM {schema}.events
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
  AND event_id = ANY (:event_ids) AND seq < :before;

-- name: insert_sessions
INSERT INTO {schema}.sessions AS s (
  app_name, user_id, session_id, state, revision, created_at, updated_at, settled_at,
  memory_position, payload_bytes, initial_state, ttl, expires_at, expires
)
SELECT app_name, user_id, session_id, state::jsonb, revision,
  -- No time lies ahead, because what is newest wins, and is not pruned.
  least(created_at, now()), least(updated_at, now()), least(updated_at, now()),
  position, size, initial_state::jsonb, make_interval(secs => ttl_s), ends, ends IS NOT NULL
FROM unnest(
  :app_names::text[], :user_ids::text[], :session_ids::text[], :states::text[],
  :revisions::bigint[], :created::timestamptz[], :updated::timestamptz[], :places::bigint[],
  :sizes::bigint[], :initials::text[], :ttls::float8[], :ends::timestamptz[]
) AS given (
  app_name, user_id, session_id, state, revision, created_at, updated_at, position, size,
  initial_state, ttl_s, ends
)
ORDER BY app_name, user_id, session_id
ON CONFLICT DO NOTHING
RETURNING s.app_name, s.user_id, s.session_id;

-- name: advance_sessions
UPDATE {schema}.sessions AS s
SET state = given.state::jsonb, revision = given.revision, revision_token = NULL,
  -- No time lies ahead, because what is newest wins, and is not pruned.
  updated_at = least(given.updated_at, now()), settled_at = least(given.updated_at, now()),
  ttl = coalesce(make_interval(secs => given.ttl_s), s.ttl),
  expires_at = coalesce(given.ends, s.expires_at), payload_bytes = s.payload_bytes + given.size,
  memory_position = coalesce(s.memory_position, given.position)
FROM unnest(
  :app_names::text[], :user_ids::text[], :session_ids::text[], :states::text[],
  :revisions::bigint[], :updated::timestamptz[], :places::bigint[], :sizes::bigint[],
  :ttls::float8[], :ends::timestamptz[]
) AS given (
  app_name, user_id, session_id, state, revision, updated_at, position, size, ttl_s, ends
)
WHERE s.app_name = given.app_name AND s.user_id = given.user_id
  AND s.session_id = given.session_id AND s.revision < given.revision;

-- name: insert_events
INSERT INTO {schema}.events (
  app_name, user_id, session_id, seq, event_id, timestamp, payload
)
SELECT app_name, user_id, session_id, seq, event_id, happened_at, payload::json
FROM unnest(
  :app_names::text[], :user_ids::text[], :session_ids::text[], :seqs::bigint[],
  :event_ids::text[], :timestamps::timestamptz[], :payloads::text[]
) AS given (app_name, user_id, session_id, seq, event_id, happened_at, payload);

-- name: merge_app_states
INSERT INTO {schema}.app_states AS stored (app_name, state, updated_at)
-- A state of unknown time is older than any that is stored, and none is of a time to come.
SELECT app_name, state::jsonb, least(coalesce(updated_at, to_timestamp(0)), now())
FROM unnest(:app_names::text[], :states::text[], :updated::timestamptz[])
  AS given (app_name, state, updated_at)
ORDER BY app_name
ON CONFLICT (app_name) DO UPDATE
SET state = CASE
    WHEN excluded.updated_at >= stored.updated_at THEN stored.state || excluded.state
    ELSE excluded.state || stored.state
  END,
  updated_at = greatest(stored.updated_at, excluded.updated_at)
RETURNING app_name, state::text AS state, updated_at;

-- name: merge_user_states
INSERT INTO {schema}.user_states AS stored (app_name, user_id, state, updated_at)
-- A state of unknown time is older than any that is stored, and none is of a time to come.
SELECT app_name, user_id, state::jsonb, least(coalesce(updated_at, to_timestamp(0)), now())
FROM unnest(:app_names::text[], :user_ids::text[], :states::text[], :updated::timestamptz[])
  AS given (app_name, user_id, state, updated_at)
ORDER BY app_name, user_id
ON CONFLICT (app_name, user_id) DO UPDATE
SET state = CASE
    WHEN excluded.updated_at >= stored.updated_at THEN stored.state || excluded.state
    ELSE excluded.state || stored.state
  END,
  updated_at = greatest(stored.updated_at, excluded.updated_at)
RETURNING app_name, user_id, state::text AS state, updated_at;
