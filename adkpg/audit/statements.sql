-- name: insert_entry
INSERT INTO {schema}.audit (app_name, user_id, audit_id, actor, action, subject, outcome)
VALUES (:app_name, :user_id, :audit_id::uuid, :actor, :action, :subject, :outcome)
ON CONFLICT DO NOTHING;

-- name: end_entry
UPDATE {schema}.audit
SET outcome = :outcome
WHERE app_name = :app_name AND user_id = :user_id AND audit_id = :audit_id::uuid;

-- name: select_entries
SELECT app_name, user_id, audit_id::text AS audit_id, changed_at, actor, action, subject, outcome
FROM {schema}.audit
WHERE (:of_app::text IS NULL OR app_name = :of_app)
  AND (:of_user::text IS NULL OR user_id = :of_user)
  AND (changed_at, audit_id) < (
    coalesce(:after_time, 'infinity'::timestamptz),
    coalesce(:after_id::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
  )
ORDER BY changed_at DESC, audit.audit_id DESC
LIMIT :limit;

-- name: select_entries_of_user
SELECT app_name, user_id, audit_id::text AS audit_id, changed_at, actor, action, subject, outcome
FROM {schema}.audit
WHERE app_name = :app_name AND user_id = :user_id
  AND (changed_at, audit_id) < (
    coalesce(:after_time, 'infinity'::timestamptz),
    coalesce(:after_id::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
  )
ORDER BY changed_at DESC, audit.audit_id DESC
LIMIT :limit;
