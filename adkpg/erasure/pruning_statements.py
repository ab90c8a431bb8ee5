"""Statements that prune: which memories go by which rule, and erasing them in batches. No I/O."""

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    false,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, REAL, TIMESTAMP

from adkpg.keys import APP_WIDE, ScopeKey
from adkpg.memory.upkeep.statements import expired
from adkpg.memory.write.statements import PositionsParameters, buried
from adkpg.sql import Statement, in_scope, live
from adkpg.tables import memories, memory_provenance

_POSITIONS = bindparam("positions", type_=ARRAY(BigInteger))


class RuleParameters(TypedDict):
    """The bounds of `Rules` but number, and the kinds that they are about."""

    before: datetime
    max_importance: float | None
    kinds: list[str]


class ScopesParameters(RuleParameters):
    """A page of scopes, of one app or user where a name is given, after another."""

    app_name: str | None
    user_id: str | None
    limit: int
    after_app_name: str | None
    after_user_id: str | None


class CandidatesParameters(RuleParameters, ScopeKey):
    """The rules, and whose memories they are about."""

    max_memories: int | None


class ReasonsParameters(RuleParameters, PositionsParameters):
    """The same for some memories."""


@dataclass(frozen=True)
class Rules:
    """Which rules there are besides that expired memories go.

    Attributes:
      superseded: Facts that others replaced go.
      age: What was said before ``before`` goes; with `importance` only if both hold.
      importance: What is as unimportant as ``max_importance`` goes.
      number: All but the ``max_memories`` most important, and among equals the latest, go.
    """

    superseded: bool = False
    age: bool = False
    importance: bool = False
    number: bool = False


@cache
def select_scopes(
    rules: Rules, *, app: bool, user: bool, after: bool
) -> Statement[ScopesParameters]:
    """Reads a page of the scopes that rules may apply to, ordered by app and user."""
    key = (memories.c.app_name, memories.c.user_id)
    page = select(*key).group_by(*key).order_by(*key).limit(bindparam("limit", type_=Integer))
    if not rules.number:
        page = page.where(or_(*(condition for _, condition in _reasons(rules))))
    if app:
        page = page.where(memories.c.app_name == bindparam("app_name", type_=Text))
    if user:
        page = page.where(memories.c.user_id == bindparam("user_id", type_=Text))
    if after:
        last = (bindparam(f"after_{column.name}", type_=Text) for column in key)
        page = page.where(tuple_(*key) > tuple_(*last))
    return Statement(page)


@cache
def select_candidates(rules: Rules) -> Statement[CandidatesParameters]:
    """Reads a scope's memories that are to go, by position: position, session_id, reason."""
    candidates = _candidates(rules).subquery("candidates")
    return Statement(
        select(candidates.c.position, candidates.c.session_id, candidates.c.reason).order_by(
            candidates.c.position
        )
    )


@cache
def select_reasons(rules: Rules) -> Statement[ReasonsParameters]:
    """Reads again why some memories go, once they are locked.

    Returns position, reason (null where number alone decides) and ``counted``: how many memories of
    the user the number is about, null for a memory that it is not about.
    """
    because = _because(rules)
    counted: Any = cast(None, BigInteger)
    if rules.number:
        number = (
            select(func.count())
            .select_from(memories)
            .where(in_scope(memories), _prunable(), because.is_(None))
            .correlate(None)
            .scalar_subquery()
        )
        counted = case((and_(_prunable(), because.is_(None)), number))
    return Statement(
        select(memories.c.position, because.label("reason"), counted.label("counted"))
        .where(in_scope(memories), memories.c.position == func.any(_POSITIONS))
        .order_by(memories.c.position)
    )


@cache
def count_candidates(rules: Rules) -> Statement[CandidatesParameters]:
    """Counts a scope's memories that are to go by reason, and what was drawn from them.

    Returns ``reason`` and ``memories``.
    """
    candidates = _candidates(rules).cte("candidates")
    drawn: Any = (
        select(
            literal_column("'drawn'"),
            func.count(memory_provenance.c.memory_id.distinct()).label("memories"),
        )
        .join_from(
            memory_provenance, candidates, memory_provenance.c.origin_id == candidates.c.memory_id
        )
        .where(
            in_scope(memory_provenance),
            memory_provenance.c.memory_id.not_in(select(candidates.c.memory_id)),
        )
    )
    by_reason = select(candidates.c.reason, func.count().label("memories")).group_by(
        candidates.c.reason
    )
    return Statement(select(union_all(by_reason, drawn).subquery("counts")))


@cache
def erase_positions() -> Statement[PositionsParameters]:
    """Erases memories and what was drawn from them, and marks their events as deleted.

    Returns ``erased``, what was drawn included.
    """
    return Statement(buried(memories.c.position == func.any(_POSITIONS)))


def _reasons(rules: Rules) -> list[tuple[str, ColumnElement[bool]]]:
    """Why a memory goes, whatever the others are."""
    reasons = [("expired", expired())]
    if rules.superseded:
        reasons.append(("superseded", memories.c.superseded_by.is_not(None)))
    faded = []
    if rules.age:
        before = bindparam("before", type_=TIMESTAMP(timezone=True))
        faded.append(memories.c.timestamp < before)
    if rules.importance:  # rounded as the column is
        most = cast(bindparam("max_importance", type_=REAL), REAL)
        faded.append(memories.c.importance <= most)
    if faded:
        reasons.append(("faded", and_(_prunable(), *faded)))
    return reasons


def _prunable() -> ColumnElement[bool]:
    """A user's live memories of the kinds asked for, which all rules but expiry are about."""
    kinds = bindparam("kinds", type_=ARRAY(Text))
    return and_(
        live(),
        memories.c.superseded_by.is_(None),
        memories.c.kind == func.any(kinds),
        memories.c.user_id != literal_column(f"'{APP_WIDE}'", Text),
    )


def _because(rules: Rules) -> ColumnElement[Any]:
    """Why a memory goes, whatever the others are; null if it need not."""
    return case(
        *((condition, literal_column(f"'{reason}'")) for reason, condition in _reasons(rules))
    )


def _candidates(rules: Rules) -> Select[Any]:
    because = _because(rules)
    counted = _prunable() if rules.number else false()
    every = (
        select(
            memories.c.memory_id,
            memories.c.position,
            memories.c.session_id,
            memories.c.importance,
            memories.c.timestamp,
            because.label("because"),
            counted.label("counted"),
        )
        .where(in_scope(memories))
        .subquery("every")
    )
    if not rules.number:
        return select(
            every.c.memory_id, every.c.position, every.c.session_id, every.c.because.label("reason")
        ).where(every.c.because.is_not(None))
    stays = and_(every.c.because.is_(None), every.c.counted)
    place = func.row_number().over(
        partition_by=stays,
        order_by=(every.c.importance.desc(), every.c.timestamp.desc(), every.c.position.desc()),
    )
    ranked = select(every, stays.label("stays"), place.label("place")).subquery("ranked")
    surplus = and_(ranked.c.stays, ranked.c.place > bindparam("max_memories", type_=BigInteger))
    reason = case(
        (ranked.c.because.is_not(None), ranked.c.because),
        (surplus, literal_column("'surplus'")),
    )
    return select(
        ranked.c.memory_id, ranked.c.position, ranked.c.session_id, reason.label("reason")
    ).where(reason.is_not(None))
