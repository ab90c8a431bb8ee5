-- name: select_expired
SELECT expires_at, app_name, user_id, position, session_id
FROM {schema}.memories
WHERE expires_at <= now() AND superseded_by IS NULL
  AND (expires_at, app_name, user_id, position) > (
    coalesce(:after_expires_at, '-infinity'::timestamptz), coalesce(:after_app_name, ''),
    coalesce(:after_user_id, ''), coalesce(:after_position, -9223372036854775808)
  )
ORDER BY expires_at, app_name, user_id, position
LIMIT :limit;

-- name: lock_free_positions
SELECT position
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND position = ANY (:positions)
ORDER BY position
FOR UPDATE SKIP LOCKED;

-- name: erase_expired_positions
-- What was drawn is locked in one order, because two sources may share facts. Words, vectors and
-- jobs go with their memory, by a trigger and foreign keys.
WITH chosen AS (
  SELECT app_name, user_id, memory_id, session_id, event_id
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = :user_id AND position = ANY (:positions)
    AND expires_at <= now() AND superseded_by IS NULL
  ORDER BY position
  FOR UPDATE
),
tombstones AS (
  INSERT INTO {schema}.memory_tombstones (app_name, user_id, session_id, event_id)
  SELECT app_name, user_id, session_id, event_id FROM chosen WHERE event_id IS NOT NULL
  ON CONFLICT DO NOTHING
),
drawn AS (
  SELECT m.app_name, m.user_id, m.memory_id
  FROM {schema}.memory_provenance AS p
  JOIN chosen
    ON p.origin_id = chosen.memory_id
    AND p.app_name = chosen.app_name AND p.user_id = chosen.user_id
  JOIN {schema}.memories AS m
    ON m.memory_id = p.memory_id AND m.app_name = p.app_name AND m.user_id = p.user_id
  ORDER BY m.position
  FOR UPDATE OF m
),
gone AS (
  SELECT app_name, user_id, memory_id FROM chosen
  UNION ALL
  SELECT app_name, user_id, memory_id FROM drawn
),
erased AS (
  DELETE FROM {schema}.memories AS m
  USING gone
  WHERE m.memory_id = gone.memory_id AND m.app_name = gone.app_name AND m.user_id = gone.user_id
  RETURNING m.memory_id
)
SELECT count(*) AS erased FROM erased;

-- name: select_expired_sessions
SELECT app_name, user_id, session_id
FROM {schema}.sessions
WHERE expires AND expires_at <= now()
  AND (app_name, user_id, session_id) > (:after_app_name, :after_user_id, :after_session_id)
ORDER BY app_name, user_id, session_id
LIMIT :limit;

-- name: delete_expired_sessions
-- Sessions that somebody writes to are passed over. The marks of memories that were deleted from
-- the others stay for a while: whoever still has such a session may add it to memory once again.
WITH locked AS (
  SELECT s.app_name, s.user_id, s.session_id
  FROM {schema}.sessions AS s
  JOIN unnest(:app_names::text[], :user_ids::text[], :session_ids::text[])
    AS given (app_name, user_id, session_id)
    ON s.app_name = given.app_name AND s.user_id = given.user_id
    AND s.session_id = given.session_id
  WHERE s.expires_at <= now()
  ORDER BY s.app_name, s.user_id, s.session_id
  FOR UPDATE OF s SKIP LOCKED
),
ending AS (
  UPDATE {schema}.memory_tombstones AS t
  SET needed_at = now()
  FROM locked
  WHERE t.app_name = locked.app_name AND t.user_id = locked.user_id
    AND t.session_id = locked.session_id
),
gone AS (
  DELETE FROM {schema}.sessions AS s
  USING locked
  WHERE s.app_name = locked.app_name AND s.user_id = locked.user_id
    AND s.session_id = locked.session_id
  RETURNING s.app_name, s.user_id, s.session_id
)
SELECT app_name, user_id, session_id FROM gone;

-- name: select_over_tombstones
SELECT app_name, user_id, session_id, event_id
FROM {schema}.memory_tombstones
WHERE needed_at < now() - make_interval(secs => :days::float8 * 86400)
ORDER BY needed_at, app_name, user_id, session_id, event_id
LIMIT :limit OFFSET :passed;

