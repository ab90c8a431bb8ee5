-- Vectors are looked up by a memory's key and passage 0, with `(model_id = …) IS TRUE`. That is no
-- equality that an index answers: before the first ANALYZE the planner takes all vectors of a user
-- and a model for one row, and would read them all. OFFSET 0 keeps each look-up as it is written.

-- name: select_coverage
-- A look for each memory's vector takes some forty times as long as counting passages 0.
WITH counted AS (
  SELECT app_name, model_id, count(*) AS vectors
  FROM {schema}.memory_vectors
  WHERE passage = 0
  GROUP BY app_name, model_id
),
remembered AS (
  SELECT app_name, count(*) AS memories FROM {schema}.memories GROUP BY app_name
),
of_either AS (
  SELECT app_name, model_id FROM counted
  UNION
  SELECT app_name, model_id FROM {schema}.app_settings WHERE model_id IS NOT NULL
)
SELECT m.model_id, m.name, m.dimensions, m.created_at, e.app_name,
  a.app_name IS NOT NULL AS active, coalesce(c.vectors, 0) AS vectors,
  coalesce(r.memories, 0) AS memories
FROM {schema}.embedding_models AS m
LEFT JOIN of_either AS e ON e.model_id = m.model_id
LEFT JOIN counted AS c ON c.model_id = e.model_id AND c.app_name = e.app_name
LEFT JOIN remembered AS r ON r.app_name = e.app_name
LEFT JOIN {schema}.app_settings AS a ON a.model_id = e.model_id AND a.app_name = e.app_name
ORDER BY m.name, m.dimensions, e.app_name;

-- name: select_apps
SELECT either.app_name
FROM (
  SELECT app_name FROM {schema}.memories
  UNION
  SELECT app_name FROM {schema}.app_settings WHERE model_id IS NOT NULL
) AS either
ORDER BY either.app_name;

-- name: select_named
SELECT model_id, dimensions FROM {schema}.embedding_models WHERE name = :name ORDER BY dimensions;

-- name: count_covered
SELECT count(*) AS memories, count(vector.one) AS covered
FROM {schema}.memories AS m
LEFT JOIN LATERAL (
  SELECT 1 AS one
  FROM {schema}.memory_vectors AS v
  WHERE v.app_name = m.app_name AND v.user_id = m.user_id AND v.position = m.position
    AND v.passage = 0 AND (v.model_id = :model_id) IS TRUE
  OFFSET 0
) AS vector ON true
WHERE m.app_name = :app_name;

-- name: select_lacking
SELECT m.user_id, m.position
FROM {schema}.memories AS m
LEFT JOIN LATERAL (
  SELECT 1 AS one
  FROM {schema}.memory_vectors AS v
  WHERE v.app_name = m.app_name AND v.user_id = m.user_id AND v.position = m.position
    AND v.passage = 0 AND (v.model_id = :model_id) IS TRUE
  OFFSET 0
) AS vector ON true
WHERE m.app_name = :app_name AND vector.one IS NULL
  AND (m.user_id, m.position) > (:after_user, :after_position)
ORDER BY m.user_id, m.position
LIMIT :limit;

-- name: select_texts
SELECT lacking.*
FROM unnest(:user_ids::text[], :positions::bigint[]) AS given (user_id, position)
CROSS JOIN LATERAL (
  SELECT m.app_name, m.user_id, m.position, m.author, m.body, m.digest
  FROM {schema}.memories AS m
  LEFT JOIN LATERAL (
    SELECT 1 AS one
    FROM {schema}.memory_vectors AS v
    WHERE v.app_name = m.app_name AND v.user_id = m.user_id AND v.position = m.position
      AND v.passage = 0 AND (v.model_id = :model_id) IS TRUE
    OFFSET 0
  ) AS vector ON true
  WHERE m.app_name = :app_name AND m.user_id = given.user_id AND m.position = given.position
    AND vector.one IS NULL
  OFFSET 0
) AS lacking;

-- name: lock_app
INSERT INTO {schema}.app_settings (app_name)
VALUES (:app_name)
ON CONFLICT (app_name) DO UPDATE SET updated_at = excluded.updated_at
RETURNING model_id;

