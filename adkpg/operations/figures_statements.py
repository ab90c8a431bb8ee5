"""Statements of figures: how much there is, by app, by user and by table. No I/O."""

from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Date,
    DateTime,
    Integer,
    Select,
    Table,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY

from adkpg.keys import APP_WIDE
from adkpg.operations.nodes.statements import SchemaParameters, forms
from adkpg.sampling_statements import page_of, some
from adkpg.sql import Statement, given_rows
from adkpg.tables import (
    app_states,
    artifacts,
    events,
    memories,
    memory_jobs,
    memory_vectors,
    sessions,
)


class FiguresParameters(TypedDict):
    """An app; null is all. Rates are of what came after ``since``."""

    app_name: str | None
    since: Any


class LargestParameters(TypedDict):
    """An app, null is all, and how many users."""

    app_name: str | None
    limit: int


class GrowthParameters(TypedDict):
    """An app; null is all. And from when on."""

    app_name: str | None
    since: Any


class SampledParameters(FiguresParameters):
    """Of a table that is read in part: how much of it."""

    percent: float


class UserNumbersParameters(TypedDict):
    """An app; null is all. Of a table that is read in part: how much of it."""

    app_name: str | None
    percent: float


class LargestOfParameters(LargestParameters):
    """Of a table that is read in part: how much of it."""

    percent: float


class FewUsersParameters(TypedDict):
    """Apps, of each of which so many rows at most are counted."""

    app_names: list[str]
    limit: int


class FewParameters(FewUsersParameters):
    """Rates are of what came after ``since``."""

    since: Any


class CountFewParameters(TypedDict):
    """An app, of which so many rows at most are counted."""

    app_name: str
    limit: int


class DaysParameters(GrowthParameters):
    """Of a table that is read in part: how much of it."""

    percent: float


class SomeUsersParameters(TypedDict):
    """Some users, in parallel lists."""

    app_names: list[str]
    user_ids: list[str]


_APP = bindparam("app_name", type_=Text)
_SINCE = bindparam("since", type_=DateTime(timezone=True))
_NONE = literal_column("0", BigInteger)
_ONE = literal_column("1", BigInteger)


def _of_app(table: Any) -> ColumnElement[bool]:
    return or_(_APP.is_(None), table.c.app_name == _APP)


FIGURES = (
    "sessions",
    "events",
    "payload_bytes",
    "memories",
    "vectors",
    "files",
    "file_bytes",
    "waiting",
    "dead",
    "new_sessions",
    "new_events",
    "new_memories",
)


def _part(table: Any, *keys: str, where: Any = (), **figures: ColumnElement[Any]) -> Select[Any]:
    """Some of the figures, counted in one table; the others are nought."""
    columns = [cast(figures.get(name, _NONE), BigInteger).label(name) for name in FIGURES]
    grouped = [table.c[key] for key in keys]
    return select(*grouped, *columns).where(*where).group_by(*grouped)


def _figures_of(table: Table, rows: Any, *, rates: bool) -> dict[str, ColumnElement[Any]]:
    """What is counted in a table's rows, in some of them or in a subquery that has the columns."""
    if table is sessions:
        new = {"new_sessions": func.count().filter(rows.c.created_at >= _SINCE)} if rates else {}
        return {
            "sessions": func.count(),
            "events": func.sum(rows.c.revision),
            "payload_bytes": func.sum(rows.c.payload_bytes),
            **new,
        }
    if table is memories:
        new = {"new_memories": func.count().filter(rows.c.created_at >= _SINCE)} if rates else {}
        return {"memories": func.count(), **new}
    if table is memory_vectors:
        return {"vectors": func.count()}
    if table is artifacts:
        return {"files": func.count(), "file_bytes": func.sum(rows.c.size)}
    if table is memory_jobs:
        return {
            "waiting": func.count().filter(~rows.c.dead),
            "dead": func.count().filter(rows.c.dead),
        }
    assert table is events
    return {"new_events": func.count()}


def _rows_of(table: Table, rows: Any) -> list[ColumnElement[bool]]:
    """Which rows of a table are counted, the app's left aside."""
    if table is memory_vectors:
        return [rows.c.passage == literal_column("0", Integer)]
    if table is events:
        return [rows.c.timestamp >= _SINCE]
    return []


COUNTED = (sessions, memories, memory_vectors, artifacts, memory_jobs)
"""The tables that figures are counted in."""


def _parts(*keys: str, rates: bool, whose: Any = _of_app) -> list[Select[Any]]:
    parts = [
        _part(
            table,
            *keys,
            where=[whose(table), *_rows_of(table, table)],
            **_figures_of(table, table, rates=rates),
        )
        for table in COUNTED
    ]
    if rates:
        parts.append(_new_events())
    return parts


