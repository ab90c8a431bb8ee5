"""Every statement of adkpg, in the shapes that it is made in."""

import itertools
from collections.abc import Iterator
from typing import Any, get_type_hints

from adkpg.erasure.statements import count_rows, delete_rows, hold_rows, select_objects
from adkpg.keys import ScopeKey, SessionKey
from adkpg.memory.search.statements import EvidenceParameters, Shape, evidence_statement
from adkpg.queries import Statement
from adkpg.rules import PERSONAL
from adkpg.tooling.backup import statements as backup
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
    for guarded in (False, True):
        counted = backup.count_rows("adkpg", "sessions", guarded=guarded)
        yield "adkpg.tooling.backup.statements.count_rows", counted.statement, {}
