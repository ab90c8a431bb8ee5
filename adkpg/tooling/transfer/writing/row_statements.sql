-- name: insert_rows
INSERT INTO {schema}.{table} ({columns})
SELECT {values}
FROM unnest({lists}) AS given ({columns})
ON CONFLICT DO NOTHING;

-- name: select_same
SELECT given.place
FROM unnest(:places::int[], {lists}) AS given (place, {columns})
JOIN {schema}.{table} AS t ON {equal_keys}
WHERE {equal_columns}
ORDER BY place;
