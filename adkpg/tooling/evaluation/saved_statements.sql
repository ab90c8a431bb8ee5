-- name: insert_question
INSERT INTO {schema}.saved_questions (app_name, user_id, question_id, question, evidence)
VALUES (:app_name, :user_id, :question_id::uuid, :question, :evidence::jsonb)
ON CONFLICT DO NOTHING;

-- name: delete_question
DELETE FROM {schema}.saved_questions
WHERE app_name = :app_name AND user_id = :user_id AND question_id = :question_id::uuid;

-- name: select_questions
SELECT question_id::text AS question_id, question, evidence::text AS evidence, created_at
FROM {schema}.saved_questions
WHERE app_name = :app_name AND user_id = :user_id
ORDER BY created_at, saved_questions.question_id
LIMIT :limit;
