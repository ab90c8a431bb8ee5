"""Statements of the queue: what is still to be done with memories. No I/O.

Work is claimed user by user, so that a queue distributed by user needs no other statements. A claim
is a lease: it lapses when the process that took it is gone.
"""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Delete,
    Double,
    Integer,
    Select,
    SmallInteger,
    Text,
    Update,
    and_,
    bindparam,
    case,
    delete,
    exists,
    false,
    func,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP

from adkpg.sql import APP_NAME, USER_ID, in_scope
from adkpg.tables import app_settings, memories, memory_jobs

_TASK = bindparam("task", type_=Text)
_LIMIT = bindparam("limit", type_=Integer)


def _seconds(name: str) -> Any:
    return func.make_interval(0, 0, 0, 0, 0, 0, bindparam(name, type_=Double))


def _free(*, eager: bool) -> Any:
    """Jobs that nobody has claimed; those that wait after a failure only if asked for."""
    unclaimed = or_(
        memory_jobs.c.lease_expires_at.is_(None), memory_jobs.c.lease_expires_at <= func.now()
    )
    free = and_(memory_jobs.c.task == _TASK, ~memory_jobs.c.dead, unclaimed)
    return free if eager else and_(free, memory_jobs.c.due_at <= func.now())


def _of_this_model() -> Any:
    """Apps whose active model is the one given, or that have none yet; all if none is given."""
    model_id = bindparam("model_id", type_=SmallInteger)
    return ~exists(
        select(app_settings.c.app_name).where(
            app_settings.c.app_name == memory_jobs.c.app_name,
            app_settings.c.model_id != model_id,
        )
    )


def _asked_for(*, app: bool, user: bool) -> list[ColumnElement[bool]]:
    """Everybody's jobs, an app's or a user's. Parameters: app_name, user_id where asked for."""
    conditions: list[ColumnElement[bool]] = []
    if app:
        conditions.append(memory_jobs.c.app_name == APP_NAME)
    if user:
        conditions.append(memory_jobs.c.user_id == USER_ID)
    return conditions


@cache
def select_due_users(*, eager: bool, app: bool = False, user: bool = False) -> Select[Any]:
    """Finds users with work, the longest waiting first.

    Parameters: task, limit, model_id (the embedder's model, or null for other tasks), and
    app_name, user_id where asked for.
    """
    return (
        select(memory_jobs.c.app_name, memory_jobs.c.user_id)
        .where(_free(eager=eager), _of_this_model(), *_asked_for(app=app, user=user))
        .group_by(memory_jobs.c.app_name, memory_jobs.c.user_id)
        .order_by(func.min(memory_jobs.c.due_at))
        .limit(_LIMIT)
    )


@cache
def claim(*, eager: bool) -> Select[Any]:
    """Claims some of a user's jobs, those that never failed first.

    Jobs that another worker is claiming are passed over.

    Parameters: app_name, user_id, task, limit, lease_s, and model_id as in `select_due_users`.
    Returns each job's position, attempts and lease_expires_at, and of its memory what the task
    needs, by position.
    """
    chosen = (
        select(
            memory_jobs.c.app_name,
            memory_jobs.c.user_id,
            memory_jobs.c.position,
            memory_jobs.c.task,
        )
        .where(in_scope(memory_jobs), _free(eager=eager), _of_this_model())
        .order_by(memory_jobs.c.attempts, memory_jobs.c.created_at, memory_jobs.c.position)
        .limit(_LIMIT)
        .with_for_update(skip_locked=True)
        .cte("chosen")
    )
    claimed = (
        update(memory_jobs)
        .where(
            memory_jobs.c.app_name == chosen.c.app_name,
            memory_jobs.c.user_id == chosen.c.user_id,
            memory_jobs.c.position == chosen.c.position,
            memory_jobs.c.task == chosen.c.task,
        )
        .values(
            lease_expires_at=func.now() + _seconds("lease_s"),
            attempts=memory_jobs.c.attempts + 1,
        )
        .returning(
            memory_jobs.c.app_name,
            memory_jobs.c.user_id,
            memory_jobs.c.position,
            memory_jobs.c.attempts,
            memory_jobs.c.lease_expires_at,
        )
        .cte("claimed")
    )
    return (
        select(
            claimed.c.app_name,
            claimed.c.user_id,
            claimed.c.position,
            claimed.c.attempts,
            claimed.c.lease_expires_at,
            memories.c.memory_id,
            memories.c.session_id,
            memories.c.event_id,
            memories.c.author,
            memories.c.timestamp,
            memories.c.body,
            memories.c.digest,
        )
        .join_from(
            claimed,
            memories,
            and_(
                memories.c.app_name == claimed.c.app_name,
                memories.c.user_id == claimed.c.user_id,
                memories.c.position == claimed.c.position,
            ),
        )
        .order_by(claimed.c.position)
    )


