-- name: select_apps
WITH of_sessions AS (
  SELECT app_name, count(*) AS sessions, sum(revision)::bigint AS events,
    sum(payload_bytes)::bigint AS payload_bytes,
    count(*) FILTER (WHERE created_at >= :since) AS new_sessions
  FROM {schema}.sessions
  WHERE :app_name::text IS NULL OR app_name = :app_name
  GROUP BY app_name
), of_events AS (
  -- Only sessions that were appended to since then have new events.
  SELECT s.app_name, count(*) AS new_events
  FROM {schema}.sessions AS s
  JOIN {schema}.events AS e
    ON e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.session_id
  WHERE (:app_name::text IS NULL OR s.app_name = :app_name)
    AND s.updated_at >= :since AND e.timestamp >= :since
  GROUP BY s.app_name
), of_memories AS (
  SELECT app_name, count(*) AS memories,
    count(*) FILTER (WHERE created_at >= :since) AS new_memories
  FROM {schema}.memories
  WHERE :app_name::text IS NULL OR app_name = :app_name
  GROUP BY app_name
), of_vectors AS (
  SELECT app_name, count(*) FILTER (WHERE passage = 0) AS vectors
  FROM {schema}.memory_vectors
  WHERE :app_name::text IS NULL OR app_name = :app_name
  GROUP BY app_name
), of_files AS (
  SELECT app_name, count(*) AS files, sum(size)::bigint AS file_bytes
  FROM {schema}.artifacts
  WHERE :app_name::text IS NULL OR app_name = :app_name
  GROUP BY app_name
), of_jobs AS (
  SELECT app_name, count(*) FILTER (WHERE NOT dead) AS waiting,
    count(*) FILTER (WHERE dead) AS dead
  FROM {schema}.memory_jobs
  WHERE :app_name::text IS NULL OR app_name = :app_name
  GROUP BY app_name
), of_states AS (
  SELECT app_name
  FROM {schema}.app_states
  WHERE :app_name::text IS NULL OR app_name = :app_name
), of_users AS (
  SELECT app_name, count(DISTINCT user_id) AS users
  FROM (
    SELECT DISTINCT app_name, user_id
    FROM {schema}.sessions
    WHERE :app_name::text IS NULL OR app_name = :app_name
    UNION ALL
    SELECT DISTINCT app_name, user_id
    FROM {schema}.memories
    WHERE :app_name::text IS NULL OR app_name = :app_name
  ) AS either
  -- What an app knows for all its users is no user's.
  WHERE user_id <> E'\x01app'
  GROUP BY app_name
)
SELECT app_name, coalesce(users, 0) AS users,
  coalesce(sessions, 0) AS sessions,
  coalesce(events, 0) AS events,
  coalesce(payload_bytes, 0) AS payload_bytes,
  coalesce(memories, 0) AS memories,
  coalesce(vectors, 0) AS vectors,
  coalesce(files, 0) AS files,
  coalesce(file_bytes, 0) AS file_bytes,
  coalesce(waiting, 0) AS waiting,
  coalesce(dead, 0) AS dead,
  coalesce(new_sessions, 0) AS new_sessions,
  coalesce(new_events, 0) AS new_events,
  coalesce(new_memories, 0) AS new_memories
FROM of_sessions
FULL JOIN of_events USING (app_name)
FULL JOIN of_memories USING (app_name)
FULL JOIN of_vectors USING (app_name)
FULL JOIN of_files USING (app_name)
FULL JOIN of_jobs USING (app_name)
FULL JOIN of_states USING (app_name)
FULL JOIN of_users USING (app_name)
ORDER BY app_name;

-- name: select_largest
WITH counted AS (
  -- Each part counts what its table has, in the columns of the first part, and 0 in the others.
  -- Each node of a cluster makes this union of its own users, and sends only the largest.
  SELECT app_name, user_id, count(*) AS sessions, sum(revision)::bigint AS events,
    sum(payload_bytes)::bigint AS payload_bytes, 0 AS memories, 0 AS vectors, 0 AS files,
    0 AS file_bytes, 0 AS waiting, 0 AS dead
  FROM {schema}.sessions
  WHERE :app_name::text IS NULL OR app_name = :app_name
  GROUP BY app_name, user_id
  UNION ALL
  SELECT app_name, user_id, 0, 0, 0, count(*), 0, 0, 0, 0, 0
  FROM {schema}.memories
  WHERE :app_name::text IS NULL OR app_name = :app_name
  GROUP BY app_name, user_id
  UNION ALL
  SELECT app_name, user_id, 0, 0, 0, 0, count(*) FILTER (WHERE passage = 0), 0, 0, 0, 0
  FROM {schema}.memory_vectors
  WHERE :app_name::text IS NULL OR app_name = :app_name
  GROUP BY app_name, user_id
  UNION ALL
  SELECT app_name, user_id, 0, 0, 0, 0, 0, count(*), sum(size)::bigint, 0, 0
  FROM {schema}.artifacts
  WHERE :app_name::text IS NULL OR app_name = :app_name
  GROUP BY app_name, user_id
  UNION ALL
  SELECT app_name, user_id, 0, 0, 0, 0, 0, 0, 0, count(*) FILTER (WHERE NOT dead),
    count(*) FILTER (WHERE dead)
  FROM {schema}.memory_jobs
  WHERE :app_name::text IS NULL OR app_name = :app_name
  GROUP BY app_name, user_id
)
SELECT app_name, user_id,
  sum(sessions)::bigint AS sessions,
  sum(events)::bigint AS events,
  sum(payload_bytes)::bigint AS payload_bytes,
  sum(memories)::bigint AS memories,
  sum(vectors)::bigint AS vectors,
  sum(files)::bigint AS files,
  sum(file_bytes)::bigint AS file_bytes,
  sum(waiting)::bigint AS waiting,
  sum(dead)::bigint AS dead
FROM counted
GROUP BY app_name, user_id
ORDER BY sum(events + memories) DESC, app_name, user_id
LIMIT :limit;
