"""Statements of the queue: what is still to be done with memories. No I/O.

Work is claimed user by user, so that a queue distributed by user needs no other statements. A claim
is a lease: it lapses when the process that took it is gone.
"""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
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
from sqlalchemy.dialects.postgresql import ARRAY

from adkpg.memory.statements import in_scope
from adkpg.tables import app_settings, memories, memory_jobs

_TASK = bindparam("task", type_=Text)
_LIMIT = bindparam("limit", type_=Integer)


def _seconds(name: str) -> Any:
    return func.make_interval(0, 0, 0, 0, 0, 0, bindparam(name, type_=Double))


def _free(*, eager: bool) -> Any:
    """Jobs that nobody has claimed; those that wait after a failure only if asked for."""
    unclaimed = or_(memory_jobs.c.lease_until.is_(None), memory_jobs.c.lease_until <= func.now())
    free = and_(memory_jobs.c.task == _TASK, ~memory_jobs.c.dead, unclaimed)
    return free if eager else and_(free, memory_jobs.c.due_time <= func.now())


def _of_this_model() -> Any:
    """Apps whose active model is the one given, or that have none yet; all if none is given."""
    model_id = bindparam("model_id", type_=SmallInteger)
    return ~exists(
        select(app_settings.c.app_name).where(
            app_settings.c.app_name == memory_jobs.c.app_name,
            app_settings.c.model_id != model_id,
        )
    )


@cache
def select_due_users(*, eager: bool) -> Select[Any]:
    """Finds users with work, the longest waiting first.

    Parameters: task, limit, and model_id: the embedder's model, or null for other tasks.
    """
    return (
        select(memory_jobs.c.app_name, memory_jobs.c.user_id)
        .where(_free(eager=eager), _of_this_model())
        .group_by(memory_jobs.c.app_name, memory_jobs.c.user_id)
        .order_by(func.min(memory_jobs.c.due_time))
        .limit(_LIMIT)
    )


@cache
def claim(*, eager: bool) -> Select[Any]:
    """Claims some of a user's jobs, those that never failed first.

    Jobs that another worker is claiming are passed over.

    Parameters: app_name, user_id, task, limit, lease_s, and model_id as in `select_due_users`.
    Returns each job's position and attempts, and of its memory what the task needs, by position.
    """
    chosen = (
        select(
            memory_jobs.c.app_name,
            memory_jobs.c.user_id,
            memory_jobs.c.position,
            memory_jobs.c.task,
        )
        .where(in_scope(memory_jobs), _free(eager=eager), _of_this_model())
        .order_by(memory_jobs.c.attempts, memory_jobs.c.create_time, memory_jobs.c.position)
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
            lease_until=func.now() + _seconds("lease_s"),
            attempts=memory_jobs.c.attempts + 1,
        )
        .returning(
            memory_jobs.c.app_name,
            memory_jobs.c.user_id,
            memory_jobs.c.position,
            memory_jobs.c.attempts,
        )
        .cte("claimed")
    )
    return (
        select(
            claimed.c.app_name,
            claimed.c.user_id,
            claimed.c.position,
            claimed.c.attempts,
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


@cache
def put_back() -> Update:
    """Gives claimed jobs back after a failure, to be tried later, or never if they are dead.

    Parameters: app_name, user_id, task, positions, error, delay_s, refused (whether it is the
    work that failed: a service that is down uses up no attempt), max_attempts.
    """
    refused = bindparam("refused", type_=Boolean)
    counted = case((refused, memory_jobs.c.attempts), else_=memory_jobs.c.attempts - 1)
    return (
        update(memory_jobs)
        .where(
            in_scope(memory_jobs),
            memory_jobs.c.task == _TASK,
            memory_jobs.c.position == func.any(bindparam("positions", type_=ARRAY(BigInteger))),
        )
        .values(
            lease_until=None,
            attempts=counted,
            due_time=func.now() + _seconds("delay_s"),
            error=bindparam("error", type_=Text),
            dead=and_(refused, counted >= bindparam("max_attempts", type_=Integer)),
        )
    )


@cache
def complete() -> Delete:
    """Ends jobs that are done. Parameters: app_name, user_id, task, positions."""
    return delete(memory_jobs).where(
        in_scope(memory_jobs),
        memory_jobs.c.task == _TASK,
        memory_jobs.c.position == func.any(bindparam("positions", type_=ARRAY(BigInteger))),
    )


@cache
def revive(*, one_user: bool) -> Select[Any]:
    """Makes dead jobs due again. Parameters: task, and app_name, user_id where asked for."""
    statement = update(memory_jobs).where(memory_jobs.c.task == _TASK, memory_jobs.c.dead)
    if one_user:
        statement = statement.where(in_scope(memory_jobs))
    revived = (
        statement.values(dead=false(), attempts=0, due_time=func.now(), lease_until=None)
        .returning(literal_column("1"))
        .cte("revived")
    )
    return select(func.count().label("revived")).select_from(revived)


@cache
def count_jobs(*, one_user: bool) -> Select[Any]:
    """Counts jobs by task: all that wait, those of them that failed before, and the dead.

    Parameters: app_name, user_id where asked for.
    """
    statement = select(
        memory_jobs.c.task,
        func.count().filter(~memory_jobs.c.dead).label("waiting"),
        func.count().filter(~memory_jobs.c.dead, memory_jobs.c.error.is_not(None)).label("failed"),
        func.count().filter(memory_jobs.c.dead).label("dead"),
        func.max(memory_jobs.c.error).label("error"),
    ).group_by(memory_jobs.c.task)
    return statement.where(in_scope(memory_jobs)) if one_user else statement
