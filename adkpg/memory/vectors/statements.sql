-- name: store_vectors
-- A memory that a writer holds is left pending: waiting for it could deadlock with a writer that
-- moves several. Entering the HNSW index takes longer than all else, so vectors come fresh, and
-- `mark_fresh` has them enter.
WITH active AS MATERIALIZED (
  SELECT app_name
  FROM {schema}.app_settings
  WHERE app_name = ANY (:app_names::text[]) AND model_id = :model_id
  ORDER BY app_name
  FOR SHARE
),
unchanged AS (
  SELECT m.app_name, m.user_id, m.position, given.passage,
    CASE WHEN given.ends IS NOT NULL THEN int4range(given.starts, given.ends) END AS span,
    l2_normalize(given.vector::vector)::halfvec AS vector
  FROM unnest(
    :app_names::text[], :user_ids::text[], :positions::bigint[], :digests::text[],
    :passages::smallint[], :starts::integer[], :ends::integer[], :vectors::text[]
  ) AS given (app_name, user_id, position, digest, passage, starts, ends, vector)
  JOIN {schema}.memories AS m
    ON m.app_name = given.app_name AND m.user_id = given.user_id
    AND m.position = given.position AND m.digest = given.digest
  WHERE m.app_name IN (SELECT app_name FROM active)
  ORDER BY m.app_name, m.user_id, m.position
  FOR KEY SHARE OF m SKIP LOCKED
),
stored AS (
  INSERT INTO {schema}.memory_vectors (
    app_name, user_id, model_id, position, passage, span, embedding, bits, large, approximate
  )
  SELECT u.app_name, u.user_id, :model_id, u.position, u.passage, u.span,
    CASE WHEN NOT :large THEN u.vector END,
    CASE WHEN :large THEN binary_quantize(u.vector)::varbit END,
    CASE WHEN :large THEN u.vector END,
    false
  FROM unchanged AS u
  ON CONFLICT (app_name, user_id, position, passage, model_id) DO UPDATE
  SET span = excluded.span, embedding = excluded.embedding, bits = excluded.bits,
    large = excluded.large, approximate = excluded.approximate
  RETURNING app_name, user_id, position, passage
),
done AS (
  DELETE FROM {schema}.memory_jobs AS j
  USING stored
  WHERE stored.passage = 0 AND j.work = 'embed'
    AND j.app_name = stored.app_name AND j.user_id = stored.user_id
    AND j.position = stored.position
)
SELECT count(*) AS stored FROM stored WHERE passage = 0;

-- name: store_vectors_ahead
-- No search waits for vectors of a model that is not active yet, so they enter the HNSW index at
-- once.
WITH unchanged AS (
  SELECT m.app_name, m.user_id, m.position, given.passage,
    CASE WHEN given.ends IS NOT NULL THEN int4range(given.starts, given.ends) END AS span,
    l2_normalize(given.vector::vector)::halfvec AS vector
  FROM unnest(
    :app_names::text[], :user_ids::text[], :positions::bigint[], :digests::text[],
    :passages::smallint[], :starts::integer[], :ends::integer[], :vectors::text[]
  ) AS given (app_name, user_id, position, digest, passage, starts, ends, vector)
  JOIN {schema}.memories AS m
    ON m.app_name = given.app_name AND m.user_id = given.user_id
    AND m.position = given.position AND m.digest = given.digest
  ORDER BY m.app_name, m.user_id, m.position
  FOR KEY SHARE OF m SKIP LOCKED
),
stored AS (
  INSERT INTO {schema}.memory_vectors (
    app_name, user_id, model_id, position, passage, span, embedding, bits, large, approximate
  )
  SELECT u.app_name, u.user_id, :model_id, u.position, u.passage, u.span,
    CASE WHEN NOT :large THEN u.vector END,
    CASE WHEN :large THEN binary_quantize(u.vector)::varbit END,
    CASE WHEN :large THEN u.vector END,
    EXISTS (
      SELECT
      FROM {schema}.approximate_scopes AS s
      WHERE s.app_name = u.app_name AND s.user_id = u.user_id AND s.model_id = :model_id
    )
  FROM unchanged AS u
  ON CONFLICT (app_name, user_id, position, passage, model_id) DO UPDATE
  SET span = excluded.span, embedding = excluded.embedding, bits = excluded.bits,
    large = excluded.large, approximate = excluded.approximate
  RETURNING app_name, user_id, position, passage
)
SELECT count(*) AS stored FROM stored WHERE passage = 0;

