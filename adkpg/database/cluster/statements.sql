-- name: at_part
SELECT {schema}.at_part_1(:user_id, :name, :statement, :arguments, :written, '{schema}') AS answer;

-- name: ask_coordinator
SELECT success, result
FROM run_command_on_coordinator(format(
  'SELECT %s.select_prepared_1(%L, %L, %L, NULL, %L)',
  :schema::text, :name::text, :statement::text, :arguments::text[], :schema
));
