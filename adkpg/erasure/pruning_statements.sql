-- name: select_scopes
SELECT m.app_name, m.user_id
FROM {schema}.memories AS m
WHERE (
    :max_memories::bigint IS NOT NULL
    OR m.expires_at <= now() AND m.superseded_by IS NULL
    OR :superseded AND m.superseded_by IS NOT NULL
    -- The importance is rounded as the column is.
    OR (:before::timestamptz IS NOT NULL OR :max_importance::real IS NOT NULL)
      AND m.superseded_by IS NULL AND m.kind = ANY (:kinds) AND m.user_id <> E'\x01app'
      AND m.timestamp < coalesce(:before, 'infinity')
      AND m.importance <= coalesce(:max_importance, 'infinity')
  )
  AND (:app_name::text IS NULL OR m.app_name = :app_name)
  AND (:of_user::text IS NULL OR m.user_id = :of_user)
  -- An app and a user may have no name, and are on the first page, too.
  AND (m.app_name, m.user_id)
    >= (coalesce(:after_app_name, :app_name, ''), coalesce(:after_user_id, ''))
  AND (m.app_name, m.user_id) IS DISTINCT FROM (:after_app_name, :after_user_id)
GROUP BY m.app_name, m.user_id
ORDER BY m.app_name, m.user_id
LIMIT :limit;

-- name: candidates
SELECT ranked.memory_id, ranked.position, ranked.session_id, ranked.reason
FROM (
  SELECT judged.memory_id, judged.position, judged.session_id, judged.reason, row_number() OVER (
      PARTITION BY judged.reason
      ORDER BY judged.importance DESC, judged.timestamp DESC, judged.position DESC
    ) AS place
  FROM (
    SELECT m.memory_id, m.position, m.session_id, m.importance, m.timestamp, {reason} AS reason
    FROM {schema}.memories AS m
    WHERE m.app_name = :app_name AND m.user_id = :user_id
  ) AS judged
  WHERE judged.reason IS NOT NULL
) AS ranked
WHERE ranked.reason <> 'surplus' OR ranked.place > :max_memories

-- name: select_candidates
SELECT c.position, c.session_id, c.reason
FROM ({candidates}) AS c
ORDER BY c.position;

-- name: select_reasons
WITH judged AS NOT MATERIALIZED (
  SELECT m.position, {reason} AS reason
  FROM {schema}.memories AS m
  WHERE m.app_name = :app_name AND m.user_id = :user_id
)
SELECT j.position, nullif(j.reason, 'surplus') AS reason,
  CASE
    WHEN j.reason = 'surplus'
    THEN (SELECT count(*) FROM judged AS every WHERE every.reason = 'surplus')
  END AS counted
FROM judged AS j
WHERE j.position = ANY (:positions)
ORDER BY j.position;

-- name: count_candidates
WITH candidates AS (
  {candidates}
),
counts AS (
  SELECT c.reason, count(*) AS memories
  FROM candidates AS c
  GROUP BY c.reason
  UNION ALL
  SELECT 'drawn', count(DISTINCT p.memory_id)
  FROM {schema}.memory_provenance AS p
  JOIN candidates AS c ON p.origin_id = c.memory_id
  WHERE p.app_name = :app_name AND p.user_id = :user_id
    AND NOT EXISTS (SELECT FROM candidates AS own WHERE own.memory_id = p.memory_id)
)
SELECT reason, memories FROM counts;

-- name: reason
CASE
  WHEN m.superseded_by IS NOT NULL THEN CASE WHEN :superseded THEN 'superseded' END
  WHEN m.expires_at <= now() THEN 'expired'
  -- All other rules are about a user's live memories of the kinds asked for.
  WHEN m.kind <> ALL (:kinds) OR m.user_id = E'\x01app' THEN NULL
  WHEN (:before::timestamptz IS NOT NULL OR :max_importance::real IS NOT NULL)
    AND m.timestamp < coalesce(:before, 'infinity')
    AND m.importance <= coalesce(:max_importance, 'infinity') THEN 'faded'
  WHEN :max_memories::bigint IS NOT NULL THEN 'surplus'
END
