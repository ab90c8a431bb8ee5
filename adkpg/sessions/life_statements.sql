-- name: select_initial_state
SELECT initial_state::text AS state
FROM {schema}.sessions
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
  AND (expires_at IS NULL OR expires_at > now()) AND incarnation = :incarnation::uuid;

-- name: fork_session
WITH given AS MATERIALIZED (
  -- The state is made once, and measured.
  SELECT :state::jsonb AS state, coalesce(now() + :ttl::interval, :expires_at) AS expires_at
),
source AS (
  SELECT app_name, user_id
  FROM {schema}.sessions
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND (expires_at IS NULL OR expires_at > now()) AND incarnation = :incarnation::uuid
),
copied AS (
  SELECT coalesce(max(seq), 0) AS revision,
    coalesce(sum(octet_length(payload::text)), 0) AS payload_bytes
  FROM {schema}.events
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND seq <= :revision
),
made AS (
  INSERT INTO {schema}.sessions (
    app_name, user_id, session_id, incarnation, revision, payload_bytes, state, initial_state,
    created_at, updated_at, ttl, expires_at, expires
  )
  SELECT source.app_name, source.user_id, :fork_id, :fork_incarnation::uuid, copied.revision,
    copied.payload_bytes,
    -- A state that is too large is null, which its column refuses.
    CASE WHEN pg_column_size(given.state) <= :state_limit THEN given.state END,
    :initial_state::jsonb, :timestamp, :updated_at, :ttl, given.expires_at,
    given.expires_at IS NOT NULL
  FROM source CROSS JOIN copied CROSS JOIN given
  ON CONFLICT DO NOTHING
  RETURNING app_name, user_id, session_id
),
filled AS (
  INSERT INTO {schema}.events (app_name, user_id, session_id, seq, event_id, timestamp, payload)
  SELECT made.app_name, made.user_id, made.session_id, e.seq, e.event_id, e.timestamp, e.payload
  FROM made
  CROSS JOIN {schema}.events AS e
  WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
    AND e.seq <= :revision
),
copies AS (
  SELECT session_id FROM made
  UNION ALL
  SELECT session_id
  FROM {schema}.sessions
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :fork_id
    AND incarnation = :fork_incarnation::uuid
)
SELECT session_id FROM copies;

-- name: merge_states
SELECT {schema}.merge_states_1(
  :app_name, :user_id, :app_delta, :user_delta, :state_limit, :writer_limit, :scope, '{schema}'
) AS answer;

-- name: find_events
SELECT e.session_id, e.seq, e.timestamp, e.payload::text
FROM {schema}.events AS e
WHERE e.app_name = :app_name AND e.user_id = :user_id
  AND e.timestamp >= coalesce(:after::timestamptz, '-infinity')
  AND e.timestamp < coalesce(:before::timestamptz, 'infinity')
  AND (e.timestamp, e.session_id, e.seq) < (
    coalesce(:last_time::timestamptz, 'infinity'), coalesce(:last_session_id, ''),
    coalesce(:last_seq::bigint, 0)
  )
  AND NOT EXISTS (
    SELECT FROM unnest(:patterns::text[]) AS word (variants)
    -- The variants of one word lie in one text, divided by a character that no JSON text holds.
    WHERE NOT e.payload::text ILIKE ANY (string_to_array(word.variants, E'\x1f'))
  )
  AND EXISTS (
    SELECT FROM {schema}.sessions AS s
    WHERE s.app_name = e.app_name AND s.user_id = e.user_id AND s.session_id = e.session_id
      AND (s.expires_at IS NULL OR s.expires_at > now())
  )
ORDER BY e.timestamp DESC, e.session_id DESC, e.seq DESC
LIMIT :limit;

-- name: find_events_of_session
-- As `find_events`; the session is what its index is asked for.
SELECT e.session_id, e.seq, e.timestamp, e.payload::text
FROM {schema}.events AS e
WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
  AND e.timestamp >= coalesce(:after::timestamptz, '-infinity')
  AND e.timestamp < coalesce(:before::timestamptz, 'infinity')
  AND (e.timestamp, e.session_id, e.seq) < (
    coalesce(:last_time::timestamptz, 'infinity'), coalesce(:last_session_id, ''),
    coalesce(:last_seq::bigint, 0)
  )
  AND NOT EXISTS (
    SELECT FROM unnest(:patterns::text[]) AS word (variants)
    WHERE NOT e.payload::text ILIKE ANY (string_to_array(word.variants, E'\x1f'))
  )
  AND EXISTS (
    SELECT FROM {schema}.sessions AS s
    WHERE s.app_name = e.app_name AND s.user_id = e.user_id AND s.session_id = e.session_id
      AND (s.expires_at IS NULL OR s.expires_at > now())
  )
ORDER BY e.timestamp DESC, e.session_id DESC, e.seq DESC
LIMIT :limit;

-- name: select_openings
-- The first words of a session are looked for in its first three events, if they are short.
SELECT user_id, session_id, count(*) AS events,
  array_agg(
    CASE WHEN octet_length(payload::text) <= 20000 THEN payload::text END ORDER BY seq
  ) FILTER (WHERE seq <= 3) AS payloads
FROM {schema}.events
WHERE app_name = :app_name AND user_id = ANY (:user_ids) AND session_id = ANY (:session_ids)
GROUP BY user_id, session_id;