def _as_claimed() -> ColumnElement[bool]:
    """Jobs that nobody has claimed anew, nor has anybody queued again, since they were claimed."""
    return and_(
        in_scope(memory_jobs),
        memory_jobs.c.task == _TASK,
        memory_jobs.c.lease_expires_at
        == bindparam("claimed_until", type_=TIMESTAMP(timezone=True)),
    )


@cache
def put_back() -> Update:
    """Gives claimed jobs back after a failure, to be tried later, or never if they are dead.

    A job dies of the last attempt that was due: what is tried early, again and again, must not use
    up in seconds what is meant to last for minutes. One whose memory was moved is found by that.

    Parameters: app_name, user_id, task, memory_ids, claimed_until, error (null if it was not tried:
    it is due as it was), delay_s, refused (whether it is the work that failed: a service that is
    down uses up no attempt), max_attempts.
    """
    refused = bindparam("refused", type_=Boolean)
    error = bindparam("error", type_=Text)
    counted = case((refused, memory_jobs.c.attempts), else_=memory_jobs.c.attempts - 1)
    places = select(memories.c.position).where(
        in_scope(memories),
        memories.c.memory_id == func.any(bindparam("memory_ids", type_=ARRAY(Text))),
    )
    return (
        update(memory_jobs)
        .where(_as_claimed(), memory_jobs.c.position.in_(places))
        .values(
            lease_expires_at=None,
            attempts=counted,
            due_at=case(
                (error.is_(None), memory_jobs.c.due_at), else_=func.now() + _seconds("delay_s")
            ),
            error=func.coalesce(error, memory_jobs.c.error),
            dead=and_(
                refused,
                counted >= bindparam("max_attempts", type_=Integer),
                memory_jobs.c.due_at <= func.now(),
            ),
        )
    )


@cache
def complete(*, claimed: bool = False) -> Delete:
    """Ends jobs that are done. Parameters: app_name, user_id, task, positions.

    Args:
      claimed: Only as they were claimed; by claimed_until.
    """
    here = memory_jobs.c.position == func.any(bindparam("positions", type_=ARRAY(BigInteger)))
    if claimed:
        return delete(memory_jobs).where(_as_claimed(), here)
    return delete(memory_jobs).where(in_scope(memory_jobs), memory_jobs.c.task == _TASK, here)


@cache
def revive(*, app: bool, user: bool) -> Select[Any]:
    """Makes dead jobs due again. Parameters: task, and app_name, user_id where asked for."""
    revived = (
        update(memory_jobs)
        .where(memory_jobs.c.task == _TASK, memory_jobs.c.dead, *_asked_for(app=app, user=user))
        .values(dead=false(), attempts=0, due_at=func.now(), lease_expires_at=None)
        .returning(literal_column("1"))
        .cte("revived")
    )
    return select(func.count().label("revived")).select_from(revived)


@cache
def count_jobs(*, app: bool, user: bool) -> Select[Any]:
    """Counts jobs: all that wait, those of them that failed before, and the dead; one row.

    Parameters: task, and app_name, user_id where asked for.
    """
    counts: list[ColumnElement[Any]] = [
        func.count().filter(~memory_jobs.c.dead).label("waiting"),
        func.count().filter(~memory_jobs.c.dead, memory_jobs.c.error.is_not(None)).label("failed"),
        func.count().filter(memory_jobs.c.dead).label("dead"),
        func.max(memory_jobs.c.error).label("error"),
    ]
    return select(*counts).where(memory_jobs.c.task == _TASK, *_asked_for(app=app, user=user))


@cache
def select_waiting(*, app: bool, user: bool) -> Select[Any]:
    """Counts jobs that wait for a model, and names an app whose jobs wait for another; one row.

    Parameters: task, model_id, and app_name, user_id where asked for.
    """
    waiting = (
        select(memory_jobs.c.app_name, _of_this_model().label("own"))
        .where(memory_jobs.c.task == _TASK, ~memory_jobs.c.dead, *_asked_for(app=app, user=user))
        .subquery("waiting")
    )
    counts: list[ColumnElement[Any]] = [
        func.count().filter(waiting.c.own).label("own"),
        func.min(waiting.c.app_name).filter(~waiting.c.own).label("other_app"),
    ]
    return select(*counts)
