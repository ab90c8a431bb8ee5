"""Queries that prune: which memories go by which rule; their SQL is in pruning_statements.sql.

Expired memories always go. These are the other rules, by parameters of the same names:

* superseded: Facts that others replaced go.
* before, max_importance: A user's live memories of `kinds` go that were said before and are as
  unimportant; null asks nothing, and if both are null none goes.
* max_memories: So many of these memories stay, the most important and among equals the latest;
  null keeps all.
"""

from datetime import datetime
from typing import TypedDict

from adkpg.keys import ScopeKey
from adkpg.queries import Queries, Query

_texts = Queries(__file__)
_REASON = _texts.text("reason")
_sql = Queries(__file__, reason=_REASON, candidates=_texts.text("candidates", reason=_REASON))


class Candidate(TypedDict):
    """A memory that is to go, and why."""

    position: int
    session_id: str
    reason: str


class Reason(TypedDict):
    """Why a memory goes, which is null where the number alone decides.

    `counted` is how many memories of the user the number is about, and null for a memory that it is
    not about.
    """

    position: int
    reason: str | None
    counted: int | None


class Count(TypedDict):
    """How many memories go for a reason."""

    reason: str
    memories: int


@_sql.query()
def select_scopes(
    *,
    superseded: bool,
    before: datetime | None,
    max_importance: float | None,
    max_memories: int | None,
    kinds: list[str],
    app_name: str | None,
    of_user: str | None,
    after_app_name: str | None,
    after_user_id: str | None,
    limit: int,
) -> Query[ScopeKey]:
    """Reads a page of the scopes that rules may apply to, ordered by app and user, after one.

    They are those of one app or user where a name is given.
    """


@_sql.query()
def select_candidates(
    *,
    app_name: str,
    user_id: str,
    superseded: bool,
    before: datetime | None,
    max_importance: float | None,
    max_memories: int | None,
    kinds: list[str],
) -> Query[Candidate]:
    """Reads a scope's memories that are to go, by position."""


@_sql.query()
def select_reasons(
    *,
    app_name: str,
    user_id: str,
    superseded: bool,
    before: datetime | None,
    max_importance: float | None,
    max_memories: int | None,
    kinds: list[str],
    positions: list[int],
) -> Query[Reason]:
    """Reads again why some memories go, once they are locked, by position."""


@_sql.query()
def count_candidates(
    *,
    app_name: str,
    user_id: str,
    superseded: bool,
    before: datetime | None,
    max_importance: float | None,
    max_memories: int | None,
    kinds: list[str],
) -> Query[Count]:
    """Counts a scope's memories that are to go by reason, and what was ``drawn`` from them."""
