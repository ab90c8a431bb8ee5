"""Statements that prune: which memories go by which rule, and erasing them in batches. No I/O."""

from dataclasses import dataclass
from functools import cache
from typing import Any

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

from adkpg.keys import APP_WIDE
from adkpg.memory.write.statements import buried
from adkpg.sql import in_scope, live
from adkpg.tables import memories, memory_provenance

_POSITIONS = bindparam("positions", type_=ARRAY(BigInteger))


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
def select_scopes(rules: Rules, *, app: bool, user: bool, after: bool) -> Select[Any]:
    """Reads a page of the scopes that rules may apply to, ordered by app and user.

    Parameters: limit, those of the rules, app_name, user_id where asked for, and after_app_name,
    after_user_id where a page went before.
    """
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
    return page


@cache
def select_candidates(rules: Rules) -> Select[Any]:
    """Reads some of a scope's memories that are to go, by position.

    Parameters: app_name, user_id, limit, those of the rules. Returns position, session_id, reason.
    """
    candidates = _candidates(rules).subquery("candidates")
    return (
        select(candidates.c.position, candidates.c.session_id, candidates.c.reason)
        .order_by(candidates.c.position)
        .limit(bindparam("limit", type_=Integer))
    )


@cache
def count_candidates(rules: Rules) -> Select[Any]:
    """Counts a scope's memories that are to go by reason, and what was drawn from them.

    Parameters: app_name, user_id, those of the rules. Returns ``reason`` and ``memories``.
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
    return select(union_all(by_reason, drawn).subquery("counts"))


@cache
def lock_positions() -> Select[Any]:
    """Locks those of some memories that nobody is writing to.

    Parameters: app_name, user_id, positions. Returns position.
    """
    return (
        select(memories.c.position)
        .where(in_scope(memories), memories.c.position == func.any(_POSITIONS))
        .order_by(memories.c.position)
        .with_for_update(skip_locked=True)
    )


@cache
def erase_positions() -> Select[Any]:
    """Erases memories and what was drawn from them, and marks their events as deleted.

    Parameters: app_name, user_id, positions. Returns ``erased``, what was drawn included.
    """
    return buried(memories.c.position == func.any(_POSITIONS))


def _reasons(rules: Rules) -> list[tuple[str, ColumnElement[bool]]]:
    """Why a memory goes, whatever the others are."""
    ended = and_(memories.c.expires_at.is_not(None), memories.c.expires_at <= func.now())
    reasons = [("expired", and_(ended, memories.c.superseded_by.is_(None)))]
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
    """What the rules but expiry are about: a user's live memories of the kinds asked for."""
    kinds = bindparam("kinds", type_=ARRAY(Text))
    return and_(
        live(),
        memories.c.superseded_by.is_(None),
        memories.c.kind == func.any(kinds),
        memories.c.user_id != literal_column(f"'{APP_WIDE}'", Text),
    )


def _candidates(rules: Rules) -> Select[Any]:
    reasons = _reasons(rules)
    because = case(*((condition, literal_column(f"'{reason}'")) for reason, condition in reasons))
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
