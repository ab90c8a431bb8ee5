-- name: insert_rows
INSERT INTO {schema}.{table} ({columns})
SELECT {values}
FROM unnest({lists}) AS given ({columns})
ON CONFLICT DO NOTHING;

-- name: select_same
SELECT given.place::int AS place
FROM unnest({lists}) WITH ORDINALITY AS given ({columns}, place)
JOIN {schema}.{table} AS t ON {equal_keys}
WHERE {equal_columns}
ORDER BY place;
