"""Statements that list an app's users. No I/O."""

from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    Integer,
    Table,
    Text,
    bindparam,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
)

from adkpg.keys import APP_WIDE, AppKey
from adkpg.queries import Place
from adkpg.sql import APP_NAME, Statement
from adkpg.tables import memories, sessions, user_states


class UsersParameters(AppKey):
    """Parameters of `select_users`: those after one, of whose ids a part is known.

    So many are looked at, and so many returned.
    """

    after: str
    part: str
    limit: int
    walked: int


class NextAppParameters(TypedDict):
    """Parameters of `select_next_app`: the app before; empty for the first."""

    after: str


@cache
def select_next_app(table: Table, *, following: bool) -> Statement[NextAppParameters]:
    """Looks up the first app, or the one after, of which a table has a row; null if none."""
    after = bindparam("after", type_=Text)
    return Statement(
        select(func.min(table.c.app_name).label("app_name")).where(
            table.c.app_name > after if following else table.c.app_name >= after
        )
    )


def _is_live() -> Any:
    return or_(sessions.c.expires_at.is_(None), sessions.c.expires_at > func.now())


@cache
def select_users(*, following: bool) -> Statement[UsersParameters]:
    """Reads a page of an app's users by id, and what each has.

    Each user is looked up after the one before, up to so many. Returns user_id, sessions,
    updated_at, memories, and reached: the last one looked at, if there may be more; the others are
    null in the row of a page without users.
    """
    limit, walked = bindparam("limit", type_=Integer), bindparam("walked", type_=Integer)
    one = literal_column("1", Integer)
    tables = (sessions, memories, user_states)

    def first_after(place: Any, *, including: bool) -> Any:
        def first(table: Any) -> Any:
            after = table.c.user_id >= place if including else table.c.user_id > place
            return (
                select(table.c.user_id)
                .where(table.c.app_name == APP_NAME, after)
                .order_by(table.c.user_id)
                .limit(one)
                .scalar_subquery()
            )

        return func.least(*map(first, tables))

    begin = first_after(bindparam("after", type_=Text), including=not following)
    walk = select(begin.label("user_id"), one.label("number")).cte("walk", recursive=True)
    walk = walk.union_all(
        select(first_after(walk.c.user_id, including=False), walk.c.number + one).where(
            walk.c.user_id.is_not(None), walk.c.number < walked
        )
    )
    page = (
        select(walk.c.user_id)
        .where(
            walk.c.user_id.is_not(None),
            walk.c.user_id != literal(APP_WIDE),
            func.strpos(walk.c.user_id, bindparam("part", type_=Text)) > 0,
        )
        .order_by(walk.c.user_id)
        .limit(limit)
        .cte("page")
    )
    reached = select(
        select(walk.c.user_id).where(walk.c.number == walked).scalar_subquery().label("user_id")
    ).cte("reached")

    def of(table: Any, value: Any, *where: Any) -> Any:
        return (
            select(value)
            .where(table.c.app_name == APP_NAME, table.c.user_id == page.c.user_id, *where)
            .scalar_subquery()
        )

    return Statement(
        select(
            page.c.user_id,
            of(sessions, func.count(), _is_live()).label("sessions"),
            of(sessions, func.max(sessions.c.updated_at), _is_live()).label("updated_at"),
            of(memories, func.count()).label("memories"),
            reached.c.user_id.label("reached"),
        )
        .select_from(reached.outerjoin(page, true()))
        .order_by(page.c.user_id),
        place=Place.EACH_PART,
    )
