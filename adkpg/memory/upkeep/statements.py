"""Statements that tidy: each reads and changes one batch, in the order of an index. No I/O."""

from datetime import datetime
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Double,
    Integer,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    false,
    func,
    literal_column,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP

from adkpg.memory.write.statements import PositionsParameters, buried
from adkpg.sql import (
    SESSION_KEY,
    Statement,
    deleted_sessions,
    given_rows,
    in_scope,
    locked_sessions,
)
from adkpg.tables import (
    SCHEMA,
    audit,
    events,
    invocation_results,
    memories,
    memory_tombstones,
    metadata,
    sessions,
)

_POSITIONS = bindparam("positions", type_=ARRAY(BigInteger))
_LIMIT = bindparam("limit", type_=Integer)
_EXPIRED_KEY = (
    memories.c.expires_at,
    memories.c.app_name,
    memories.c.user_id,
    memories.c.position,
)


class ExpiredParameters(TypedDict):
    """A batch of expired memories, after one."""

    limit: int
    after_expires_at: datetime | None
    after_app_name: str | None
    after_user_id: str | None
    after_position: int | None


class SweepParameters(TypedDict):
    """A batch of rows that are over, after those that were passed over, and when they are.

    Attributes:
      limit: Most rows.
      passed: How many of the oldest were passed over.
      tombstone_days: How long the mark of an event that is not stored stays.
      audit_days: How long the audit says who changed what.
    """

    limit: int
    passed: int
    tombstone_days: float
    audit_days: float


SWEPT = ("memory_tombstones", "invocation_results", "audit")
"""The tables whose rows end by themselves; a mark whose event is stored is renewed."""


class OfUsersParameters(TypedDict):
    """What `end_of_users` takes: the parts of keys, in parallel; each table has its own."""

    tombstone_days: float
    audit_days: float
    app_names: list[str]
    user_ids: list[str]
    session_ids: list[str]
    event_ids: list[str]
    idempotency_keys: list[str]
    audit_ids: list[str]


def expired() -> ColumnElement[bool]:
    """Memories that have ended; superseded facts are kept for audit."""
    return and_(memories.c.expires_at <= func.now(), memories.c.superseded_by.is_(None))


@cache
def select_expired(*, after: bool) -> Statement[ExpiredParameters]:
    """Reads a batch of expired memories of everybody, the first to expire first."""
    found = (
        select(*_EXPIRED_KEY, memories.c.session_id)
        .where(expired())
        .order_by(*_EXPIRED_KEY)
        .limit(_LIMIT)
    )
    if after:
        last = (
            bindparam("after_expires_at", type_=TIMESTAMP(timezone=True)),
            bindparam("after_app_name", type_=Text),
            bindparam("after_user_id", type_=Text),
            bindparam("after_position", type_=BigInteger),
        )
        found = found.where(tuple_(*_EXPIRED_KEY) > tuple_(*last))
    return Statement(found)


@cache
def lock_free_positions() -> Statement[PositionsParameters]:
    """Locks those of some memories that nobody is writing to; returns their positions."""
    return Statement(
        select(memories.c.position)
        .where(in_scope(memories), memories.c.position == func.any(_POSITIONS))
        .order_by(memories.c.position)
        .with_for_update(skip_locked=True)
    )


@cache
def erase_expired_positions() -> Statement[PositionsParameters]:
    """Erases those of some memories that have expired, and what was drawn from them.

    Returns ``erased``; see `buried`.
    """
    return Statement(buried(and_(memories.c.position == func.any(_POSITIONS), expired())))


class ExpiredSessionsParameters(TypedDict):
    """A batch of expired sessions, after one."""

    limit: int
    after_app_name: str | None
    after_user_id: str | None
    after_session_id: str | None


class SessionsParameters(TypedDict):
    """Some sessions, in parallel."""

    app_names: list[str]
    user_ids: list[str]
    session_ids: list[str]


