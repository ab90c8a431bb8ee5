"""Statements of the queue: what is still to be done with memories. No I/O.

Work is claimed user by user, so that a queue distributed by user needs no other statements, and in
the order of one index, so that a claim costs the same whatever waits. A claim is a lease: it lapses
when the process that took it is gone.
"""

from datetime import datetime
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    ColumnElement,
    Double,
    Integer,
    Select,
    SmallInteger,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    false,
    func,
    literal_column,
    or_,
    select,
    true,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP, UUID

from adkpg.keys import ScopeKey
from adkpg.queries import Place
from adkpg.sql import APP_NAME, USER_ID, Statement, in_scope
from adkpg.tables import app_settings, memories, memory_jobs

_TASK = bindparam("task", type_=Text)
_LIMIT = bindparam("limit", type_=Integer)
_CLAIM = cast(bindparam("claim", type_=Text), UUID)
_IN_CLAIM = func.coalesce(memory_jobs.c.claim == _CLAIM, false())


class AppKey(TypedDict):
    """The jobs of one task: everybody's, or an app's, as the statement was asked for.

    Attributes:
      task: ``embed`` or ``extract``.
      app_name: Where it is asked for; else ignored.
    """

    task: str
    app_name: str | None


class TaskParameters(AppKey):
    """Those of a user, where that is asked for."""

    user_id: str | None


class MemoryTaskParameters(TaskParameters):
    """That of a memory, where that is asked for."""

    memory_id: str | None


class DeadParameters(TaskParameters):
    """Parameters of `select_dead`: the dead after a place."""

    after_app: str
    after_user: str
    after_position: int
    limit: int


class ModelParameters(AppKey):
    """Those whose app has one active model, or none yet; null asks nothing."""

    model_id: int | None


class UsersParameters(ModelParameters):
    """Parameters of `select_users`: some users after one, by app and user."""

    after_app: str
    after_user: str
    limit: int


class ClaimParameters(ScopeKey):
    """Parameters of `claim`; `model_id` is as in `ModelParameters`."""

    task: str
    model_id: int | None
    claim: str
    limit: int
    lease_s: float


class ClaimedParameters(ScopeKey):
    """Jobs of one claim, which ends at `claimed_until`."""

    task: str
    claimed_until: datetime


class PutBackParameters(ClaimedParameters):
    """Parameters of `put_back`.

    Attributes:
      memory_ids: Whose jobs: one whose memory was moved is found by that.
      error: What happened; null if the job was not tried, then it is due as it was.
      refused: Whether it is the work that failed: a service that is down uses up no attempt.
    """

    memory_ids: list[str]
    error: str | None
    delay_s: float
    refused: bool
    max_attempts: int


class CompleteParameters(ClaimedParameters):
    """Parameters of `complete`."""

    positions: list[int]


class EndParameters(ScopeKey):
    """Parameters of `end`."""

    task: str
    positions: list[int]


def _seconds(name: str) -> Any:
    return func.make_interval(0, 0, 0, 0, 0, 0, bindparam(name, type_=Double))


def _waiting(*besides: ColumnElement[bool]) -> ColumnElement[bool]:
    """Jobs that are to be done and that nobody has claimed, or with one of some conditions."""
    unclaimed = or_(
        memory_jobs.c.lease_expires_at.is_(None),
        memory_jobs.c.lease_expires_at <= func.now(),
        *besides,
    )
    return and_(memory_jobs.c.task == _TASK, ~memory_jobs.c.dead, unclaimed)


def _due() -> ColumnElement[bool]:
    """Jobs that do not wait after a failure."""
    return memory_jobs.c.due_at <= func.now()