-- name: select_model
SELECT model_id FROM {schema}.embedding_models WHERE name = :model AND dimensions = :dimensions;

-- name: insert_model
INSERT INTO {schema}.embedding_models (name, dimensions)
VALUES (:model, :dimensions)
ON CONFLICT DO NOTHING;

-- name: activate_first_model
INSERT INTO {schema}.app_settings AS a (app_name, model_id)
SELECT :app_name, model_id
FROM {schema}.embedding_models
WHERE model_id = :model_id
FOR KEY SHARE
ON CONFLICT (app_name) DO UPDATE SET model_id = excluded.model_id
WHERE a.model_id IS NULL;

-- name: select_active_model
SELECT m.model_id, m.name, m.dimensions
FROM {schema}.embedding_models AS m
JOIN {schema}.app_settings AS a ON a.model_id = m.model_id
WHERE a.app_name = :app_name;

-- name: select_app_models
SELECT one.own, active.model_id AS active, active.name, active.dimensions
FROM (
  SELECT (
    SELECT model_id FROM {schema}.embedding_models WHERE name = :model AND dimensions = :dimensions
  ) AS own
) AS one
LEFT JOIN (
  SELECT m.model_id, m.name, m.dimensions
  FROM {schema}.embedding_models AS m
  JOIN {schema}.app_settings AS a ON a.model_id = m.model_id
  WHERE a.app_name = :app_name
) AS active ON true;

-- name: list_approximate_scopes
INSERT INTO {schema}.approximate_scopes (app_name, user_id, model_id)
SELECT app_name, user_id, :model_id
FROM {schema}.memory_vectors
WHERE model_id = :model_id
GROUP BY app_name, user_id
HAVING count(*) > :exact_limit::bigint
ON CONFLICT DO NOTHING;

-- name: list_approximate_scopes_ahead
INSERT INTO {schema}.approximate_scopes (app_name, user_id, model_id)
SELECT app_name, user_id, :model_id
FROM {schema}.memories
GROUP BY app_name, user_id
HAVING count(*) > :exact_limit::bigint
ON CONFLICT DO NOTHING;

-- name: mark_approximate
WITH marked AS (
  UPDATE {schema}.memory_vectors AS v
  SET approximate = true
  FROM {schema}.approximate_scopes AS s
  WHERE v.app_name = s.app_name AND v.user_id = s.user_id AND v.model_id = s.model_id
    AND v.model_id = :model_id AND NOT v.approximate
  RETURNING 1
)
SELECT count(*) AS marked FROM marked;

-- name: select_listed
SELECT app_name, user_id, model_id
FROM {schema}.approximate_scopes
WHERE ready
ORDER BY model_id, app_name, user_id;

-- name: mark_fresh
WITH fresh AS (
  SELECT position, passage
  FROM {schema}.memory_vectors
  WHERE app_name = :app_name AND user_id = :user_id AND model_id = :model_id AND NOT approximate
  LIMIT :limit
  FOR UPDATE SKIP LOCKED
),
marked AS (
  UPDATE {schema}.memory_vectors AS v
  SET approximate = true
  FROM fresh
  WHERE v.app_name = :app_name AND v.user_id = :user_id AND v.model_id = :model_id
    AND v.position = fresh.position AND v.passage = fresh.passage
  RETURNING 1
)
SELECT count(*) AS marked FROM marked;

-- name: open_approximate_scopes
UPDATE {schema}.approximate_scopes SET ready = true WHERE model_id = :model_id AND NOT ready;

-- name: select_index
SELECT i.indisvalid AS valid
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = :index;

-- name: select_owner
SELECT pg_get_userbyid(c.relowner)::text AS owner, current_user::text AS role,
  pg_has_role(c.relowner, 'USAGE') AS may
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = 'memory_vectors';

-- name: tune_search
-- It names the person, because the settings are for the node that has the person's rows. A plan
-- made for any user would take each for small, and not use the index.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
  set_config('hnsw.ef_search', :ef_search, true),
  set_config('hnsw.iterative_scan', 'relaxed_order', true)
WHERE :app_name::text IS NOT NULL AND :user_id::text IS NOT NULL;
