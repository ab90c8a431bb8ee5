"""Statements that tidy: each reads and changes one batch, in the order of an index. No I/O."""

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Integer,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP

from adkpg.memory.write.statements import PositionsParameters, buried
from adkpg.sql import SESSION_KEY, Statement, deleted_sessions, in_scope, locked_sessions
from adkpg.tables import audit, events, invocation_results, memories, memory_tombstones, sessions

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


class BatchParameters(TypedDict):
    """Most rows that one run looks at."""

    limit: int


class TombstonesParameters(BatchParameters):
    """How long the mark of an event that is not stored stays."""

    tombstone_days: float


class AuditParameters(BatchParameters):
    """How long the audit says who changed what."""

    audit_days: float


class SweepParameters(TombstonesParameters, AuditParameters):
    """What the sweeps take; each ignores the others'."""


@dataclass(frozen=True)
class Sweep:
    """Rows of one table that end by themselves.

    Attributes:
      table: Its name.
      statement: Takes `SweepParameters`, or fewer. Returns one row: ``seen``, how many rows it
        looked at, at most ``limit``, and ``gone``. It passes over what others have locked, and
        looks at the oldest first.
    """

    table: str
    statement: Statement[Any]


def sweeps() -> tuple[Sweep, ...]:
    """Returns all of them; a table whose rows end by themselves has its sweep here."""
    return (
        Sweep("memory_tombstones", sweep_tombstones()),
        Sweep("invocation_results", sweep_results()),
        Sweep("audit", sweep_audit()),
    )


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
def sweep_tombstones() -> Statement[TombstonesParameters]:
    """Deletes marks whose event is not stored, and renews those whose event is."""
    key = [column.name for column in memory_tombstones.primary_key]
    old = (
        select(
            *(memory_tombstones.c[name] for name in key),
            exists(
                select(literal_column("1")).where(
                    *(events.c[name] == memory_tombstones.c[name] for name in key)
                )
            ).label("needed"),
        )
        .where(memory_tombstones.c.needed_at < _days_ago("tombstone_days"))
        .order_by(memory_tombstones.c.needed_at)
        .limit(_LIMIT)
        .with_for_update(skip_locked=True, of=memory_tombstones)
        .cte("old")
    )
    same = and_(*(memory_tombstones.c[name] == old.c[name] for name in key))
    renewed = (
        update(memory_tombstones)
        .where(same, old.c.needed)
        .values(needed_at=func.now())
        .cte("renewed")
    )
    gone = (
        delete(memory_tombstones)
        .where(same, ~old.c.needed)
        .returning(literal_column("1"))
        .cte("gone")
    )
    return Statement(
        select(
            select(func.count()).select_from(old).scalar_subquery().label("seen"),
            select(func.count()).select_from(gone).scalar_subquery().label("gone"),
        ).add_cte(renewed)
    )


@cache
def sweep_results() -> Statement[BatchParameters]:
    """Deletes results of invocations whose key has expired."""
    ended = invocation_results.c.expires_at
    return Statement(_deleted(invocation_results, ended <= func.now(), by=ended))


@cache
def sweep_audit() -> Statement[AuditParameters]:
    """Deletes what the audit has said for long enough."""
    changed = audit.c.changed_at
    return Statement(_deleted(audit, changed < _days_ago("audit_days"), by=changed))


def _days_ago(name: str) -> ColumnElement[Any]:
    days = bindparam(name, type_=Double)
    return func.now() - func.make_interval(0, 0, 0, 0, 0, 0, days * 86_400)


def _deleted(table: Table, over: ColumnElement[bool], *, by: ColumnElement[Any]) -> Select[Any]:
    """Deletes a batch of a table's rows that are over, the oldest first."""
    key = [column.name for column in table.primary_key]
    old = (
        select(*(table.c[name] for name in key))
        .where(over)
        .order_by(by)
        .limit(_LIMIT)
        .with_for_update(skip_locked=True)
        .cte("old")
    )
    gone = (
        delete(table)
        .where(*(table.c[name] == old.c[name] for name in key))
        .returning(literal_column("1"))
        .cte("gone")
    )
    return select(
        select(func.count()).select_from(old).scalar_subquery().label("seen"),
        select(func.count()).select_from(gone).scalar_subquery().label("gone"),
    )