-- name: end_tombstones
-- A mark whose event is stored is renewed.
WITH old AS (
  SELECT t.app_name, t.user_id, t.session_id, t.event_id,
    EXISTS (
      SELECT
      FROM {schema}.events AS e
      WHERE e.app_name = t.app_name AND e.user_id = t.user_id
        AND e.session_id = t.session_id AND e.event_id = t.event_id
    ) AS needed
  FROM {schema}.memory_tombstones AS t
  WHERE t.needed_at < now() - make_interval(secs => :days::float8 * 86400)
    AND (t.app_name, t.user_id, t.session_id, t.event_id) IN (
      SELECT app_name COLLATE "C", user_id COLLATE "C", session_id COLLATE "C", event_id COLLATE "C"
      FROM unnest(:app_names::text[], :user_ids::text[], :session_ids::text[], :event_ids::text[])
        AS given (app_name, user_id, session_id, event_id)
    )
  FOR UPDATE SKIP LOCKED
),
deleted AS (
  DELETE FROM {schema}.memory_tombstones AS t
  USING old
  WHERE t.app_name = old.app_name AND t.user_id = old.user_id
    AND t.session_id = old.session_id AND t.event_id = old.event_id AND NOT old.needed
  RETURNING true AS gone
),
renewed AS (
  UPDATE {schema}.memory_tombstones AS t
  SET needed_at = now()
  FROM old
  WHERE t.app_name = old.app_name AND t.user_id = old.user_id
    AND t.session_id = old.session_id AND t.event_id = old.event_id AND old.needed
  RETURNING false AS gone
),
ended AS (
  SELECT gone FROM deleted
  UNION ALL
  SELECT gone FROM renewed
)
SELECT gone FROM ended;

-- name: select_over_results
SELECT app_name, user_id, session_id, idempotency_key
FROM {schema}.invocation_results
WHERE expires_at <= now()
ORDER BY expires_at, app_name, user_id, session_id, idempotency_key
LIMIT :limit OFFSET :passed;

-- name: end_results
DELETE FROM {schema}.invocation_results AS r
USING (
  SELECT o.app_name, o.user_id, o.session_id, o.idempotency_key
  FROM {schema}.invocation_results AS o
  WHERE o.expires_at <= now()
    AND (o.app_name, o.user_id, o.session_id, o.idempotency_key) IN (
      SELECT app_name COLLATE "C", user_id COLLATE "C", session_id COLLATE "C", key COLLATE "C"
      FROM unnest(
        :app_names::text[], :user_ids::text[], :session_ids::text[], :idempotency_keys::text[]
      ) AS given (app_name, user_id, session_id, key)
    )
  FOR UPDATE SKIP LOCKED
) AS old
WHERE r.app_name = old.app_name AND r.user_id = old.user_id
  AND r.session_id = old.session_id AND r.idempotency_key = old.idempotency_key
RETURNING true AS gone;

-- name: select_over_audit
SELECT app_name, user_id, audit_id::text AS audit_id
FROM {schema}.audit
WHERE changed_at < now() - make_interval(secs => :days::float8 * 86400)
ORDER BY changed_at, app_name, user_id, audit.audit_id
LIMIT :limit OFFSET :passed;

-- name: end_audit
DELETE FROM {schema}.audit AS a
USING (
  SELECT o.app_name, o.user_id, o.audit_id
  FROM {schema}.audit AS o
  WHERE o.changed_at < now() - make_interval(secs => :days::float8 * 86400)
    AND (o.app_name, o.user_id, o.audit_id) IN (
      SELECT app_name COLLATE "C", user_id COLLATE "C", audit_id::uuid
      FROM unnest(:app_names::text[], :user_ids::text[], :audit_ids::text[])
        AS given (app_name, user_id, audit_id)
    )
  FOR UPDATE SKIP LOCKED
) AS old
WHERE a.app_name = old.app_name AND a.user_id = old.user_id AND a.audit_id = old.audit_id
RETURNING true AS gone;
