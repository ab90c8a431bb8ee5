"""Every statement of adkpg, in the shapes that it is made in."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, get_type_hints

from sqlalchemy import Column
from sqlalchemy.dialects.postgresql import JSON, UUID

from adkpg.erasure.retention_statements import Age, end_over, select_over
from adkpg.erasure.statements import count_rows, delete_rows, hold_rows, select_objects
from adkpg.keys import ScopeKey, SessionKey
from adkpg.memory.search.statements import EvidenceParameters, Shape, evidence_statement
from adkpg.queries import Statement
from adkpg.rules import PERSONAL, RULES, Rule
from adkpg.tooling.backup import statements as backup
from adkpg.tooling.transfer.kinds import KINDS
from adkpg.tooling.transfer.reading.statements import select_lines
from adkpg.tooling.transfer.writing.row_statements import insert_rows, select_same
from tests.fakes.queries import QUERIES, statement_of

EVIDENCE = [
    Shape(lexical=True, vector=True, filters=frozenset({"kinds", "session_ids", "others"})),
    Shape(lexical=True, vector=True, filters=frozenset({"kinds"}), large=True),
    Shape(lexical=True, vector=False, filters=frozenset({"others"})),
    Shape(lexical=True, vector=True),
    Shape(lexical=True, vector=True, dated=True),
    Shape(lexical=True, vector=True, approximate=(1, 3), dated=True),
    Shape(lexical=True, vector=True, approximate=(1, 3), large=True),
    Shape(lexical=True, vector=False),
    Shape(lexical=False, vector=True),
    Shape(lexical=False, vector=True, large=True),
]
"""Shapes of a search that together have all of its steps."""

PERSON: ScopeKey = {"app_name": "app", "user_id": "user"}
SESSION: SessionKey = {**PERSON, "session_id": "s"}


_AGE: Age = {"before": datetime.now(UTC), "app_name": None, "of_user": None}


def _retaining(rule: Rule, age: Age | None) -> Iterator[tuple[str, Statement, dict[str, Any]]]:
    days = None if rule.days is None else 1.0
    name = "adkpg.erasure.retention_statements"
    found = select_over(rule, limit=1, after=None, days=days, age=age).statement
    row = dict.fromkeys(found.columns)
    following = select_over(rule, limit=1, after=row, days=days, age=age).statement
    ended = end_over(rule, [row], days=days, age=age).statement
    hints: dict[str, Any] = {**get_type_hints(Age), "limit": int, "days": float}
    hints |= {f"after_{column}": kind for column, kind in found.columns.items()}
    yield f"{name}.select_over", found, hints
    yield f"{name}.select_over", following, hints
    lists = {f"{column}s": list[kind] for column, kind in found.columns.items()}  # type: ignore[valid-type] # at run time
    yield f"{name}.end_over", ended, hints | lists


def statements() -> Iterator[tuple[str, Statement, dict[str, Any]]]:
    """Each statement, with the name of its function and the types of its parameters."""
    for name, function in QUERIES.items():
        yield name, statement_of(function), get_type_hints(function)
    for shape in EVIDENCE:
        name = "adkpg.memory.search.statements.evidence"
        yield name, evidence_statement(shape), get_type_hints(EvidenceParameters)
    for erasing, rule in itertools.product((count_rows, delete_rows, hold_rows), PERSONAL):
        name = f"{erasing.__module__}.{erasing.__name__}"
        yield name, erasing(rule, PERSON).statement, get_type_hints(ScopeKey)
        if rule.of_sessions:
            yield name, erasing(rule, SESSION).statement, get_type_hints(SessionKey)
    for place in (PERSON, SESSION):
        name = f"{select_objects.__module__}.{select_objects.__name__}"
        for rule in (rule for rule in PERSONAL if rule.objects):
            yield name, select_objects(rule, place).statement, get_type_hints(SessionKey)
    for rule in RULES:
        for old in (old for old, over in ((False, rule.over), (True, rule.old)) if over):
            yield from _retaining(rule, _AGE if old else None)
    yield from _moving()
    for guarded in (False, True):
        counted = backup.count_rows("adkpg", "sessions", guarded=guarded)
        yield "adkpg.tooling.backup.statements.count_rows", counted.statement, {}


def _moving() -> Iterator[tuple[str, Statement, dict[str, Any]]]:
    """The statements of each kind of line: of an app, a user and a session; first and later pages.

    And those that copy rows.
    """
    for kind in KINDS.values():
        if kind.within is None:
            scopes = (
                [(None, None), ("u", None), ("u", "s")] if kind.rule.personal else [(None,) * 2]
            )
            after = [None for _ in kind.order]
            for (user_id, session_id), part, key in itertools.product(
                scopes, kind.parts, (None, after) if kind.order else (None,)
            ):
                query = select_lines(
                    kind,
                    part,
                    app_name="a",
                    user_id=user_id,
                    session_id=session_id,
                    after=key,
                    limit=1,
                )
                hints: dict[str, Any] = {"app_name": str, "user_id": str, "session_id": str}
                hints |= {f"after_{name}": query.statement.columns[name] for name in kind.order}
                yield _name(select_lines), query.statement, {**hints, "limit": int}
        if kind.is_copied or kind.type in ("artifact", "artifact_chunk"):
            for copying in (insert_rows, select_same):
                lists: dict[str, Any] = {"places": list[int]}
                for name in kind.columns:
                    lists[f"{name}s"] = list[_sent(kind.rule.table.columns[name])]  # type: ignore[misc] # of the column
                yield _name(copying), copying(kind, []).statement, lists


def _sent(column: Column[Any]) -> Any:
    return str if isinstance(column.type, JSON | UUID) else column.type.python_type


def _name(function: Any) -> str:
    return f"{function.__module__}.{function.__name__}"
