"""Queries that let invocations of a session take turns; their SQL is in invocation_statements.sql.

One row decides who may run, the session's: it names the holder, whose appends compare it in the
statement that moves the revision. A holder is a token of one attempt to run; one whose lease lapsed
has the session until another begins. A server's clock may go back. So a lease says how long it is,
and a waiter takes the place once it has seen no renewal for that long. Waiters only say who comes
first. Locks are taken in the order session, waiters, results.
"""

from datetime import datetime
from typing import TypedDict

from adkpg.queries import Nothing, Queries, Query

_sql = Queries(__file__)


class Begun(TypedDict):
    """Whether the session was taken, and how many wait for longer.

    `done` says whether an invocation with the key has finished, and `result` with what, as JSON
    text. `holds_until` is the end of the present holder's lease, of so many seconds.
    """

    taken: bool
    ahead: int
    done: bool
    result: str | None
    holds_until: datetime | None
    lease_s: float


class Ended(TypedDict):
    """`ended` is false if another has taken the holder's place."""

    ended: bool


@_sql.query()
def begin(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    holder: str,
    key: str | None,
    lease_s: float,
    unrenewed: datetime | None,
) -> Query[Begun]:
    """Takes the session if it is free and no caller waits for longer; else waits in line.

    It is free, too, if the lease that ends at `unrenewed` was not renewed since.

    A caller that asks again with the same holder has it still. Nothing is taken if an invocation
    with the key, where one is given, has finished. No row if the session does not exist.
    """


@_sql.query()
def renew(
    *, app_name: str, user_id: str, session_id: str, holder: str, lease_s: float
) -> Query[Nothing]:
    """Gives the holder its time once more; no row if another has taken its place."""


@_sql.query()
def end(
    *,
    app_name: str,
    user_id: str,
    session_id: str,
    holder: str,
    key: str | None,
    result: str | None,
    ttl_s: float,
) -> Query[Ended]:
    """Frees the session, or leaves its line.

    With a key it keeps the result, which is JSON text, and deletes the session's expired ones.
    Without one there is no result.
    """
