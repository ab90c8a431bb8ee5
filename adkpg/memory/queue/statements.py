"""Queries of the queue: what is still to be done with memories. Their SQL is in statements.sql.

A claim is a lease: it lapses when the process that took it is gone. Its work is ``embed`` or
``extract``.
"""

from datetime import datetime
from typing import TypedDict

from adkpg.keys import ScopeKey
from adkpg.queries import Nothing, Place, Queries, Query

_sql = Queries(__file__)


class DueScope(ScopeKey):
    """A user with jobs, and whether there is work."""

    due: bool


class Claimed(ScopeKey):
    """A claimed job, and of its memory what its work needs."""

    position: int
    attempts: int
    lease_expires_at: datetime
    memory_id: str
    session_id: str
    event_id: str | None
    author: str | None
    timestamp: datetime
    body: str
    digest: str


class Revived(TypedDict):
    """How many jobs are due again."""

    revived: int


class Dead(ScopeKey):
    """A dead letter, and its memory."""

    position: int
    memory_id: str
    created_at: datetime
    attempts: int
    error: str | None


class Counted(TypedDict):
    """How many jobs wait, how many of them failed before, and how many dead letters there are."""

    waiting: int
    failed: int
    dead: int
    error: str | None


class Waiting(TypedDict):
    """How many jobs wait for a model, and an app whose jobs wait for another; null if none do."""

    own: int
    other_app: str | None


@_sql.query(place=Place.EACH_PART)
def select_users(
    *,
    work: str,
    after_app: str,
    after_user: str,
    limit: int,
    model_id: int | None,
    eager: bool,
    lease_s: float,
) -> Query[DueScope]:
    """Reads some users with jobs, by app and user, and of each whether there is work.

    Args:
      work: ``embed`` or ``extract``.
      after_app: Where to go on.
      after_user: Where to go on.
      limit: How many users.
      model_id: There is no work in an app with another active model; null asks nothing.
      eager: What waits after a failure is work too.
      lease_s: For how long jobs are claimed.
    """


@_sql.query(place=Place.EACH_PART)
def select_users_of_app(
    *,
    work: str,
    app_name: str,
    after_app: str,
    after_user: str,
    limit: int,
    model_id: int | None,
    eager: bool,
    lease_s: float,
) -> Query[DueScope]:
    """Reads some users of an app like `select_users`."""


@_sql.query()
def claim(
    *,
    app_name: str,
    user_id: str,
    work: str,
    model_id: int | None,
    claim: str,
    limit: int,
    lease_s: float,
) -> Query[Claimed]:
    """Claims some of a user's jobs that are due, in the order of their memories.

    Asked for again, a claim keeps what it has.

    Args:
      app_name: The app.
      user_id: The user.
      work: ``embed`` or ``extract``.
      model_id: Claims nothing if the app has another active model; null asks nothing.
      claim: A token of this claim.
      limit: How many.
      lease_s: For how long.
    """


@_sql.query()
def claim_eagerly(
    *,
    app_name: str,
    user_id: str,
    work: str,
    model_id: int | None,
    claim: str,
    limit: int,
    lease_s: float,
) -> Query[Claimed]:
    """Claims jobs like `claim`, and then some of those that wait after a failure."""


@_sql.query()
def put_back(
    *,
    app_name: str,
    user_id: str,
    work: str,
    claimed_until: datetime,
    memory_ids: list[str],
    error: str | None,
    delay_s: float,
    refused: bool,
    max_attempts: int,
) -> Query[Nothing]:
    """Gives claimed jobs back after a failure, to be tried later, or as dead letters.

    A job that was claimed or queued again since is left alone. A job dies of the last attempt that
    was due: what is tried early, again and again, must not use up in seconds what is meant to last
    for minutes.

    Args:
      app_name: The app.
      user_id: The user.
      work: ``embed`` or ``extract``.
      claimed_until: When the claim ends.
      memory_ids: Whose jobs: a job whose memory was moved is found by that.
      error: What happened; null if the job was not tried, then it is due as it was.
      delay_s: When it is due again.
      refused: Whether it is the work that failed: a service that is down uses up no attempt.
      max_attempts: How many there are.
    """


@_sql.query()
def complete(
    *, app_name: str, user_id: str, work: str, claimed_until: datetime, positions: list[int]
) -> Query[Nothing]:
    """Ends jobs of one claim that are done, but none that was claimed or queued again since."""


@_sql.query()
def end(*, app_name: str, user_id: str, work: str, positions: list[int]) -> Query[Nothing]:
    """Ends jobs that are done, whichever worker has claimed them."""


@_sql.query()
def revive(*, work: str, of_app: str | None, of_user: str | None) -> Query[Revived]:
    """Makes dead letters due again; null asks for those of all."""


@_sql.query()
def revive_of_user(
    *, work: str, app_name: str, user_id: str, memory_id: str | None
) -> Query[Revived]:
    """Makes dead letters of a user of an app due again, or that of one memory."""


@_sql.query()
def select_dead(
    *,
    work: str,
    of_app: str | None,
    of_user: str | None,
    after_app: str,
    after_user: str,
    after_position: int,
    limit: int,
) -> Query[Dead]:
    """Reads a page of dead letters, by app, user and position; null asks for those of all."""


@_sql.query()
def select_dead_of_user(
    *, work: str, app_name: str, user_id: str, after_position: int, limit: int
) -> Query[Dead]:
    """Reads a page of the dead letters of a user of an app, by position."""


@_sql.query()
def count_jobs(*, work: str, of_app: str | None, of_user: str | None) -> Query[Counted]:
    """Counts jobs; one row. Null asks for those of all."""


@_sql.query()
def count_jobs_of_user(*, work: str, app_name: str, user_id: str) -> Query[Counted]:
    """Counts the jobs of a user of an app; one row."""


@_sql.query()
def select_waiting(*, work: str, model_id: int, of_app: str | None) -> Query[Waiting]:
    """Counts jobs that wait for a model, of an app or of all; one row."""
