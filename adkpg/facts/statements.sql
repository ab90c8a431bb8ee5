-- name: select_known
-- A transaction that waited has a now() before what it waited for, so the heir is asked for, too.
SELECT m.memory_id, m.position, m.body, m.topics::text AS topics,
  m.importance::float8 AS importance, m.timestamp, m.superseded_by, m.expires_at, true AS live,
  ARRAY(
    SELECT p.origin_id
    FROM {schema}.memory_provenance AS p
    WHERE p.memory_id = m.memory_id AND p.app_name = m.app_name AND p.user_id = m.user_id
    ORDER BY p.origin_id
  ) AS provenance
FROM {schema}.memories AS m
WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.kind = 'fact'
  AND (m.expires_at IS NULL OR m.expires_at > now()) AND m.superseded_by IS NULL
  AND (:memory_ids::text[] IS NULL OR m.memory_id = ANY (:memory_ids))
ORDER BY m.timestamp, m.position
LIMIT :limit;

-- name: select_to_merge
-- A transaction that waited has a now() before what it waited for, so a fact that was superseded
-- meanwhile may end later than that.
SELECT m.memory_id, m.position, m.body, m.topics::text AS topics,
  m.importance::float8 AS importance, m.timestamp, m.superseded_by, m.expires_at, state.live,
  ARRAY(
    SELECT p.origin_id
    FROM {schema}.memory_provenance AS p
    WHERE p.memory_id = m.memory_id AND p.app_name = m.app_name AND p.user_id = m.user_id
    ORDER BY p.origin_id
  ) AS provenance
FROM {schema}.memories AS m
CROSS JOIN LATERAL (
  SELECT (m.expires_at IS NULL OR m.expires_at > now()) AND m.superseded_by IS NULL AS live
) AS state
WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.kind = 'fact'
  AND (
    state.live OR m.timestamp >= :since
    OR m.expires_at >= now() - make_interval(secs => :within_s)
  )
ORDER BY m.timestamp, m.position;

-- name: select_turns
SELECT memory_id, position, event_id, author, timestamp, body, digest
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id AND kind = 'turn'
  AND (expires_at IS NULL OR expires_at > now())
  AND (
    :positions::bigint[] IS NULL
    OR EXISTS (
      SELECT
      FROM unnest(:positions::bigint[]) AS given (position)
      WHERE memories.position BETWEEN given.position - :reach::integer AND given.position
    )
  )
ORDER BY position;

-- name: select_summary
SELECT m.memory_id, m.kind, m.session_id, m.event_id, m.author, m.timestamp,
  m.content::text AS content, CASE WHEN m.content IS NULL THEN m.body END AS body,
  m.custom_metadata::text AS custom_metadata, m.source, m.artifacts::text AS artifacts,
  CASE WHEN jsonb_array_length(m.topics) > 0 THEN m.topics::text END AS topics,
  m.importance::float8 AS importance, m.expires_at, m.superseded_by, m.position,
  ARRAY(
    SELECT p.origin_id
    FROM {schema}.memory_provenance AS p
    WHERE p.memory_id = m.memory_id AND p.app_name = m.app_name AND p.user_id = m.user_id
    ORDER BY p.origin_id
  ) AS provenance
FROM {schema}.memories AS m
WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.session_id = :session_id
  AND m.kind = 'summary';

-- name: select_session_ids
SELECT DISTINCT session_id
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND memory_id = ANY (:memory_ids)
ORDER BY session_id;

-- name: lock_memories
SELECT m.memory_id, m.position, m.digest,
  EXISTS (
    SELECT
    FROM {schema}.memory_jobs AS j
    WHERE j.app_name = m.app_name AND j.user_id = m.user_id AND j.position = m.position
      AND j.work = 'extract'
  ) AS waiting
FROM {schema}.memories AS m
WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.memory_id = ANY (:memory_ids)
ORDER BY m.position
FOR UPDATE;

-- name: mark_extracted
UPDATE {schema}.memories
SET extracted_at = now()
WHERE app_name = :app_name AND user_id = :user_id AND memory_id = ANY (:memory_ids);

