"""Statements that count what apps and users have. No I/O."""

from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    BigInteger,
    ColumnElement,
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
    """An app; null is all. New is what came after ``since``."""

    app_name: str | None
    since: Any


class LargestParameters(TypedDict):
    """An app, null is all, and how many users."""

    app_name: str | None
    limit: int


_APP = bindparam("app_name", type_=Text)
_SINCE = bindparam("since", type_=DateTime(timezone=True))
_NONE = literal_column("0", BigInteger)
_KEPT: dict[Table, dict[str, ColumnElement[Any]]] = {
    sessions: {
        "sessions": func.count(),
        "events": func.sum(sessions.c.revision),
        "payload_bytes": func.sum(sessions.c.payload_bytes),
    },
    memories: {"memories": func.count()},
    memory_vectors: {
        "vectors": func.count().filter(memory_vectors.c.passage == literal_column("0", Integer))
    },
    artifacts: {"files": func.count(), "file_bytes": func.sum(artifacts.c.size)},
    memory_jobs: {
        "waiting": func.count().filter(~memory_jobs.c.dead),
        "dead": func.count().filter(memory_jobs.c.dead),
    },
}
_NEW: dict[Table, dict[str, ColumnElement[Any]]] = {
    sessions: {"new_sessions": func.count().filter(sessions.c.created_at >= _SINCE)},
    memories: {"new_memories": func.count().filter(memories.c.created_at >= _SINCE)},
}
_FIGURES = tuple(name for figures in _KEPT.values() for name in figures)
_NEWS = ("new_sessions", "new_events", "new_memories")


def _of_app(table: Any) -> ColumnElement[bool]:
    return or_(_APP.is_(None), table.c.app_name == _APP)


def _columns(names: tuple[str, ...], figures: dict[str, Any]) -> list[ColumnElement[Any]]:
    """Returns all columns of a part of a union; what the part does not count is nought."""
    return [cast(figures.get(name, _NONE), BigInteger).label(name) for name in names]


def _sums(names: tuple[str, ...], counted: Any) -> list[ColumnElement[Any]]:
    return [func.sum(counted.c[name]).cast(BigInteger).label(name) for name in names]


@cache
def select_apps() -> Statement[FiguresParameters]:
    """Counts what each app has, and its users; by name.

    Users of sessions and memories; what an app knows for all its users is no user's.
    """
    names = _FIGURES + _NEWS
    parts = [
        select(table.c.app_name, *_columns(names, figures | _NEW.get(table, {})))
        .where(_of_app(table))
        .group_by(table.c.app_name)
        for table, figures in _KEPT.items()
    ]
    # Only sessions that were appended to since then have new events.
    recent = (
        select(events.c.app_name)
        .select_from(sessions.join(events))
        .where(_of_app(sessions), sessions.c.updated_at >= _SINCE, events.c.timestamp >= _SINCE)
        .subquery("recent")
    )
    parts += [
        select(recent.c.app_name, *_columns(names, {"new_events": func.count()})).group_by(
            recent.c.app_name
        ),
        select(app_states.c.app_name, *_columns(names, {})).where(_of_app(app_states)),
    ]
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
    return Statement(
        select(
            counted.c.app_name,
            func.coalesce(func.max(users.c.users), _NONE).label("users"),
            *_sums(names, counted),
        )
        .select_from(counted.outerjoin(users, users.c.app_name == counted.c.app_name))
        .group_by(counted.c.app_name)
        .order_by(counted.c.app_name)
    )


@cache
def select_largest() -> Statement[LargestParameters]:
    """Counts what the users have who have most: by events and memories, most first."""
    parts: list[Select[Any]] = [
        select(table.c.app_name, table.c.user_id, *_columns(_FIGURES, figures))
        .where(_of_app(table))
        .group_by(table.c.app_name, table.c.user_id)
        for table, figures in _KEPT.items()
    ]
    counted = union_all(*parts).subquery("counted")
    return Statement(
        select(counted.c.app_name, counted.c.user_id, *_sums(_FIGURES, counted))
        .group_by(counted.c.app_name, counted.c.user_id)
        .order_by(
            func.sum(counted.c.events + counted.c.memories).desc(),
            counted.c.app_name,
            counted.c.user_id,
        )
        .limit(bindparam("limit", type_=Integer))
    )
