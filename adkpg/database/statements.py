"""Queries that run other statements; their SQL is in statements.sql."""

from collections.abc import Sequence

from adkpg.queries import Answer, Queries, Query

_sql = Queries(__file__)


@_sql.query()
def select_prepared(
    *, name: str, statement: str, arguments: Sequence[str | None]
) -> Query[Answer[str]]:
    """Runs a SELECT whose plan the server keeps under a name; its rows come as JSON."""
