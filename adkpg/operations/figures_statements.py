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
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
    text,
    union_all,
)

from adkpg.keys import APP_WIDE
from adkpg.sql import Statement
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


class SchemaParameters(TypedDict):
    """The name of the schema."""

    schema: str


_APP = bindparam("app_name", type_=Text)
_SINCE = bindparam("since", type_=DateTime(timezone=True))
_NONE = literal_column("0", BigInteger)


def _of_app(table: Any) -> ColumnElement[bool]:
    return or_(_APP.is_(None), table.c.app_name == _APP)


_FIGURES = (
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
    columns = [cast(figures.get(name, _NONE), BigInteger).label(name) for name in _FIGURES]
    grouped = [table.c[key] for key in keys]
    return select(*grouped, *columns).where(_of_app(table), *where).group_by(*grouped)


def _parts(*keys: str, rates: bool) -> list[Select[Any]]:
    new_sessions = (
        {"new_sessions": func.count().filter(sessions.c.created_at >= _SINCE)} if rates else {}
    )
    new_memories = (
        {"new_memories": func.count().filter(memories.c.created_at >= _SINCE)} if rates else {}
    )
    parts = [
        _part(
            sessions,
            *keys,
            sessions=func.count(),
            events=func.sum(sessions.c.revision),
            payload_bytes=func.sum(sessions.c.payload_bytes),
            **new_sessions,
        ),
        _part(memories, *keys, memories=func.count(), **new_memories),
        _part(
            memory_vectors,
            *keys,
            where=[memory_vectors.c.passage == literal_column("0", Integer)],
            vectors=func.count(),
        ),
        _part(artifacts, *keys, files=func.count(), file_bytes=func.sum(artifacts.c.size)),
        _part(
            memory_jobs,
            *keys,
            waiting=func.count().filter(~memory_jobs.c.dead),
            dead=func.count().filter(memory_jobs.c.dead),
        ),
    ]
    if rates:
        # Only sessions that were appended to since then have such events.
        recent = (
            select(events.c.app_name)
            .select_from(sessions.join(events))
            .where(_of_app(sessions), sessions.c.updated_at >= _SINCE, events.c.timestamp >= _SINCE)
            .subquery("recent")
        )
        columns = [
            cast(func.count() if name == "new_events" else _NONE, BigInteger).label(name)
            for name in _FIGURES
        ]
        parts.append(select(recent.c.app_name, *columns).group_by(recent.c.app_name))
    return parts


@cache
def select_apps() -> Statement[FiguresParameters]:
    """Counts what each app has, and its users; by name.

    Users of sessions and memories; what an app knows for all its users is no user's.
    """
    parts = _parts("app_name", rates=True)
    nothing = [cast(_NONE, BigInteger).label(name) for name in _FIGURES]
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
    sums = [func.sum(counted.c[name]).cast(BigInteger).label(name) for name in _FIGURES]
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
    counted = union_all(*_parts("app_name", "user_id", rates=False)).subquery("counted")
    kept = _FIGURES[: _FIGURES.index("new_sessions")]
    sums = [func.sum(counted.c[name]).cast(BigInteger).label(name) for name in kept]
    return Statement(
        select(counted.c.app_name, counted.c.user_id, *sums)
        .group_by(counted.c.app_name, counted.c.user_id)
        .order_by(
            func.sum(counted.c.events + counted.c.memories).desc(),
            counted.c.app_name,
            counted.c.user_id,
        )
        .limit(bindparam("limit", type_=Integer))
    )


@cache
def select_growth() -> Statement[GrowthParameters]:
    """Counts by day, in UTC, what came: day, sessions, events, memories; by day."""

    def days(table: Any, column: Any, name: str, *where: Any) -> Select[Any]:
        day: ColumnElement[Any] = cast(func.timezone(literal_column("'UTC'"), column), Date).label(
            "day"
        )
        columns: list[ColumnElement[Any]] = [day]
        columns += [
            cast(func.count() if each == name else _NONE, BigInteger).label(each)
            for each in ("sessions", "events", "memories")
        ]
        counted: Select[Any] = (
            select(*columns)
            .select_from(table)
            .where(_of_app(sessions if name == "events" else table), column >= _SINCE, *where)
            .group_by(literal_column("1"))
        )
        return counted

    came = union_all(
        days(sessions, sessions.c.created_at, "sessions"),
        days(sessions.join(events), events.c.timestamp, "events", sessions.c.updated_at >= _SINCE),
        days(memories, memories.c.created_at, "memories"),
    ).subquery("came")
    sums = [
        func.sum(came.c[name]).cast(BigInteger).label(name)
        for name in ("sessions", "events", "memories")
    ]
    return Statement(select(came.c.day, *sums).group_by(came.c.day).order_by(came.c.day))


@cache
def select_sizes() -> Statement[SchemaParameters]:
    """Reads how large each table is: name, rows (estimated), bytes, index_bytes; largest first."""
    return Statement(
        text(
            "SELECT c.relname AS name,"
            " greatest(c.reltuples, pg_stat_get_live_tuples(c.oid), 0)::bigint AS rows,"
            " pg_table_size(c.oid) AS bytes, pg_indexes_size(c.oid) AS index_bytes"
            " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = :schema AND c.relkind IN ('r', 'p')"
            " ORDER BY pg_total_relation_size(c.oid) DESC, c.relname"
        ).bindparams(bindparam("schema", type_=Text))
    )
