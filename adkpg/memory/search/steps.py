"""Parts that the steps of a search are built with: scopes, look-ups that no planner undoes."""

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    CompoundSelect,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.sql.selectable import LateralFromClause

from adkpg.keys import APP_WIDE
from adkpg.sql import APP_NAME, USER_ID
from adkpg.tables import memories

TOP_K = bindparam("top_k", type_=Integer)

_APP_WIDE = literal(APP_WIDE, Text)  # one, which is sent once


# Not one parameter: the planner would take it for ten users, and never keep a plan.
SCOPES = array([USER_ID, bindparam("also_user_id", type_=Text)])
"""The scopes asked for, two or twice the same. Parameters: user_id, also_user_id."""


def in_scopes(table: Any) -> ColumnElement[bool]:
    """The rows of the scopes asked for."""
    return and_(table.c.app_name == APP_NAME, table.c.user_id == func.any(SCOPES))


def at_place(table: Any, place: ColumnElement[Any]) -> ColumnElement[bool]:
    """The row at one place of the scopes asked for: its sign says in which, so one look-up does.

    Parameters: user_id, the first of the scopes.
    """
    owner = case((place < 0, _APP_WIDE), else_=USER_ID)
    return and_(table.c.app_name == APP_NAME, table.c.user_id == owner, table.c.position == place)


def at_places(table: Any, places: Select[Any] | CompoundSelect[Any]) -> ColumnElement[bool]:
    """The rows at some places of the scopes asked for, found in one walk along the key's index.

    A look-up of each would take four times as long.
    """
    listed = func.array(places.scalar_subquery())
    return and_(in_scopes(table), table.c.position == func.any(listed))


def dead_places() -> CTE:
    """Where memories are not found, nor their words.

    They have expired, were superseded, or are of the invocation that asks.
    """
    invocation_id = bindparam("invocation_id", type_=Text)
    over = and_(memories.c.expires_at.is_not(None), memories.c.expires_at <= func.now())
    # Whoever names no invocation need not read them all.
    running = and_(invocation_id.is_not(None), memories.c.invocation_id == invocation_id)
    return materialized(
        select(memories.c.position).where(in_scopes(memories), or_(over, running)), "dead"
    )


def among(position: ColumnElement[Any], rows: CTE) -> ColumnElement[bool]:
    """Whether a place is among some, looked up in a hash table: no join, so no nested loop."""
    return position.in_(select(rows.c.position)).is_(True)


def outside(position: ColumnElement[Any], rows: CTE) -> ColumnElement[bool]:
    """Whether a place is not among some, likewise."""
    return position.not_in(select(rows.c.position))


def within(position: ColumnElement[Any], eligible: CTE | None) -> list[ColumnElement[bool]]:
    """The condition that a place meets the filters, if there are any."""
    return [] if eligible is None else [among(position, eligible)]


def number(value: float) -> ColumnElement[int]:
    """A whole number in the statement's own text, where the planner sees it."""
    return literal_column(str(int(value)), Integer)


def at_least(value: int) -> ColumnElement[int]:
    """A number, or as many memories as are asked for if those are more."""
    return func.greatest(number(value), TOP_K)


def looked_up(statement: Select[Any], name: str) -> LateralFromClause:
    """Rows looked up for each row before them.

    OFFSET 0 keeps the planner from joining freely: its estimates here are guesses, and it would
    read everything a user has to find a few rows.
    """
    return statement.offset(number(0)).lateral(name)


def materialized(statement: Select[Any] | CompoundSelect[Any], name: str) -> CTE:
    """A step whose rows are made once."""
    return statement.cte(name).prefix_with("MATERIALIZED")
