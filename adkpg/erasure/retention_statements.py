"""Queries that end what is over, or old; their SQL is in retention_statements.sql.

They are made of the rules (`adkpg.rules`), two for each table. On a cluster the first asks all
nodes and locks nothing, and the second goes to the nodes of the users.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import BigInteger, Integer
from sqlalchemy.dialects.postgresql import TIMESTAMP, UUID

from adkpg.keys import ScopeKey
from adkpg.queries import Queries, Query, Statement
from adkpg.rules import BY_TABLE, Rule

_sql = Queries(__file__)
_row: Any = TypedDict  # of a table's own columns


class Ended(ScopeKey):
    """A row that is gone, of which session, and how many went: itself, or what it is counted by."""

    session_id: str | None
    counted: int


class Age(TypedDict):
    """Which rows are old: those of before, of one app or user where a name is given."""

    before: datetime
    app_name: str | None
    of_user: str | None


def select_over(
    rule: Rule,
    *,
    limit: int,
    after: Mapping[str, Any] | None,
    days: float | None = None,
    age: Age | None = None,
) -> Query[Any]:
    """Reads keys of some rows that are over, or old, in the order of their index; locks none.

    Args:
      rule: Their table's.
      limit: Most rows.
      after: The last row that was read; None is the beginning.
      days: The setting that the rule goes by.
      age: Finds old ones instead.
    """
    given: dict[str, Any] = {"limit": limit}
    if after is not None:
        given |= {f"after_{name}": after[name] for name in _order(rule, old=age is not None)}
    statement = _select_over(rule, old=age is not None, following=after is not None)
    return Query(statement, given | _days(days) | (age or {}))


def end_over(
    rule: Rule,
    rows: Sequence[Mapping[str, Any]],
    *,
    days: float | None = None,
    age: Age | None = None,
) -> Query[Ended]:
    """Deletes those of some rows that are still over, or old; passes over what others hold.

    What is needed still is renewed instead.

    Args:
      rule: Their table's.
      rows: As `select_over` found them.
      days: As for `select_over`.
      age: As for `select_over`.
    """
    given: dict[str, Any] = {f"{name}s": [row[name] for row in rows] for name in rule.key}
    if age is not None:
        given["before"] = age["before"]
    return Query(_end_over(rule, old=age is not None), given | _days(days))


def _days(days: float | None) -> dict[str, float]:
    return {} if days is None else {"days": days}


def _order(rule: Rule, *, old: bool) -> tuple[str, ...]:
    return rule.key if old or rule.order is None else (rule.order, *rule.key)


@cache
def _select_over(rule: Rule, *, old: bool, following: bool) -> Statement:
    order = _order(rule, old=old)
    names = dict.fromkeys((*order, *(("session_id",) if rule.of_sessions else ())))
    after = "\n" + _sql.text("of_some") if old else ""
    if following:
        places = ", ".join(f":after_{name}::{_type(rule, name)}" for name in order)
        after += f"\nAND ({_own(order)}) > ({places})"
    text = _sql.text(
        "select_over",
        table=rule.table.name,
        columns=", ".join(_shown(rule, name) for name in names),
        over=rule.old if old else rule.over,
        after=after,
        order=_own(order),
        counted=_counted(rule, old=old),
    )
    kinds = {name: _PYTHON[_type(rule, name)] for name in names}
    return Statement(text, _row("Over", {**kinds, "counted": int}))


@cache
def _end_over(rule: Rule, *, old: bool) -> Statement:
    renewing = ""
    same = _same(rule.key, "old")
    if rule.needed is not None:
        renewing = _sql.text(
            "renewing",
            marks=rule.table.name,
            renewed=rule.renewed,
            same=same,
            needed=" AND old.needed",
        )
    elif rule.renews is not None:
        marks = BY_TABLE[rule.renews.name]
        renewing = _sql.text(
            "renewing", marks=marks.table.name, renewed=marks.renewed, same=same, needed=""
        )
    text = _sql.text(
        "end_over",
        table=rule.table.name,
        over=rule.old if old else rule.over,
        key=", ".join(rule.key),
        own=_own(rule.key),
        needed=rule.needed or "false",
        counted=_counted(rule, old=old),
        given=", ".join(_given(rule, name) for name in rule.key),
        lists=", ".join(f":{name}s::{_LIST[_type(rule, name)]}[]" for name in rule.key),
        renewing=renewing,
        same=same,
        session="t.session_id" if rule.of_sessions else "NULL::text",
    )
    return Statement(text, Ended)


def _counted(rule: Rule, *, old: bool) -> str:
    if not old or rule.counted is None:
        return "1::bigint"
    return _sql.text("counted", counted=rule.counted.name, same=_same(rule.key, "c"))


def _own(names: Iterable[str]) -> str:
    return ", ".join(f"t.{name}" for name in names)


def _same(names: Iterable[str], other: str) -> str:
    return " AND ".join(f"{other}.{name} = t.{name}" for name in names)


def _shown(rule: Rule, name: str) -> str:
    return f"t.{name}::text AS {name}" if _type(rule, name) == "uuid" else f"t.{name}"


def _given(rule: Rule, name: str) -> str:
    kind = _type(rule, name)
    # As the key is: by bytes. Else no index serves.
    return f'{name} COLLATE "C"' if kind == "text" else f"{name}::{kind}"


def _type(rule: Rule, name: str) -> str:
    kind = rule.table.columns[name].type
    return next((sql for known, sql in _TYPES.items() if isinstance(kind, known)), "text")


_TYPES = {TIMESTAMP: "timestamptz", UUID: "uuid", BigInteger: "bigint", Integer: "integer"}
_PYTHON = {"timestamptz": datetime, "uuid": str, "bigint": int, "integer": int, "text": str}
_LIST = {"uuid": "text", "bigint": "bigint", "integer": "integer", "text": "text"}
