"""Statements on what the server knows of searches. No I/O."""

from functools import cache
from typing import TypedDict

from sqlalchemy import Float, Integer, bindparam, text

from adkpg.sql import NoParameters, Statement

# How `memory.search.statements.search` begins: of what runs the server shows 1,024 characters.
_IS_SEARCH = "query ~ '^WITH (models|info) AS MATERIALIZED'"


class RunningParameters(TypedDict):
    """Parameters of `select_running`."""

    least_s: float
    limit: int


class PastParameters(TypedDict):
    """Parameters of `select_past`."""

    limit: int


@cache
def select_running() -> Statement[RunningParameters]:
    """Reads the searches that run now for longer than some seconds, the longest first."""
    return Statement(
        text(
            "SELECT pid, extract(epoch FROM clock_timestamp() - query_start)::float8 AS seconds,"  # noqa: S608 - our own text
            " coalesce(wait_event_type || ': ' || wait_event, '') AS waits"
            " FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'"
            f" AND pid <> pg_backend_pid() AND {_IS_SEARCH}"
            " AND clock_timestamp() - query_start >= make_interval(secs => :least_s)"
            " ORDER BY query_start LIMIT :limit"
        ).bindparams(bindparam("least_s", type_=Float), bindparam("limit", type_=Integer))
    )


@cache
def select_known() -> Statement[NoParameters]:
    """Says whether the server has pg_stat_statements where it is found: ``known``."""
    return Statement(text("SELECT to_regclass('pg_stat_statements') IS NOT NULL AS known"))


@cache
def select_past() -> Statement[PastParameters]:
    """Reads the kinds of searches by the time that they took altogether, most first."""
    return Statement(
        text(
            "SELECT query ~ 'memory_lexemes' AS words, query ~ 'memory_vectors' AS vectors,"  # noqa: S608 - our own text
            " calls, mean_exec_time AS mean_ms, max_exec_time AS max_ms"
            " FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database"
            f" WHERE datname = current_database()) AND {_IS_SEARCH}"
            " ORDER BY total_exec_time DESC LIMIT :limit"
        ).bindparams(bindparam("limit", type_=Integer))
    )