-- name: lock_lacking
SELECT count(*) AS lacking
FROM (
  SELECT m.position
  FROM {schema}.memories AS m
  LEFT JOIN LATERAL (
    SELECT 1 AS one
    FROM {schema}.memory_vectors AS v
    WHERE v.app_name = m.app_name AND v.user_id = m.user_id AND v.position = m.position
      AND v.passage = 0 AND (v.model_id = :model_id) IS TRUE
    OFFSET 0
  ) AS vector ON true
  WHERE m.app_name = :app_name AND vector.one IS NULL
  ORDER BY m.user_id, m.position
  FOR KEY SHARE OF m
) AS locked;

-- name: queue_lacking
INSERT INTO {schema}.memory_jobs (app_name, user_id, position, work)
SELECT m.app_name, m.user_id, m.position, 'embed'
FROM {schema}.memories AS m
LEFT JOIN LATERAL (
  SELECT 1 AS one
  FROM {schema}.memory_vectors AS v
  WHERE v.app_name = m.app_name AND v.user_id = m.user_id AND v.position = m.position
    AND v.passage = 0 AND (v.model_id = :model_id) IS TRUE
  OFFSET 0
) AS vector ON true
WHERE m.app_name = :app_name AND vector.one IS NULL
ORDER BY m.user_id, m.position
ON CONFLICT DO NOTHING;

-- name: renew_jobs
-- Jobs that another transaction is changing are passed over: waiting could deadlock.
UPDATE {schema}.memory_jobs AS j
SET attempts = 0, dead = false, error = NULL, lease_expires_at = NULL, due_at = now()
FROM (
  SELECT app_name, user_id, position
  FROM {schema}.memory_jobs
  WHERE app_name = :app_name AND work = 'embed'
  FOR UPDATE SKIP LOCKED
) AS chosen
WHERE j.app_name = chosen.app_name AND j.user_id = chosen.user_id
  AND j.position = chosen.position AND j.work = 'embed';

-- name: end_covered_jobs
DELETE FROM {schema}.memory_jobs AS j
USING (
  SELECT o.app_name, o.user_id, o.position
  FROM {schema}.memory_jobs AS o
  WHERE o.app_name = :app_name AND o.work = 'embed'
    AND EXISTS (
      SELECT
      FROM {schema}.memory_vectors AS v
      WHERE v.app_name = o.app_name AND v.user_id = o.user_id AND v.position = o.position
        AND v.passage = 0 AND (v.model_id = :model_id) IS TRUE
    )
  FOR UPDATE SKIP LOCKED
) AS chosen
WHERE j.app_name = chosen.app_name AND j.user_id = chosen.user_id
  AND j.position = chosen.position AND j.work = 'embed';

-- name: set_active
UPDATE {schema}.app_settings SET model_id = :model_id WHERE app_name = :app_name;

-- name: hold_model
-- It writes the row as it is: each server of a cluster has a copy, and a lock would hold only one.
UPDATE {schema}.embedding_models SET name = name WHERE model_id = :model_id RETURNING model_id;

-- name: lock_model
SELECT model_id FROM {schema}.embedding_models WHERE model_id = :model_id FOR UPDATE;

-- name: select_active_apps
SELECT app_name FROM {schema}.app_settings WHERE model_id = :model_id ORDER BY app_name;

-- name: delete_scopes
DELETE FROM {schema}.approximate_scopes WHERE model_id = :model_id;

-- name: delete_some_vectors
-- Vectors that a writer holds are passed over: waiting for it could deadlock.
WITH chosen AS (
  SELECT app_name, user_id, position, passage
  FROM {schema}.memory_vectors
  WHERE model_id = :model_id
    AND (app_name, user_id, position, passage)
      > (:after_app, :after_user, :after_position, :after_passage)
  ORDER BY app_name, user_id, position, passage
  LIMIT :limit
  FOR UPDATE SKIP LOCKED
),
deleted AS (
  DELETE FROM {schema}.memory_vectors AS v
  USING chosen
  WHERE v.app_name = chosen.app_name AND v.user_id = chosen.user_id
    AND v.position = chosen.position AND v.passage = chosen.passage
    AND (v.model_id = :model_id) IS TRUE
  RETURNING v.app_name, v.user_id, v.position, v.passage
)
SELECT app_name, user_id, position, passage
FROM deleted
ORDER BY app_name, user_id, position, passage;

-- name: delete_vectors
WITH deleted AS (
  DELETE FROM {schema}.memory_vectors WHERE model_id = :model_id RETURNING 1
)
SELECT count(*) AS deleted FROM deleted;

-- name: delete_model
DELETE FROM {schema}.embedding_models WHERE model_id = :model_id;
