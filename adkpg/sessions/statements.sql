-- name: create_session
SELECT {schema}.create_session_1(
  :app_name, :user_id, :session_id, :incarnation, :session_state, :initial_state, :app_delta,
  :user_delta, :state_limit, :writer_limit, :timestamp, :ttl, :expires_at, :scope, '{schema}'
) AS answer;

-- name: append_event
SELECT {schema}.append_event_1(
  :app_name, :user_id, :session_id, :event_id, :timestamp, :payload, :session_delta, :app_delta,
  :user_delta, :state_limit, :writer_limit, :incarnation, :revision, :revision_token, :token,
  :merge, :holder, :place, :memories, :config, :scope, '{schema}'
) AS answer;

-- name: select_head
-- The token of a revision is read in the order of the primary key: before a first ANALYZE Postgres
-- finds the index of event ids as good, and reads all of them.
SELECT s.incarnation::text AS found_incarnation, s.revision AS found_revision, (
    SELECT last.revision_token::text
    FROM (
      SELECT e.seq, e.revision_token
      FROM {schema}.events AS e
      WHERE e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.session_id
        AND e.seq >= s.revision
      ORDER BY e.seq
      LIMIT 1
    ) AS last
    WHERE last.seq = s.revision
  ) AS found_token,
  -- A holder whose lease lapsed has the session until another begins.
  :holder::uuid IS NULL
    OR s.invocation_holder = :holder AND s.invocation_expires_at IS NOT NULL AS found_held,
  s.updated_at, (
    SELECT e.event_id
    FROM {schema}.events AS e
    WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
    ORDER BY e.seq DESC
    LIMIT 1
  ) AS last_event_id,
  :last_event_id::text IS NOT NULL AND NOT EXISTS (
    SELECT FROM {schema}.events AS e
    WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
      AND e.event_id = :last_event_id
  ) AS lacks_last,
  s.revision < :revision OR :revision_token::uuid <> (
    SELECT there.revision_token
    FROM (
      SELECT e.seq, e.revision_token
      FROM {schema}.events AS e
      WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
        AND e.seq >= :revision
      ORDER BY e.seq
      LIMIT 1
    ) AS there
    WHERE there.seq = :revision
  ) AS went_back,
  stored.seq AS stored_seq, stored.revision_token::text AS stored_token,
  stored.payload::text AS stored_payload
FROM {schema}.sessions AS s
LEFT JOIN {schema}.events AS stored
  ON stored.app_name = :app_name AND stored.user_id = :user_id
  AND stored.session_id = :session_id AND stored.event_id = :event_id
WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
  AND (s.expires_at IS NULL OR s.expires_at > now());

-- name: await_append
SELECT revision
FROM {schema}.sessions
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
FOR SHARE;

-- name: delete_expired_session
DELETE FROM {schema}.sessions
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
  AND expires_at <= now();
