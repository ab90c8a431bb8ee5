"""Every statement of adkpg, in the shapes that it is built in."""

import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any, get_origin, get_type_hints

from sqlalchemy.dialects.postgresql import ARRAY

import adkpg
from adkpg.erasure.statements import count_rows, delete_rows
from adkpg.memory.search.statements import EvidenceParameters, Shape, evidence_statement
from adkpg.sql import FilterParameters, Statement
from adkpg.tables import PERSONAL
from tests.fakes.queries import QUERIES, statement_of

SHAPES: dict[str, list[Any]] = {
    "asked": [frozenset(FilterParameters.__annotations__)],
    "schema": ["adkpg"],
    "model_id": [1],
    "dimensions": [3],
    "table": list(PERSONAL),
    "name": ["sessions"],
}
"""By the name of a shaping argument that is no bool: values that together ask for every bind."""


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


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in pkgutil.walk_packages(adkpg.__path__, "adkpg."):
        if not module.name.endswith(("statements", ".statement")):
            continue
        for name, function in vars(importlib.import_module(module.name)).items():
            own = inspect.unwrap(function) if callable(function) else None
            if not inspect.isfunction(own) or name.startswith("_"):
                continue
            if own.__module__ != module.name:
                continue
            if get_origin(get_type_hints(own).get("return")) is Statement:
                yield f"{module.name}.{name}", own


def shapes(function: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    hints = get_type_hints(function)
    names = list(inspect.signature(function).parameters)
    values = [[False, True] if hints[name] is bool else SHAPES[name] for name in names]
    for chosen in itertools.product(*values):
        yield dict(zip(names, chosen, strict=True))


FUNCTIONS = dict(_functions())


def statements() -> Iterator[tuple[str, Any]]:
    """Each statement, by the name of its function."""
    for name, function in FUNCTIONS.items():
        for shape in shapes(function):
            yield name, function(**shape)
    for name, function in QUERIES.items():
        yield name, statement_of(function)
    for asked in EVIDENCE:
        yield "adkpg.memory.search.statements.evidence", evidence_statement(asked)
    for erasing, table in itertools.product((count_rows, delete_rows), PERSONAL):
        query = erasing(table, app_name="", user_id="")
        yield f"{erasing.__module__}.{erasing.__name__}", query.statement


def lists_of(name: str, statement: Any) -> set[str]:
    """The parameters that are lists."""
    if name.endswith("search.statements.evidence"):
        hints = get_type_hints(EvidenceParameters)
        return {each for each in statement.names if "list[" in str(hints[each])}
    if name in QUERIES:
        hints = get_type_hints(QUERIES[name])
        return {each for each in statement.names if "list[" in str(hints[each])}
    return {each for each in statement.names if isinstance(statement.kinds[each], ARRAY)}
