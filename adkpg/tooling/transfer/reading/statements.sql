-- Each kind of line has statements of its own: of an app, of a user, of a session; for the first
-- page, and for one after a key. So the plan of each, once it is kept for any, goes by the key.

-- name: select_lines
SELECT {keys}, translate({line}, E'\n\r', '  ') AS line
FROM {schema}.{table} AS t
WHERE t.app_name = :app_name AND {wanted}
ORDER BY {keys}
LIMIT :limit;

-- name: select_events
SELECT t.user_id, t.session_id, t.seq, translate({line}, E'\n\r', '  ') AS line
FROM {schema}.events AS t
WHERE t.app_name = :app_name
  AND (t.user_id, t.session_id, t.seq) > (:after_user, :after_session, :after_seq)
  AND (t.user_id, t.session_id) <= (:last_user, :last_session)
ORDER BY t.user_id, t.session_id, t.seq
LIMIT :limit;
