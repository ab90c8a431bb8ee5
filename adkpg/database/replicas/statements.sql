-- name: standing
SELECT extract(epoch FROM pg_postmaster_start_time())::float8 AS adkpg_server,
  (
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END
    - '0/0'::pg_lsn
  )::bigint AS adkpg_position,
  pg_is_in_recovery() AS adkpg_standby;

-- name: identify
SELECT extract(epoch FROM pg_postmaster_start_time())::float8 AS server,
  (
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END
    - '0/0'::pg_lsn
  )::bigint AS position,
  (CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_flush_lsn() END - '0/0'::pg_lsn)::bigint
    AS flushed,
  -- Where commits do not wait they are flushed within three rounds of the writer (Postgres manual,
  -- "Asynchronous Commit").
  3 * extract(epoch FROM current_setting('wal_writer_delay')::interval)::float8 AS flush_delay_s,
  extract(epoch FROM clock_timestamp())::float8 AS clock_s,
  pg_is_in_recovery() AS standby,
  (SELECT system_identifier::text FROM pg_control_system()) AS cluster,
  current_database()::text AS database,
  -- A standby says late on which timeline it is, and never one that it is not on yet.
  CASE
    WHEN pg_is_in_recovery() THEN greatest(
      (SELECT timeline_id FROM pg_control_checkpoint()),
      (SELECT min_recovery_end_timeline FROM pg_control_recovery()),
      (SELECT received_tli FROM pg_stat_wal_receiver)
    )
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer
  END AS timeline;
