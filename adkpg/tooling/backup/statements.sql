-- name: select_tables
SELECT c.relname AS name
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relkind IN ('r', 'p')
ORDER BY c.relname;

-- name: select_strings
SELECT current_setting('standard_conforming_strings')::bool AS standard;

-- name: select_schema
SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = :schema) AS there;
