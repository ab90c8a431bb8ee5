-- name: select_memory
SELECT memory_id, kind, session_id, event_id, author, timestamp, content::text AS content,
  CASE WHEN content IS NULL THEN body END AS body,
  custom_metadata::text AS custom_metadata, source, artifacts::text AS artifacts,
  CASE WHEN jsonb_array_length(topics) > 0 THEN topics::text END AS topics,
  importance::float8 AS importance, expires_at, superseded_by
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND memory_id = :memory_id;

-- name: list_memories
WITH page AS (
  -- The primary key's index has all that is asked here.
  SELECT m.timestamp, m.position
  FROM {schema}.memories AS m
  WHERE m.app_name = :app_name AND m.user_id = :user_id
    AND m.timestamp >= coalesce(:after::timestamptz, '-infinity')
    AND m.timestamp < coalesce(:before::timestamptz, 'infinity')
    AND (NOT :live_only OR m.expires_at IS NULL OR m.expires_at > now())
    AND (m.timestamp, m.position)
      < (coalesce(:after_timestamp::timestamptz, 'infinity'), coalesce(:after_position::bigint, 0))
  ORDER BY m.timestamp DESC, m.position DESC
  LIMIT :limit
)
SELECT stored.*, page.position
FROM page
CROSS JOIN LATERAL (
  SELECT m.memory_id, m.kind, m.session_id, m.event_id, m.author, m.timestamp,
    m.content::text AS content, CASE WHEN m.content IS NULL THEN m.body END AS body,
    m.custom_metadata::text AS custom_metadata, m.source, m.artifacts::text AS artifacts,
    CASE WHEN jsonb_array_length(m.topics) > 0 THEN m.topics::text END AS topics,
    m.importance::float8 AS importance, m.expires_at, m.superseded_by
  FROM {schema}.memories AS m
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.position = page.position
  -- One by one, which this keeps, because a join might read all that the user has for each.
  OFFSET 0
) AS stored
ORDER BY page.timestamp DESC, page.position DESC;

-- name: list_chosen_memories
WITH page AS (
  SELECT m.timestamp, m.position
  FROM (
    -- One of the three has rows: each condition that an index serves is in one of its own, so that
    -- a plan for any values reads by that index.
    SELECT * FROM {schema}.memories
    WHERE app_name = :app_name AND user_id = :user_id AND :session_ids::text[] IS NOT NULL
      AND session_id = ANY (:session_ids)
    UNION ALL
    SELECT * FROM {schema}.memories
    WHERE app_name = :app_name AND user_id = :user_id AND :session_ids::text[] IS NULL
      AND kind IN ('fact', 'summary') AND :kinds::text[] <@ ARRAY['fact', 'summary']
    UNION ALL
    SELECT * FROM {schema}.memories
    WHERE app_name = :app_name AND user_id = :user_id AND :session_ids::text[] IS NULL
      AND (:kinds::text[] <@ ARRAY['fact', 'summary']) IS NOT TRUE
  ) AS m
  WHERE m.timestamp >= coalesce(:after::timestamptz, '-infinity')
    AND m.timestamp < coalesce(:before::timestamptz, 'infinity')
    AND (:kinds::text[] IS NULL OR m.kind = ANY (:kinds))
    AND (:authors::text[] IS NULL OR m.author = ANY (:authors))
    AND (:topics::text[] IS NULL OR m.topics ?| :topics)
    AND (:metadata::text IS NULL OR m.custom_metadata @> :metadata::jsonb)
    AND (NOT :live_only OR m.expires_at IS NULL OR m.expires_at > now())
    AND (m.timestamp, m.position)
      < (coalesce(:after_timestamp::timestamptz, 'infinity'), coalesce(:after_position::bigint, 0))
  ORDER BY m.timestamp DESC, m.position DESC
  LIMIT :limit
)
SELECT stored.*, page.position
FROM page
CROSS JOIN LATERAL (
  SELECT m.memory_id, m.kind, m.session_id, m.event_id, m.author, m.timestamp,
    m.content::text AS content, CASE WHEN m.content IS NULL THEN m.body END AS body,
    m.custom_metadata::text AS custom_metadata, m.source, m.artifacts::text AS artifacts,
    CASE WHEN jsonb_array_length(m.topics) > 0 THEN m.topics::text END AS topics,
    m.importance::float8 AS importance, m.expires_at, m.superseded_by
  FROM {schema}.memories AS m
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.position = page.position
  -- One by one, as above.
  OFFSET 0
) AS stored
ORDER BY page.timestamp DESC, page.position DESC;

-- name: count_memories
SELECT count(*) AS memories
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id
  AND timestamp >= coalesce(:after::timestamptz, '-infinity')
  AND timestamp < coalesce(:before::timestamptz, 'infinity')
  AND (expires_at IS NULL OR expires_at > now());

-- name: count_chosen_memories
SELECT count(*) AS memories
FROM (
  -- As above.
  SELECT * FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = :user_id AND :session_ids::text[] IS NOT NULL
    AND session_id = ANY (:session_ids)
  UNION ALL
  SELECT * FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = :user_id AND :session_ids::text[] IS NULL
    AND kind IN ('fact', 'summary') AND :kinds::text[] <@ ARRAY['fact', 'summary']
  UNION ALL
  SELECT * FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = :user_id AND :session_ids::text[] IS NULL
    AND (:kinds::text[] <@ ARRAY['fact', 'summary']) IS NOT TRUE
) AS m
WHERE m.timestamp >= coalesce(:after::timestamptz, '-infinity')
  AND m.timestamp < coalesce(:before::timestamptz, 'infinity')
  AND (:kinds::text[] IS NULL OR m.kind = ANY (:kinds))
  AND (:authors::text[] IS NULL OR m.author = ANY (:authors))
  AND (:topics::text[] IS NULL OR m.topics ?| :topics)
  AND (:metadata::text IS NULL OR m.custom_metadata @> :metadata::jsonb)
  AND (m.expires_at IS NULL OR m.expires_at > now());

-- name: select_profile
SELECT memory_id, kind, session_id, event_id, author, timestamp, content::text AS content,
  CASE WHEN content IS NULL THEN body END AS body,
  custom_metadata::text AS custom_metadata, source, artifacts::text AS artifacts,
  CASE WHEN jsonb_array_length(topics) > 0 THEN topics::text END AS topics,
  importance::float8 AS importance, expires_at, superseded_by
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND kind = 'fact'
  AND (expires_at IS NULL OR expires_at > now())
  AND (:topics::text[] IS NULL OR topics ?| :topics)
  AND timestamp < coalesce(:before::timestamptz, 'infinity')
ORDER BY memories.importance DESC, timestamp DESC, position DESC
LIMIT :limit;