def _of_this_model(app_name: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether an app's active model is the one given, or it has none yet, or none is given."""
    model_id = bindparam("model_id", type_=SmallInteger)
    return ~exists(
        select(app_settings.c.app_name).where(
            app_settings.c.app_name == app_name, app_settings.c.model_id != model_id
        )
    )


def _asked_for(*, app: bool, user: bool = False) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if app:
        conditions.append(memory_jobs.c.app_name == APP_NAME)
    if user:
        conditions.append(memory_jobs.c.user_id == USER_ID)
    return conditions


@cache
def select_users(*, eager: bool, app: bool = False) -> Statement[UsersParameters]:
    """Reads some users with jobs, by app and user, and of each whether there is work: ``due``.

    Goes from user to user in the index, whatever each has.

    Args:
      eager: What waits after a failure is work too.
      app: An app's users only.
    """

    def following(app_name: Any, user_id: Any) -> Select[Any]:
        return (
            select(memory_jobs.c.app_name, memory_jobs.c.user_id)
            .where(
                memory_jobs.c.task == _TASK,
                ~memory_jobs.c.dead,
                *_asked_for(app=app),
                tuple_(memory_jobs.c.app_name, memory_jobs.c.user_id) > tuple_(app_name, user_id),
            )
            .order_by(memory_jobs.c.app_name, memory_jobs.c.user_id)
            .limit(literal_column("1", Integer))
        )

    first = following(
        bindparam("after_app", type_=Text), bindparam("after_user", type_=Text)
    ).subquery("first")
    one: ColumnElement[int] = literal_column("1", Integer)
    users = select(first.c.app_name, first.c.user_id, one.label("number")).cte(
        "users", recursive=True
    )
    then = following(users.c.app_name, users.c.user_id).correlate(users).lateral("following")
    users = users.union_all(
        select(then.c.app_name, then.c.user_id, users.c.number + one)
        .select_from(users.join(then, true()))
        .where(users.c.number < _LIMIT)
    )
    # No EXISTS, for which the planner may read everybody's jobs into a hash table.
    due = (
        select(one)
        .where(
            memory_jobs.c.app_name == users.c.app_name,
            memory_jobs.c.user_id == users.c.user_id,
            _waiting(),
            *([] if eager else [_due()]),
        )
        .limit(one)
        .correlate(users)
        .scalar_subquery()
        .is_not(None)
    )
    return Statement(
        select(
            users.c.app_name,
            users.c.user_id,
            and_(_of_this_model(users.c.app_name), due).label("due"),
        ).order_by(users.c.number),
        place=Place.EACH_PART,
    )


def _chosen(*, due: bool, limit: ColumnElement[int], name: str) -> CTE:
    """Some of a user's free jobs, by place, locked; those that others are claiming are left out."""
    return (
        select(memory_jobs.c.position)
        .where(in_scope(memory_jobs), _waiting(_IN_CLAIM), _due() if due else ~_due())
        .where(_of_this_model(APP_NAME))
        .order_by(memory_jobs.c.position)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte(name)
    )


@cache
def claim(*, eager: bool) -> Statement[ClaimParameters]:
    """Claims some of a user's jobs, in the order of their memories.

    Asked for again, a claim keeps what it has.

    Returns each job's position, attempts and lease_expires_at, and of its memory what the task
    needs, by position.

    Args:
      eager: Then some of those that wait after a failure.
    """
    chosen = _chosen(due=True, limit=_LIMIT, name="chosen")
    if eager:
        left = _LIMIT - select(func.count()).select_from(chosen).scalar_subquery()
        later = _chosen(due=False, limit=left, name="later")
        chosen = union_all(select(chosen), select(later)).cte("both")
    # No join, which might read all that the user has waiting.
    places = select(chosen.c.position).scalar_subquery()
    claimed = (
        update(memory_jobs)
        .where(
            in_scope(memory_jobs),
            memory_jobs.c.task == _TASK,
            memory_jobs.c.position == func.any(func.array(places)),
        )
        .values(
            lease_expires_at=func.now() + _seconds("lease_s"),
            attempts=case((_IN_CLAIM, memory_jobs.c.attempts), else_=memory_jobs.c.attempts + 1),
            claim=_CLAIM,
        )
        .returning(memory_jobs.c.position, memory_jobs.c.attempts, memory_jobs.c.lease_expires_at)
        .cte("claimed")
    )
    # One by one, which OFFSET 0 keeps: a join might read all that the user has, for each.
    memory = (
        select(
            memories.c.app_name,
            memories.c.user_id,
            memories.c.memory_id,
            memories.c.session_id,
            memories.c.event_id,
            memories.c.author,
            memories.c.timestamp,
            memories.c.body,
            memories.c.digest,
        )
        .where(in_scope(memories), memories.c.position == claimed.c.position)
        .offset(literal_column("0", Integer))
        .lateral("memory")
    )
    return Statement(
        select(*claimed.c, *memory.c)
        .select_from(claimed.join(memory, true()))
        .order_by(claimed.c.position)
    )


def _as_claimed() -> ColumnElement[bool]:
    """Jobs that nobody has claimed since, nor has anybody queued again."""
    return and_(
        in_scope(memory_jobs),
        memory_jobs.c.task == _TASK,
        memory_jobs.c.lease_expires_at
        == bindparam("claimed_until", type_=TIMESTAMP(timezone=True)),
    )


@cache
def put_back() -> Statement[PutBackParameters]:
    """Gives claimed jobs back after a failure, to be tried later, or never if they are dead.

    A job dies of the last attempt that was due: what is tried early, again and again, must not use
    up in seconds what is meant to last for minutes.
    """
    refused = bindparam("refused", type_=Boolean)
    error = bindparam("error", type_=Text)
    counted = case((refused, memory_jobs.c.attempts), else_=memory_jobs.c.attempts - 1)
    places = select(memories.c.position).where(
        in_scope(memories),
        memories.c.memory_id == func.any(bindparam("memory_ids", type_=ARRAY(Text))),
    )
    return Statement(
        update(memory_jobs)
        .where(_as_claimed(), memory_jobs.c.position.in_(places))
        .values(
            lease_expires_at=None,
            claim=None,
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


def _here() -> ColumnElement[bool]:
    return memory_jobs.c.position == func.any(bindparam("positions", type_=ARRAY(BigInteger)))


@cache
def complete() -> Statement[CompleteParameters]:
    """Ends jobs of one claim that are done."""
    return Statement(delete(memory_jobs).where(_as_claimed(), _here()))


@cache
def end() -> Statement[EndParameters]:
    """Ends jobs that are done, whoever has claimed them."""
    return Statement(
        delete(memory_jobs).where(in_scope(memory_jobs), memory_jobs.c.task == _TASK, _here())
    )


@cache
def revive(*, app: bool, user: bool, memory: bool) -> Statement[MemoryTaskParameters]:
    """Makes dead jobs due again; returns how many."""
    of_memory = select(memories.c.position).where(
        in_scope(memories), memories.c.memory_id == bindparam("memory_id", type_=Text)
    )
    revived = (
        update(memory_jobs)
        .where(
            memory_jobs.c.task == _TASK,
            memory_jobs.c.dead,
            *_asked_for(app=app, user=user),
            in_scope(memory_jobs) if memory else true(),
            memory_jobs.c.position.in_(of_memory) if memory else true(),
        )
        .values(dead=false(), attempts=0, due_at=func.now(), lease_expires_at=None)
        .returning(literal_column("1"))
        .cte("revived")
    )
    return Statement(select(func.count().label("revived")).select_from(revived))


@cache
def select_dead(*, app: bool, user: bool, following: bool) -> Statement[DeadParameters]:
    """Reads a page of dead jobs with their memories, by app, user and position."""
    place = (memory_jobs.c.app_name, memory_jobs.c.user_id, memory_jobs.c.position)
    after = tuple_(
        bindparam("after_app", type_=Text),
        bindparam("after_user", type_=Text),
        bindparam("after_position", type_=BigInteger),
    )
    return Statement(
        select(
            *place,
            memories.c.memory_id,
            memory_jobs.c.created_at,
            memory_jobs.c.attempts,
            memory_jobs.c.error,
        )
        .select_from(
            memory_jobs.join(
                memories,
                and_(
                    memories.c.app_name == memory_jobs.c.app_name,
                    memories.c.user_id == memory_jobs.c.user_id,
                    memories.c.position == memory_jobs.c.position,
                ),
            )
        )
        .where(
            memory_jobs.c.task == _TASK,
            memory_jobs.c.dead,
            *_asked_for(app=app, user=user),
            tuple_(*place) > after if following else true(),
        )
        .order_by(*place)
        .limit(_LIMIT)
    )


@cache
def count_jobs(*, app: bool, user: bool) -> Statement[TaskParameters]:
    """Counts jobs: all that wait, those of them that failed before, and the dead; one row."""
    counts: list[ColumnElement[Any]] = [
        func.count().filter(~memory_jobs.c.dead).label("waiting"),
        func.count().filter(~memory_jobs.c.dead, memory_jobs.c.error.is_not(None)).label("failed"),
        func.count().filter(memory_jobs.c.dead).label("dead"),
        func.max(memory_jobs.c.error).label("error"),
    ]
    return Statement(
        select(*counts).where(memory_jobs.c.task == _TASK, *_asked_for(app=app, user=user))
    )


@cache
def select_waiting(*, app: bool) -> Statement[ModelParameters]:
    """Counts jobs that wait for a model, and names an app whose jobs wait for another; one row."""
    waiting = (
        select(memory_jobs.c.app_name, _of_this_model(memory_jobs.c.app_name).label("own"))
        .where(memory_jobs.c.task == _TASK, ~memory_jobs.c.dead, *_asked_for(app=app))
        .subquery("waiting")
    )
    counts: list[ColumnElement[Any]] = [
        func.count().filter(waiting.c.own).label("own"),
        func.min(waiting.c.app_name).filter(~waiting.c.own).label("other_app"),
    ]
    return Statement(select(*counts))
