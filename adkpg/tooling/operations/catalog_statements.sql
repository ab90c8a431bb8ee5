-- name: select_recovery
SELECT pg_is_in_recovery() AS standby;

-- name: select_schemas
SELECT n.nspname AS name
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname IN ('adkpg_version', 'sessions', 'memory_lexemes') AND c.relkind IN ('r', 'p')
GROUP BY n.nspname
HAVING count(*) = 3
ORDER BY n.nspname;

-- name: select_pgvector
SELECT default_version AS version
FROM pg_available_extensions
WHERE name = 'vector';

-- name: select_indexes
SELECT c.relname AS name, i.indisvalid AND i.indisready AND i.indislive AS valid
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema
ORDER BY c.relname;

-- name: select_sizes
SELECT c.relname AS name,
  -- No vacuum has looked at a table of -1 rows yet; one with pages is not shown as empty.
  greatest(
    c.reltuples,
    pg_stat_get_live_tuples(c.oid),
    CASE WHEN c.reltuples < 0 AND pg_relation_size(c.oid) > 0 THEN 1 ELSE 0 END
  )::bigint AS rows,
  coalesce(pg_table_size(c.oid), 0) AS bytes,
  coalesce(pg_indexes_size(c.oid), 0) AS index_bytes
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relkind IN ('r', 'p')
ORDER BY pg_total_relation_size(c.oid) DESC NULLS LAST, c.relname;

-- name: select_tables
SELECT c.relname AS name, c.relallvisible AS seen,
  coalesce(pg_relation_size(c.oid), 0) / current_setting('block_size')::int AS pages,
  coalesce((
    SELECT o.option_value::bool
    FROM pg_options_to_table(c.reloptions) AS o
    WHERE o.option_name = 'autovacuum_enabled'
  ), true) AS vacuumed
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relkind = 'r'
ORDER BY c.relname;

-- name: select_settings
SELECT name, setting, unit, context, source
FROM pg_settings
WHERE name = ANY (:names);

-- name: select_role
SELECT r.rolname AS role, current_database() AS database, r.rolsuper AS super,
  r.rolbypassrls AS bypasses,
  has_database_privilege(current_database(), 'CREATE') AS creates,
  coalesce(pg_has_role(c.relowner, 'USAGE'), false) AS owner,
  coalesce(row_security_active(c.oid), false) AS guarded
FROM pg_roles AS r
LEFT JOIN (
  pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = :schema
) ON c.relname = 'sessions'
WHERE r.rolname = current_user;

-- name: select_admissions
WITH forced AS (
  SELECT c.oid, c.relowner
  FROM pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = :schema AND c.relforcerowsecurity
), letting AS (
  SELECT c.relname, p.polrelid, unnest(p.polroles) AS role
  FROM pg_policy AS p
  JOIN pg_class AS c ON c.oid = p.polrelid
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = :schema AND starts_with(p.polname::text, :every || ' ')
), calling AS (
  SELECT a.grantee AS role
  FROM pg_proc AS p
  JOIN pg_namespace AS n ON n.oid = p.pronamespace
  CROSS JOIN aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
  WHERE n.nspname = :schema AND p.proname = 'enter_every_scope'
), involved AS (
  SELECT role FROM letting
  UNION
  SELECT role FROM calling
  UNION
  SELECT relowner FROM forced
)
SELECT coalesce(r.rolname, 'PUBLIC')::text AS role,
  EXISTS (SELECT FROM letting AS l WHERE l.role = u.role AND l.relname = :register) AS admitted,
  u.role IN (SELECT role FROM calling) AND NOT EXISTS (
    SELECT FROM forced AS f
    WHERE NOT EXISTS (SELECT FROM letting AS l WHERE l.polrelid = f.oid AND l.role = u.role)
  ) AS equipped,
  coalesce(pg_has_role(r.oid, 'USAGE'), true) AS own
FROM involved AS u
LEFT JOIN pg_roles AS r ON r.oid = u.role
WHERE EXISTS (SELECT FROM forced)
ORDER BY 1;

-- name: select_replay
SELECT CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE false END AS is_paused,
  '[1]'::vector <-> '[1]'::vector AS distance;

-- name: select_missing_rights
SELECT p.name AS right, array_agg(c.relname::text ORDER BY c.relname) AS tables
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN unnest(:rights::text[]) AS p (name)
WHERE n.nspname = :schema AND c.relname = ANY (:tables::text[]) AND c.relkind IN ('r', 'p')
  AND NOT has_table_privilege(c.oid, p.name)
GROUP BY p.name
UNION ALL
SELECT 'USAGE', NULL
FROM pg_namespace
WHERE nspname = :schema AND NOT has_schema_privilege(oid, 'USAGE')
ORDER BY 1;

-- name: select_missing_columns
SELECT DISTINCT w.of, CASE WHEN c.oid IS NOT NULL THEN w.name END AS name
FROM unnest(:tables::text[], :columns::text[]) AS w (of, name)
LEFT JOIN (
  pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = :schema
) ON c.relname = w.of AND c.relkind IN ('r', 'p')
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = w.name AND NOT a.attisdropped
WHERE a.attname IS NULL
ORDER BY 1, 2;
