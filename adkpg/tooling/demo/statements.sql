-- name: count_rows
SELECT 'sessions' AS name, count(*) AS rows
FROM {schema}.sessions
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'events', count(*)
FROM {schema}.events
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'invocation_waiters', count(*)
FROM {schema}.invocation_waiters
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'invocation_results', count(*)
FROM {schema}.invocation_results
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'app_states', count(*)
FROM {schema}.app_states
WHERE app_name = :app_name
UNION ALL
SELECT 'user_states', count(*)
FROM {schema}.user_states
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'app_settings', count(*)
FROM {schema}.app_settings
WHERE app_name = :app_name
UNION ALL
SELECT 'memories', count(*)
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'memory_lexemes', count(*)
FROM {schema}.memory_lexemes
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'memory_vectors', count(*)
FROM {schema}.memory_vectors
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'memory_jobs', count(*)
FROM {schema}.memory_jobs
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'memory_provenance', count(*)
FROM {schema}.memory_provenance
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'approximate_scopes', count(*)
FROM {schema}.approximate_scopes
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'memory_tombstones', count(*)
FROM {schema}.memory_tombstones
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'tasks', count(*)
FROM {schema}.tasks
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'task_events', count(*)
FROM {schema}.task_events
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'artifacts', count(*)
FROM {schema}.artifacts
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'artifact_chunks', count(*)
FROM {schema}.artifact_chunks
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'artifact_uploads', count(*)
FROM {schema}.artifact_uploads
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'audit', count(*)
FROM {schema}.audit
WHERE app_name = :app_name AND user_id = :user_id
UNION ALL
SELECT 'saved_questions', count(*)
FROM {schema}.saved_questions
WHERE app_name = :app_name AND user_id = :user_id;
