-- name: select_elsewhere
SELECT a.artifact_id::text AS artifact_id
FROM unnest(:app_names::text[], :user_ids::text[], :artifact_ids::text[])
  AS given (app_name, user_id, artifact_id)
JOIN {schema}.artifacts AS a
  ON a.app_name = given.app_name AND a.user_id = given.user_id
  AND a.artifact_id = given.artifact_id::uuid
WHERE a.location IS NOT NULL;
