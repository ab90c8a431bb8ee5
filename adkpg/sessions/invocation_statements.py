"""Statements that let invocations of a session take turns. No I/O.

One row decides who may run, the session's: it names the holder, whose appends compare it in
the statement that moves the revision. Waiters only say who comes first. Locks are taken in the
order session, waiters, results.
"""

from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import JSON, insert

from adkpg.keys import SessionKey
from adkpg.sessions.statements import HOLDER, held, live_session, this_session
from adkpg.sql import APP_NAME, SESSION_ID, USER_ID, Statement
from adkpg.tables import invocation_results, invocation_waiters, sessions

_KEY = bindparam("key", type_=Text)
_UNSEEN: ColumnElement[Any] = literal_column("interval '2 seconds'")


class HolderParameters(SessionKey):
    """A token of one attempt to run in a session."""

    holder: str


class BeginParameters(HolderParameters):
    """The key is null if there is none."""

    key: str | None
    lease_s: float


class RenewParameters(HolderParameters):
    """Parameters of `renew`."""

    lease_s: float


class EndParameters(HolderParameters):
    """The result is JSON text; it and the key are null if none is kept."""

    key: str | None
    result: str | None
    ttl_s: float


def _seconds(name: str) -> Any:
    return func.make_interval(0, 0, 0, 0, 0, 0, bindparam(name, type_=Double))


def _of_session(table: Any) -> ColumnElement[bool]:
    return and_(
        table.c.app_name == APP_NAME, table.c.user_id == USER_ID, table.c.session_id == SESSION_ID
    )


@cache
def begin(*, keyed: bool) -> Statement[BeginParameters]:
    """Takes the session if it is free and nobody waits for longer; else waits in line.

    Whoever asks again with the same holder has it still.

    Args:
      keyed: Takes nothing if an invocation with the key has finished.

    Returns one row, or none if the session does not exist: ``taken``, ``ahead`` (how many wait for
    longer), ``done`` (whether the key's has finished) and its ``result``.
    """
    before = (
        select(sessions.c.invocation_holder, sessions.c.invocation_expires_at)
        .where(live_session())
        .cte("before")
    )
    done = (
        select(cast(invocation_results.c.result, Text).label("result"))
        .where(
            _of_session(invocation_results),
            invocation_results.c.idempotency_key == _KEY,
            invocation_results.c.expires_at > func.now(),
        )
        .cte("done")
    )
    waiters = invocation_waiters
    own = (
        select(waiters.c.since, waiters.c.holder)
        .where(_of_session(waiters), waiters.c.holder == HOLDER)
        .cte("own")
    )
    earlier = tuple_(waiters.c.since, waiters.c.holder) < tuple_(own.c.since, own.c.holder)
    ahead = (
        select(waiters.c.holder)
        .select_from(waiters.outerjoin(own, true()))
        .where(
            _of_session(waiters),
            waiters.c.holder != HOLDER,
            waiters.c.seen_at > func.now() - _UNSEEN,
            or_(own.c.holder.is_(None), earlier),
        )
        .cte("ahead")
    )
    free = or_(
        sessions.c.invocation_expires_at.is_(None),
        sessions.c.invocation_expires_at <= func.now(),
    )
    finished = [~exists(select(done.c.result))] if keyed else []
    taken = (
        update(sessions)
        .where(
            this_session(),
            # Whoever was waited for may have finished this key, which the snapshot cannot show.
            sessions.c.invocation_holder.is_not_distinct_from(before.c.invocation_holder),
            sessions.c.invocation_expires_at.is_not_distinct_from(before.c.invocation_expires_at),
            or_(held(), and_(free, ~exists(select(ahead.c.holder)))),
            *finished,
        )
        .values(
            invocation_holder=HOLDER,
            invocation_expires_at=func.now() + _seconds("lease_s"),
        )
        .returning(sessions.c.session_id)
        .cte("taken")
    )
    is_taken = exists(select(taken.c.session_id))
    waits = insert(waiters).from_select(
        ["app_name", "user_id", "session_id", "holder"],
        select(sessions.c.app_name, sessions.c.user_id, sessions.c.session_id, HOLDER).where(
            this_session(), ~is_taken, *finished
        ),
    )
    ends = or_(is_taken, exists(select(done.c.result))) if keyed else is_taken
    left = delete(waiters).where(
        _of_session(waiters),
        or_(waiters.c.holder == HOLDER, waiters.c.seen_at < func.now() - 30 * _UNSEEN),
        ends,
    )
    answer = select(
        is_taken.label("taken"),
        select(func.count()).select_from(ahead).scalar_subquery().label("ahead"),
        exists(select(done.c.result)).label("done")
        if keyed
        else literal_column("false").label("done"),
        (select(done.c.result).scalar_subquery() if keyed else literal_column("NULL")).label(
            "result"
        ),
    ).select_from(before)
    return Statement(
        answer.add_cte(
            waits.on_conflict_do_update(
                index_elements=["app_name", "user_id", "session_id", "holder"],
                set_={"seen_at": waits.excluded.seen_at},
            ).cte("waits"),
            left.cte("left_line"),
        )
    )


@cache
def renew() -> Statement[RenewParameters]:
    """Gives the holder its time once more; no row if another has taken its place."""
    return Statement(
        update(sessions)
        .where(this_session(), held())
        .values(invocation_expires_at=func.now() + _seconds("lease_s"))
        .returning(sessions.c.session_id)
    )


@cache
def end(*, keyed: bool) -> Statement[EndParameters]:
    """Frees the session, or leaves its line.

    Args:
      keyed: Keeps the result under the key, and deletes the session's expired ones.

    Returns one row: ``ended``, false if another has taken the holder's place.
    """
    ended = (
        update(sessions)
        .where(this_session(), sessions.c.invocation_holder == HOLDER)
        .values(invocation_expires_at=None)
        .returning(sessions.c.app_name, sessions.c.user_id, sessions.c.session_id)
        .cte("ended")
    )
    left = delete(invocation_waiters).where(
        _of_session(invocation_waiters), invocation_waiters.c.holder == HOLDER
    )
    is_ended = exists(select(ended.c.session_id))
    if not keyed:
        return Statement(select(is_ended.label("ended")).add_cte(left.cte("left_line")))
    results = invocation_results
    kept = insert(results).from_select(
        ["app_name", "user_id", "session_id", "idempotency_key", "holder", "result", "expires_at"],
        select(
            ended.c.app_name,
            ended.c.user_id,
            ended.c.session_id,
            _KEY,
            HOLDER,
            cast(bindparam("result", type_=Text), JSON),
            func.now() + _seconds("ttl_s"),
        ),
    )
    kept = kept.on_conflict_do_update(
        index_elements=["app_name", "user_id", "session_id", "idempotency_key"],
        set_={name: kept.excluded[name] for name in ("holder", "result", "expires_at")},
    )
    expired = delete(results).where(
        _of_session(results),
        results.c.idempotency_key != _KEY,
        results.c.expires_at <= func.now(),
    )
    # Its answer may have been lost, and another have begun since.
    is_kept = exists(
        select(results.c.holder).where(
            _of_session(results),
            results.c.idempotency_key == _KEY,
            results.c.holder == HOLDER,
        )
    )
    return Statement(
        select(or_(is_ended, is_kept).label("ended")).add_cte(
            left.cte("left_line"), kept.cte("kept"), expired.cte("expired")
        )
    )
