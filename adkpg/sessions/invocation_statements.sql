-- name: begin
WITH before AS (
  SELECT invocation_holder, invocation_expires_at, invocation_lease_s
  FROM {schema}.sessions
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND (expires_at IS NULL OR expires_at > now())
),
done AS (
  SELECT result::text AS result
  FROM {schema}.invocation_results
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND idempotency_key = :key AND expires_at > now()
),
own AS (
  SELECT since, holder
  FROM {schema}.invocation_waiters
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND holder = :holder::uuid
),
ahead AS (
  SELECT w.holder
  FROM {schema}.invocation_waiters AS w
  LEFT JOIN own ON true
  WHERE w.app_name = :app_name AND w.user_id = :user_id AND w.session_id = :session_id
    -- Who has stopped asking is passed over, also if the clock has gone back since.
    AND w.holder <> :holder
    AND w.seen_at BETWEEN now() - interval '2 seconds' AND now() + interval '2 seconds'
    AND (own.holder IS NULL OR (w.since, w.holder) < (own.since, own.holder))
),
taken AS (
  UPDATE {schema}.sessions AS s
  SET invocation_holder = :holder,
    invocation_expires_at = now() + make_interval(secs => :lease_s),
    invocation_lease_s = :lease_s
  FROM before
  WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
    -- The caller that was waited for may have finished this key, which the snapshot cannot show.
    AND s.invocation_holder IS NOT DISTINCT FROM before.invocation_holder
    AND s.invocation_expires_at IS NOT DISTINCT FROM before.invocation_expires_at
    AND (
      s.invocation_holder = :holder AND s.invocation_expires_at IS NOT NULL
      OR (
        s.invocation_expires_at IS NULL OR s.invocation_expires_at <= now()
        OR s.invocation_expires_at = :unrenewed
      ) AND NOT EXISTS (SELECT FROM ahead)
    )
    AND NOT EXISTS (SELECT FROM done)
  RETURNING s.session_id
),
waits AS (
  INSERT INTO {schema}.invocation_waiters (app_name, user_id, session_id, holder)
  SELECT app_name, user_id, session_id, :holder
  FROM {schema}.sessions
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND NOT EXISTS (SELECT FROM taken) AND NOT EXISTS (SELECT FROM done)
  ON CONFLICT (app_name, user_id, session_id, holder) DO UPDATE SET seen_at = excluded.seen_at
),
left_line AS (
  DELETE FROM {schema}.invocation_waiters
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND (
      holder = :holder
      OR seen_at NOT BETWEEN now() - interval '60 seconds' AND now() + interval '60 seconds'
    )
    AND (EXISTS (SELECT FROM taken) OR EXISTS (SELECT FROM done))
)
SELECT EXISTS (SELECT FROM taken) AS taken, (SELECT count(*) FROM ahead) AS ahead,
  EXISTS (SELECT FROM done) AS done, (SELECT result FROM done) AS result,
  before.invocation_expires_at AS holds_until,
  coalesce(before.invocation_lease_s, :lease_s) AS lease_s
FROM before;

-- name: renew
UPDATE {schema}.sessions
SET invocation_expires_at = now() + make_interval(secs => :lease_s)
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
  AND invocation_holder = :holder::uuid AND invocation_expires_at IS NOT NULL
RETURNING session_id;

-- name: end
WITH ended AS (
  UPDATE {schema}.sessions
  SET invocation_expires_at = NULL
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND invocation_holder = :holder::uuid
  RETURNING app_name, user_id, session_id
),
left_line AS (
  DELETE FROM {schema}.invocation_waiters
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND holder = :holder
),
kept AS (
  INSERT INTO {schema}.invocation_results
    (app_name, user_id, session_id, idempotency_key, holder, result, expires_at)
  SELECT app_name, user_id, session_id, :key, :holder, :result::json,
    now() + make_interval(secs => :ttl_s)
  FROM ended
  WHERE :key::text IS NOT NULL
  ON CONFLICT (app_name, user_id, session_id, idempotency_key)
  DO UPDATE SET holder = excluded.holder, result = excluded.result,
    expires_at = excluded.expires_at
),
expired AS (
  DELETE FROM {schema}.invocation_results
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND idempotency_key <> :key AND expires_at <= now()
)
SELECT EXISTS (SELECT FROM ended)
  -- Its answer may have been lost, and another have begun since.
  OR EXISTS (
    SELECT FROM {schema}.invocation_results
    WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
      AND idempotency_key = :key AND holder = :holder
  ) AS ended;
