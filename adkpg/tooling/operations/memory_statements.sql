-- name: select_queue
SELECT work,
  count(*) FILTER (WHERE NOT dead) AS waiting,
  count(*) FILTER (WHERE dead) AS dead,
  coalesce(
    extract(epoch FROM now() - min(created_at) FILTER (WHERE NOT dead)), 0
  )::double precision AS oldest_s,
  max(error) AS error
FROM {schema}.memory_jobs
GROUP BY work
ORDER BY work;

-- name: select_lacking
WITH remembered AS (
  SELECT app_name, count(*) AS memories
  FROM {schema}.memories
  GROUP BY app_name
), embedded AS (
  -- Each memory with a vector of a model has passage 0 of it once. A look for each memory's vector
  -- takes some forty times as long.
  SELECT app_name, model_id, count(*) AS vectors
  FROM {schema}.memory_vectors
  WHERE passage = 0
  GROUP BY app_name, model_id
), queued AS (
  SELECT app_name, count(*) AS jobs
  FROM {schema}.memory_jobs
  WHERE work = 'embed'
  GROUP BY app_name
)
SELECT s.app_name, m.name, m.dimensions,
  coalesce(r.memories, 0) AS memories,
  coalesce(r.memories, 0) - coalesce(e.vectors, 0) AS lacking,
  coalesce(r.memories, 0) - coalesce(e.vectors, 0) - coalesce(q.jobs, 0) AS unqueued
FROM {schema}.app_settings AS s
JOIN {schema}.embedding_models AS m ON m.model_id = s.model_id
LEFT JOIN remembered AS r ON r.app_name = s.app_name
LEFT JOIN embedded AS e ON e.app_name = s.app_name AND e.model_id = s.model_id
LEFT JOIN queued AS q ON q.app_name = s.app_name
ORDER BY s.app_name;

-- name: count_large
WITH large AS (
  SELECT v.app_name, v.user_id
  FROM {schema}.memory_vectors AS v
  JOIN {schema}.app_settings AS s ON s.app_name = v.app_name AND s.model_id = v.model_id
  LEFT JOIN {schema}.approximate_scopes AS a ON a.app_name = v.app_name
    AND a.user_id = v.user_id AND a.model_id = v.model_id AND a.ready
  WHERE v.passage = 0
  GROUP BY v.app_name, v.user_id, v.model_id, a.user_id
  -- Of users who have an index, it answers for the vectors that are approximate.
  HAVING count(*) > :exact_limit AND a.user_id IS NULL
    OR count(*) FILTER (WHERE NOT v.approximate) > :exact_limit
)
SELECT count(*) AS large
FROM large;