-- name: insert_provenance
INSERT INTO {schema}.memory_provenance (app_name, user_id, memory_id, origin_id)
SELECT :app_name, :user_id, given.memory_id, given.origin_id
FROM unnest(:memory_ids::text[], :related_ids::text[]) AS given (memory_id, origin_id)
ON CONFLICT DO NOTHING;

-- name: insert_repeated
-- A word counts if none of the named turns has it and at most three turns of the user do; the
-- latest of those joins. Words are read once: as one join, a user new to the server's statistics
-- takes minutes.
WITH known AS MATERIALIZED (
  SELECT p.memory_id, l.lexeme
  FROM {schema}.memory_provenance AS p
  JOIN {schema}.memories AS named
    ON named.memory_id = p.origin_id AND named.app_name = p.app_name AND named.user_id = p.user_id
  JOIN {schema}.memory_lexemes AS l
    ON l.app_name = :app_name AND l.user_id = :user_id AND l.position = named.position
    AND l.frequency > 0
  WHERE p.app_name = :app_name AND p.user_id = :user_id AND p.memory_id = ANY (:memory_ids)
),
tells AS MATERIALIZED (
  SELECT fact.app_name, fact.user_id, fact.memory_id, l.lexeme
  FROM {schema}.memories AS fact
  JOIN {schema}.memory_lexemes AS l
    ON l.app_name = :app_name AND l.user_id = :user_id AND l.position = fact.position
    AND l.frequency > 0
  WHERE fact.app_name = :app_name AND fact.user_id = :user_id
    AND fact.memory_id = ANY (:memory_ids)
),
says AS MATERIALIZED (
  SELECT turn.memory_id, turn.timestamp, turn.position, l.lexeme
  FROM {schema}.memories AS turn
  JOIN {schema}.memory_lexemes AS l
    ON l.app_name = :app_name AND l.user_id = :user_id AND l.position = turn.position
    AND l.frequency > 0
  WHERE turn.app_name = :app_name AND turn.user_id = :user_id
    AND turn.memory_id = ANY (:related_ids)
),
repeated AS (
  SELECT DISTINCT ON (tells.memory_id, tells.lexeme)
    tells.app_name, tells.user_id, tells.memory_id, says.memory_id AS origin_id
  FROM tells
  JOIN says ON says.lexeme = tells.lexeme
  WHERE NOT EXISTS (
      SELECT FROM known WHERE known.memory_id = tells.memory_id AND known.lexeme = tells.lexeme
    )
    AND NOT EXISTS (
      SELECT
      FROM {schema}.memories AS other
      JOIN {schema}.memory_lexemes AS l
        ON l.app_name = :app_name AND l.user_id = :user_id AND l.position = other.position
        AND l.frequency > 0
      WHERE other.app_name = :app_name AND other.user_id = :user_id AND other.kind = 'turn'
        AND l.lexeme = tells.lexeme
      OFFSET 3
    )
  ORDER BY tells.memory_id, tells.lexeme, says.timestamp DESC, says.position DESC
),
added AS (
  INSERT INTO {schema}.memory_provenance (app_name, user_id, memory_id, origin_id)
  SELECT app_name, user_id, memory_id, origin_id FROM repeated
  ON CONFLICT DO NOTHING
  RETURNING 1
)
SELECT count(*) AS added FROM added;

-- name: end_with_provenance
UPDATE {schema}.memories AS m
SET expires_at = least(m.expires_at, (
  SELECT min(origin.expires_at)
  FROM {schema}.memories AS origin
  JOIN {schema}.memory_provenance AS p
    ON p.origin_id = origin.memory_id
    AND p.app_name = origin.app_name AND p.user_id = origin.user_id
  WHERE p.memory_id = m.memory_id AND p.app_name = m.app_name AND p.user_id = m.user_id
))
WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.memory_id = ANY (:memory_ids)
  AND m.superseded_by IS NULL;

-- name: supersede
UPDATE {schema}.memories AS m
SET superseded_by = given.heir_id, expires_at = now()
FROM unnest(:memory_ids::text[], :related_ids::text[]) AS given (memory_id, heir_id)
WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.memory_id = given.memory_id
  AND m.kind = 'fact';

