"""Queries that have a node run a statement; their SQL is in statements.sql."""

from typing import TypedDict

from adkpg.queries import Answer, Queries, Query

_sql = Queries(__file__)


class OfCoordinator(TypedDict):
    """What the coordinator answered: JSON, or the text of an error."""

    success: bool
    result: str


@_sql.query()
def at_part(
    *,
    user_id: str,
    name: str,
    statement: str,
    arguments: list[str | None],
    written: list[str] | None,
) -> Query[Answer[str]]:
    """Runs a statement on the part of the tables that has a user; its rows come as JSON."""


@_sql.query()
def ask_coordinator(
    *, schema: str, name: str, statement: str, arguments: list[str | None]
) -> Query[OfCoordinator]:
    """Runs a statement on the coordinator, in a transaction of its own."""
