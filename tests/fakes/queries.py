"""Every query of adkpg that one function names."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import adkpg
from adkpg.queries import Nothing, Query, Statement


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in pkgutil.walk_packages(adkpg.__path__, "adkpg."):
        if not module.name.endswith("statements"):
            continue
        for name, function in vars(importlib.import_module(module.name)).items():
            if getattr(function, "__module__", "") == module.name and hasattr(
                function, "statement"
            ):
                yield f"{module.name}.{name}", function


QUERIES = dict(_functions())
"""By the function's name with its module."""


def statement_of(function: Callable[..., Any]) -> Statement:
    """The statement that a function names."""
    statement: Statement = function.statement  # type: ignore[attr-defined] # the decorator's
    return statement


def written(sql: str, *, long: bool = False, row: Any = Nothing, **parameters: Any) -> Query[Any]:
    """A query that adkpg does not have."""
    return Query(Statement(sql, row, long=long), parameters)
