-- name: select_prepared
SELECT {schema}.select_prepared_1(:name, :statement, :arguments, :scope, '{schema}') AS answer;