def _new_events() -> Select[Any]:
    # Only sessions that were appended to since then have such events.
    recent = (
        select(events.c.app_name)
        .select_from(sessions.join(events))
        .where(_of_app(sessions), sessions.c.updated_at >= _SINCE, events.c.timestamp >= _SINCE)
        .subquery("recent")
    )
    columns = [
        cast(func.count() if name == "new_events" else _NONE, BigInteger).label(name)
        for name in FIGURES
    ]
    return select(recent.c.app_name, *columns).group_by(recent.c.app_name)


@cache
def select_some(counted: Table, *, whole: bool) -> Statement[SampledParameters]:
    """Counts by app in a table, or in some pages of it: app_name, and the figures that it has."""
    if counted is events and whole:
        return Statement(_new_events())
    rows = counted if whole else some(counted)
    return Statement(
        _part(
            rows,
            "app_name",
            where=[_of_app(rows), *_rows_of(counted, rows)],
            **_figures_of(counted, rows, rates=True),
        )
    )


@cache
def select_few(counted: Table) -> Statement[FewParameters]:
    """Counts in a table the first rows of some apps: app_name, counted, and the figures.

    Where fewer are counted than the limit, the figures are all that there is.
    """
    limit = bindparam("limit", type_=Integer)
    apps = (
        func.unnest(bindparam("app_names", type_=ARRAY(Text)))
        .table_valued("app_name", name="a")
        .render_derived()
    )
    own = select(counted).where(counted.c.app_name == apps.c.app_name).correlate(apps).limit(limit)
    if counted is events:  # those of few sessions
        few = select(sessions).where(sessions.c.app_name == apps.c.app_name).correlate(apps)
        some_sessions = few.limit(limit).subquery("some_sessions")
        own = (
            select(events)
            .select_from(
                some_sessions.join(
                    events,
                    (events.c.app_name == some_sessions.c.app_name)
                    & (events.c.user_id == some_sessions.c.user_id)
                    & (events.c.session_id == some_sessions.c.session_id),
                )
            )
            .where(some_sessions.c.updated_at >= _SINCE, events.c.timestamp >= _SINCE)
            .limit(limit)
        )
    rows = own.subquery("few")
    wanted = _rows_of(counted, rows)
    figures = _figures_of(counted, rows, rates=True)
    figures_of = (
        select(
            func.count().label("counted"),
            *(
                cast(each.filter(*wanted) if wanted else each, BigInteger).label(name)
                for name, each in figures.items()
            ),
        )
        .select_from(rows)
        .lateral("counted")
    )
    return Statement(
        select(apps.c.app_name, *figures_of.c).select_from(apps.join(figures_of, true()))
    )


@cache
def count_few(table: Table) -> Statement[CountFewParameters]:
    """Counts an app's rows in a table, up to a limit: counted."""
    few = (
        select(_ONE.label("one"))
        .select_from(table)
        .where(table.c.app_name == _APP)
        .limit(bindparam("limit", type_=Integer))
        .subquery("few")
    )
    return Statement(select(func.count().label("counted")).select_from(few))


@cache
def select_user_numbers(table: Table, *, whole: bool) -> Statement[UserNumbersParameters]:
    """Counts by app the users that a table, or a sample of it, has.

    Returns app_name, users, once (of whom one page alone has rows) and places (pairs of page and
    user), from which the number of all users is estimated.
    """
    rows = table if whole else some(table)
    page = _NONE if whole else page_of(rows)
    each = (
        select(rows.c.app_name, rows.c.user_id, func.count(page.distinct()).label("pages"))
        .where(_of_app(rows), rows.c.user_id != literal_column(f"'{APP_WIDE}'", Text))
        .group_by(rows.c.app_name, rows.c.user_id)
        .subquery("each")
    )
    return Statement(
        select(
            each.c.app_name,
            func.count().label("users"),
            func.count().filter(each.c.pages == _ONE).label("once"),
            func.sum(each.c.pages).cast(BigInteger).label("places"),
        ).group_by(each.c.app_name)
    )


@cache
def select_few_users() -> Statement[FewUsersParameters]:
    """Counts the users of the first sessions and memories of some apps: app_name, users."""
    limit = bindparam("limit", type_=Integer)
    apps = (
        func.unnest(bindparam("app_names", type_=ARRAY(Text)))
        .table_valued("app_name", name="a")
        .render_derived()
    )
    either = union_all(
        *(
            select(
                select(table.c.user_id)
                .where(table.c.app_name == apps.c.app_name)
                .correlate(apps)
                .limit(limit)
                .subquery(f"few_{table.name}")
            )
            for table in (sessions, memories)
        )
    ).subquery("either")
    counted = (
        select(func.count(either.c.user_id.distinct()).label("users"))
        .where(either.c.user_id != literal_column(f"'{APP_WIDE}'", Text))
        .lateral("counted")
    )
    return Statement(
        select(apps.c.app_name, counted.c.users).select_from(apps.join(counted, true()))
    )