@cache
def select_expired_sessions(*, after: bool) -> Statement[ExpiredSessionsParameters]:
    """Reads a batch of everybody's expired sessions, in the order of their index."""
    found = (
        select(*SESSION_KEY)
        .where(sessions.c.expires, sessions.c.expires_at <= func.now())
        .order_by(*SESSION_KEY)
        .limit(_LIMIT)
    )
    if after:
        last = (bindparam(f"after_{column.name}", type_=Text) for column in SESSION_KEY)
        found = found.where(tuple_(*SESSION_KEY) > tuple_(*last))
    return Statement(found)


@cache
def delete_expired_sessions() -> Statement[SessionsParameters]:
    """Deletes those of some sessions that are still expired, with their events and files.

    Those that somebody writes to are passed over. The marks of memories that were deleted from them
    stay for a while. Returns the key of each.
    """
    return Statement(deleted_sessions(locked_sessions(sessions.c.expires_at <= func.now())))


@cache
def select_over(swept: str) -> Statement[SweepParameters]:
    """Reads the keys of rows of one of `SWEPT` that are over, the oldest first; locks none."""
    over, oldest = _over(swept)
    key = metadata.tables[f"{SCHEMA}.{swept}"].primary_key
    passed = bindparam("passed", type_=Integer)
    return Statement(select(*key).where(over).order_by(oldest, *key).limit(_LIMIT).offset(passed))


@cache
def end_of_users(swept: str) -> Statement[OfUsersParameters]:
    """Deletes those of some rows of one of `SWEPT` that are over, or renews them.

    What others have locked it passes over. Takes the parts of their keys in parallel, by the names
    of `key_lists`. Returns a row for each that it came to; ``gone`` is whether it is.
    """
    table = metadata.tables[f"{SCHEMA}.{swept}"]
    lists = key_lists(swept)
    kinds: dict[str, Any] = {name: table.c[of].type for name, of in lists.items()}
    given = given_rows(**kinds)
    over, _ = _over(swept)
    stored = [_is_stored()] if table is memory_tombstones else []
    old = (
        select(*table.primary_key, *stored)
        .where(over, tuple_(*table.primary_key).in_(select(*given.c)))
        .with_for_update(skip_locked=True)
        .cte("old")
    )
    same = _same(table, old)
    gone = delete(table).returning(true().label("gone"))
    if not stored:
        return Statement(gone.where(same))
    deleted = gone.where(same, ~old.c.needed).cte("deleted")
    renewed = (
        update(table)
        .where(same, old.c.needed)
        .values(needed_at=func.now())
        .returning(false().label("gone"))
        .cte("renewed")
    )
    return Statement(select(deleted.c.gone).union_all(select(renewed.c.gone)))


def key_lists(swept: str) -> dict[str, str]:
    """Returns the parameters of `end_of_users`, and the column that each is of."""
    columns = metadata.tables[f"{SCHEMA}.{swept}"].primary_key
    return {f"{column.name}s": column.name for column in columns}


def _over(swept: str) -> tuple[ColumnElement[bool], Column[Any]]:
    """Which rows of a swept table are over, and since when."""
    needed, ended, changed = (
        memory_tombstones.c.needed_at,
        invocation_results.c.expires_at,
        audit.c.changed_at,
    )
    return {
        "memory_tombstones": (needed < _days_ago("tombstone_days"), needed),
        "invocation_results": (ended <= func.now(), ended),
        "audit": (changed < _days_ago("audit_days"), changed),
    }[swept]


def _is_stored() -> ColumnElement[bool]:
    """Whether the event of a mark is; its column is ``needed``."""
    key = memory_tombstones.primary_key
    same = (events.c[column.name] == column for column in key)
    return exists(select(literal_column("1")).where(*same)).label("needed")


def _same(table: Table, old: Any) -> ColumnElement[bool]:
    return and_(*(column == old.c[column.name] for column in table.primary_key))


def _days_ago(name: str) -> ColumnElement[Any]:
    days = bindparam(name, type_=Double)
    return func.now() - func.make_interval(0, 0, 0, 0, 0, 0, days * 86_400)
