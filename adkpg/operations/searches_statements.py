"""Statements on what the server knows of searches. No I/O."""

from functools import cache
from typing import TypedDict

from sqlalchemy import Float, Integer, bindparam, text

from adkpg.sql import NoParameters, Statement
from adkpg.tables import memory_lexemes, memory_vectors

# How `memory.search.statements.search` begins: of what runs the server shows 1,024 characters. One
# that a function prepares is an argument of the call, and not shown.
_BY_FUNCTION = r"query ~ '^SELECT .{1,70}\.select_prepared_1\('"
_IS_SEARCH = f"(query ~ '^WITH (models|info) AS MATERIALIZED' OR {_BY_FUNCTION})"


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
    """Says what may be known: ``place`` and ``complete``.

    The place is the quoted schema of pg_stat_statements; null if it is nowhere. Without the rights
    of pg_read_all_stats a role is shown the text of its own statements alone: not all.
    """
    return Statement(
        text(
            "SELECT (SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n"
            " ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements') AS place,"
            " pg_has_role('pg_read_all_stats', 'USAGE') AS complete"
        )
    )


@cache
def select_past(place: str) -> Statement[PastParameters]:
    """Reads the kinds of searches by the time that they took altogether, most first.

    One kind has many statements: of each role, with and without filters, dates and reasons. Those
    that a function prepares are one: words and vectors are null.
    """
    words, vectors = (
        f"CASE WHEN NOT {_BY_FUNCTION} THEN query ~ '{table.name}' END"
        for table in (memory_lexemes, memory_vectors)
    )
    return Statement(
        text(
            f"SELECT {words} AS words, {vectors} AS vectors,"  # noqa: S608 - our own text
            " sum(calls)::bigint AS calls, sum(total_exec_time) / sum(calls) AS mean_ms,"
            f" max(max_exec_time) AS max_ms FROM {place}.pg_stat_statements"
            " WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
            f" AND calls > 0 AND {_IS_SEARCH}"
            " GROUP BY 1, 2 ORDER BY sum(total_exec_time) DESC LIMIT :limit"
        ).bindparams(bindparam("limit", type_=Integer))
    )