@cache
def select_largest_of(table: Table, *, whole: bool) -> Statement[LargestOfParameters]:
    """Reads the users who have most in a table, or in some pages of it: app_name, user_id, most."""
    rows = table if whole else some(table)
    number = func.sum(rows.c.revision) if table is sessions else func.count()
    return Statement(
        select(rows.c.app_name, rows.c.user_id, cast(number, BigInteger).label("most"))
        .where(_of_app(rows))
        .group_by(rows.c.app_name, rows.c.user_id)
        .order_by(literal_column("most").desc(), rows.c.app_name, rows.c.user_id)
        .limit(bindparam("limit", type_=Integer))
    )


@cache
def select_some_users() -> Statement[SomeUsersParameters]:
    """Counts what some users have: as `select_largest` does of all."""
    given = given_rows(app_names=Text, user_ids=Text)

    def whose(table: Any) -> ColumnElement[bool]:
        return tuple_(table.c.app_name, table.c.user_id).in_(
            select(given.c.app_names, given.c.user_ids)
        )

    return Statement(_largest(_parts("app_name", "user_id", rates=False, whose=whose)))


@cache
def select_apps() -> Statement[FiguresParameters]:
    """Counts what each app has, and its users; by name.

    Users of sessions and memories; what an app knows for all its users is no user's.
    """
    parts = _parts("app_name", rates=True)
    nothing = [cast(_NONE, BigInteger).label(name) for name in FIGURES]
    parts.append(select(app_states.c.app_name, *nothing).where(_of_app(app_states)))
    counted = union_all(*parts).subquery("counted")
    people = union_all(
        *(
            select(table.c.app_name, table.c.user_id).where(_of_app(table)).distinct()
            for table in (sessions, memories)
        )
    ).subquery("people")
    users = (
        select(people.c.app_name, func.count(people.c.user_id.distinct()).label("users"))
        .where(people.c.user_id != literal_column(f"'{APP_WIDE}'", Text))
        .group_by(people.c.app_name)
        .subquery("users_of")
    )
    sums = [func.sum(counted.c[name]).cast(BigInteger).label(name) for name in FIGURES]
    return Statement(
        select(
            counted.c.app_name,
            func.coalesce(func.max(users.c.users), _NONE).label("users"),
            *sums,
        )
        .select_from(counted.outerjoin(users, users.c.app_name == counted.c.app_name))
        .group_by(counted.c.app_name)
        .order_by(counted.c.app_name)
    )


@cache
def select_largest() -> Statement[LargestParameters]:
    """Counts what the users have who have most: by events and memories, most first."""
    parts = _parts("app_name", "user_id", rates=False)
    return Statement(_largest(parts).limit(bindparam("limit", type_=Integer)))


def _largest(parts: list[Select[Any]]) -> Select[Any]:
    counted = union_all(*parts).subquery("counted")
    kept = FIGURES[: FIGURES.index("new_sessions")]
    sums = [func.sum(counted.c[name]).cast(BigInteger).label(name) for name in kept]
    return (
        select(counted.c.app_name, counted.c.user_id, *sums)
        .group_by(counted.c.app_name, counted.c.user_id)
        .order_by(
            func.sum(counted.c.events + counted.c.memories).desc(),
            counted.c.app_name,
            counted.c.user_id,
        )
    )


@cache
def select_days(came_into: Table, *, app: bool, whole: bool) -> Statement[DaysParameters]:
    """Counts by day, in UTC, what came into a table, or into some pages of it: day, came."""
    rows: Any = came_into if whole else some(came_into)
    column = rows.c.timestamp if came_into is events else rows.c.created_at
    source, where = rows, [column >= _SINCE]
    if came_into is events and whole:  # only sessions that were appended to since then have such
        source = sessions.join(events)
        where.append(sessions.c.updated_at >= _SINCE)
    if app:
        where.append((sessions if source is not rows else rows).c.app_name == _APP)
    day: ColumnElement[Any] = cast(func.timezone(literal_column("'UTC'"), column), Date)
    return Statement(
        select(day.label("day"), func.count().label("came"))
        .select_from(source)
        .where(*where)
        .group_by(literal_column("1"))
    )


@cache
def select_sizes() -> Statement[SchemaParameters]:
    """Reads how large each table is: name, rows (estimated), bytes, index_bytes; largest first."""
    here, over_nodes = forms(
        lambda relations: (
            "SELECT r.name, r.copied,"  # noqa: S608 - our own words
            " greatest(c.reltuples, pg_stat_get_live_tuples(c.oid), 0)::bigint AS rows,"
            " coalesce(pg_table_size(c.oid), 0) AS bytes,"
            " coalesce(pg_indexes_size(c.oid), 0) AS index_bytes"
            f" FROM {relations.tables} JOIN pg_class c ON c.oid = r.oid"
            " ORDER BY pg_total_relation_size(c.oid) DESC NULLS LAST, r.name"
        )
    )
    return Statement(here, over_nodes=over_nodes)
