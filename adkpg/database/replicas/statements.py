"""What a server is asked of itself: who it is, and how much of the primary's log it shows."""

from functools import cache

from sqlalchemy import literal_column, select

from adkpg.sql import NoParameters, Statement

_SERVER = "CAST(extract(epoch FROM pg_postmaster_start_time()) AS double precision)"
_BYTES = "CAST(({}) - CAST('0/0' AS pg_lsn) AS bigint)"
# A primary shows what is written, be it on its disk or not.
_POSITION = _BYTES.format(
    "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
    " ELSE pg_current_wal_insert_lsn() END"
)
_FLUSHED = _BYTES.format("CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_flush_lsn() END")
# Where commits do not wait they are flushed within three rounds of the writer (Postgres manual,
# "Asynchronous Commit").
_FLUSH_DELAY = (
    "3 * CAST(extract(epoch FROM CAST(current_setting('wal_writer_delay') AS interval))"
    " AS double precision)"
)
_CLOCK = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
# A standby says late on which timeline it is, and never one that it is not on yet.
_TIMELINE = (
    "CASE WHEN pg_is_in_recovery() THEN greatest("
    "(SELECT timeline_id FROM pg_control_checkpoint()),"
    " (SELECT min_recovery_end_timeline FROM pg_control_recovery()),"
    " (SELECT received_tli FROM pg_stat_wal_receiver))"
    " ELSE CAST(CAST('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AS bit(32))"
    " AS integer) END"
)
STANDING = (
    f"SELECT {_SERVER} AS adkpg_server, {_POSITION} AS adkpg_position,"
    " pg_is_in_recovery() AS adkpg_standby"
)
"""Who answers, and where it stands."""


@cache
def identify() -> Statement[NoParameters]:
    """Reads who a server is, where it stands, and which database of which cluster it serves."""
    return Statement(
        select(
            literal_column(_SERVER).label("server"),
            literal_column(_POSITION).label("position"),
            literal_column(_FLUSHED).label("flushed"),
            literal_column(_FLUSH_DELAY).label("flush_delay_s"),
            literal_column(_CLOCK).label("clock_s"),
            literal_column("pg_is_in_recovery()").label("standby"),
            literal_column(
                "(SELECT CAST(system_identifier AS text) FROM pg_control_system())"
            ).label("cluster"),
            literal_column("CAST(current_database() AS text)").label("database"),
            literal_column(_TIMELINE).label("timeline"),
        )
    )
