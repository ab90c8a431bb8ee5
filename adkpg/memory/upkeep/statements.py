"""Statements that tidy: each reads and changes one batch, in the order of an index. No I/O."""

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    BigInteger,
    Column,
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


class FoundParameters(SweepParameters):
    """A batch of rows that are over, after those that were passed over."""

    passed: int


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
def sweep_tombstones() -> Statement[TombstonesParameters]:
    """Deletes marks whose event is not stored, and renews those whose event is."""
    over, oldest = _over("memory_tombstones")
    old = (
        select(*memory_tombstones.primary_key, _is_stored())
        .where(over)
        .order_by(oldest)
        .limit(_LIMIT)
        .with_for_update(skip_locked=True, of=memory_tombstones)
        .cte("old")
    )
    same = _same(memory_tombstones, old)
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
    return Statement(_deleted("invocation_results"))


@cache
def sweep_audit() -> Statement[AuditParameters]:
    """Deletes what the audit has said for long enough."""
    return Statement(_deleted("audit"))


@cache
def select_over(swept: str) -> Statement[FoundParameters]:
    """Reads the keys of a table's rows that are over, the oldest first: of all nodes, unlocked.

    Args:
      swept: The name of a `Sweep`'s table.
    """
    over, oldest = _over(swept)
    key = metadata.tables[f"{SCHEMA}.{swept}"].primary_key
    passed = bindparam("passed", type_=Integer)
    return Statement(select(*key).where(over).order_by(oldest, *key).limit(_LIMIT).offset(passed))


@cache
def end_of_users(swept: str) -> Statement[OfUsersParameters]:
    """Does what a `Sweep` does with rows of `select_over`, those of a user on the user's node.

    What others have locked it passes over. Takes the parts of their keys in parallel, by the names
    of `key_lists`. Returns a row for each that it came to; ``gone`` is whether it is.

    Args:
      swept: The name of a `Sweep`'s table.
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


def _deleted(swept: str) -> Select[Any]:
    """Deletes a batch of a table's rows that are over, the oldest first."""
    over, oldest = _over(swept)
    table = metadata.tables[f"{SCHEMA}.{swept}"]
    old = (
        select(*table.primary_key)
        .where(over)
        .order_by(oldest)
        .limit(_LIMIT)
        .with_for_update(skip_locked=True)
        .cte("old")
    )
    gone = delete(table).where(_same(table, old)).returning(literal_column("1")).cte("gone")
    return select(
        select(func.count()).select_from(old).scalar_subquery().label("seen"),
        select(func.count()).select_from(gone).scalar_subquery().label("gone"),
    )
