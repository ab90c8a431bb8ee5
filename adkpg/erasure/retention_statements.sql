-- name: select_over
-- `{table}` is each table of which rows are over by themselves or grow old, and `{over}` says when.
SELECT {columns}, {counted} AS counted
FROM {schema}.{table} AS t
WHERE ({over}){after}
ORDER BY {order}
LIMIT :limit;

-- name: of_some
-- Of one app or user, where a name is given.
AND (:app_name::text IS NULL OR t.app_name = :app_name)
AND (:of_user::text IS NULL OR t.user_id = :of_user)

-- name: end_over
WITH old AS (
  SELECT {own}, {needed} AS needed, {counted} AS counted
  FROM {schema}.{table} AS t
  WHERE ({over}) AND ({own}) IN (
      SELECT {given}
      FROM unnest({lists}) AS given ({key})
    )
  ORDER BY {own}
  FOR UPDATE SKIP LOCKED
),
{renewing}
gone AS (
  DELETE FROM {schema}.{table} AS t
  USING old
  WHERE {same} AND NOT old.needed
  RETURNING t.app_name, t.user_id, {session} AS session_id, old.counted
)
SELECT app_name, user_id, session_id, counted FROM gone;

-- name: renewing
-- `{marks}` are the rows themselves that are needed still, or those that are needed once they go.
renewed AS (
  UPDATE {schema}.{marks} AS t
  SET {renewed} = now()
  FROM old
  WHERE {same}{needed}
),

-- name: counted
(
  SELECT count(*)
  FROM {schema}.{counted} AS c
  WHERE {same}
)