-- name: select_provenance
SELECT m.memory_id, m.kind, m.session_id, m.event_id, m.author, m.timestamp,
  m.content::text AS content, CASE WHEN m.content IS NULL THEN m.body END AS body,
  m.custom_metadata::text AS custom_metadata, m.source, m.artifacts::text AS artifacts,
  CASE WHEN jsonb_array_length(m.topics) > 0 THEN m.topics::text END AS topics,
  m.importance::float8 AS importance, m.expires_at, m.superseded_by, p.memory_id AS of_memory_id
FROM {schema}.memory_provenance AS p
JOIN {schema}.memories AS m
  ON m.memory_id = p.origin_id AND m.app_name = p.app_name AND m.user_id = p.user_id
WHERE p.app_name = :app_name AND p.user_id = :user_id AND p.memory_id = ANY (:memory_ids)
ORDER BY m.timestamp, m.position;

-- name: count_topics
SELECT each.topic, count(*) AS memories
FROM {schema}.memories AS m
CROSS JOIN LATERAL jsonb_array_elements_text(m.topics) AS each (topic)
WHERE m.app_name = :app_name AND m.user_id = :user_id
  AND (m.expires_at IS NULL OR m.expires_at > now())
GROUP BY each.topic
ORDER BY count(*) DESC, each.topic;

-- name: select_history
WITH RECURSIVE chain AS (
  SELECT memory_id, superseded_by
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = :user_id AND memory_id = :memory_id AND kind = 'fact'
  UNION
  SELECT m.memory_id, m.superseded_by
  FROM {schema}.memories AS m
  JOIN chain ON m.memory_id = chain.superseded_by OR m.superseded_by = chain.memory_id
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.kind = 'fact'
)
SELECT m.memory_id, m.kind, m.session_id, m.event_id, m.author, m.timestamp,
  m.content::text AS content, CASE WHEN m.content IS NULL THEN m.body END AS body,
  m.custom_metadata::text AS custom_metadata, m.source, m.artifacts::text AS artifacts,
  CASE WHEN jsonb_array_length(m.topics) > 0 THEN m.topics::text END AS topics,
  m.importance::float8 AS importance, m.expires_at, m.superseded_by
FROM {schema}.memories AS m
WHERE m.app_name = :app_name AND m.user_id = :user_id
  AND m.memory_id IN (SELECT memory_id FROM chain)
ORDER BY m.timestamp, m.position;

-- name: switch
INSERT INTO {schema}.app_settings AS a (app_name, extract_facts)
VALUES (:app_name, :on)
ON CONFLICT (app_name) DO UPDATE
SET extract_facts = excluded.extract_facts, updated_at = excluded.updated_at
WHERE a.extract_facts <> excluded.extract_facts;

-- name: queue_unread
-- Switching it off waits for this, and then ends these jobs too.
WITH wanted AS (
  SELECT app_name
  FROM {schema}.app_settings
  WHERE app_name = :app_name AND extract_facts
  FOR SHARE
),
unread AS (
  SELECT app_name, user_id, position
  FROM {schema}.memories
  WHERE app_name = :app_name AND kind = 'turn' AND extracted_at IS NULL
    AND (expires_at IS NULL OR expires_at > now())
    AND (user_id, position) > (:after_user_id, :after_position)
    AND EXISTS (SELECT FROM wanted)
  ORDER BY user_id, position
  LIMIT :limit
),
queued AS (
  INSERT INTO {schema}.memory_jobs (app_name, user_id, position, work)
  SELECT app_name, user_id, position, 'extract' FROM unread
  ON CONFLICT DO NOTHING
  RETURNING user_id, position
)
SELECT unread.user_id, unread.position, queued.position IS NOT NULL AS new
FROM unread
LEFT JOIN queued ON queued.user_id = unread.user_id AND queued.position = unread.position
ORDER BY unread.user_id, unread.position;

-- name: end_waiting
DELETE FROM {schema}.memory_jobs
WHERE (app_name, user_id, position, work) IN (
  SELECT app_name, user_id, position, work
  FROM {schema}.memory_jobs
  WHERE app_name = :app_name AND work = 'extract'
    AND NOT EXISTS (
      SELECT FROM {schema}.app_settings WHERE app_name = :app_name AND extract_facts
    )
  LIMIT :limit
)
RETURNING app_name, user_id, position, work;
