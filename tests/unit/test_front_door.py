"""What a user imports: the names of some packages' ``__all__``, and no others."""

import ast
import dataclasses
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google import genai

from adkpg.interface.internal import is_internal
from tests.fakes import pages
from tests.fakes.checkout import CHECKOUT
from tests.fakes.front_door import PACKAGES

EXAMPLES = tuple(sorted((CHECKOUT / "examples").glob("*.py")))
# How adkpg's own packages send statements: their types are no promise to anybody.
INTERNAL = {
    "Database.ask",
    "Database.ask_apart",
    "Database.ask_together",
    "Database.cluster",
    "Database.fetch",
    "Database.fetch_one",
    "Database.found",
    "Database.keep_informed",
    "Database.listener",
    "Database.look",
    "Database.read",
    "Database.transact",
    "Database.transaction",
}
_IMPORTS = re.compile(r"^\s*(?:>>> )?((?:from|import) adkpg\b(?:.*\([^)]*\)|.*))", re.MULTILINE)


def _exported(package: str) -> dict[str, Any]:
    module = importlib.import_module(package)
    return {name: getattr(module, name) for name in module.__all__}


EXPORTED = {package: _exported(package) for package in PACKAGES}


def _refused(source: str) -> Iterator[str]:
    """The imports of adkpg that are not of public names."""
    for found in _IMPORTS.findall(source):
        for node in ast.walk(ast.parse(found)):
            if isinstance(node, ast.Import):
                yield from (name.name for name in node.names if name.name not in PACKAGES)
            elif isinstance(node, ast.ImportFrom):
                public = EXPORTED.get(node.module or "", {})
                yield from (f"{node.module}.{a.name}" for a in node.names if a.name not in public)


@pytest.mark.parametrize("page", pages.DOCUMENTS, ids=pages.name)
def test_pages_import_public_names_only(page: Path) -> None:
    programs = [block.text for block in pages.blocks(page, "python", "py")]
    assert [*_refused("\n".join(programs))] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_import_public_names_only(example: Path) -> None:
    assert [*_refused(example.read_text())] == []


def test_other_imports_are_refused() -> None:
    source = "from adkpg import Database\nfrom adkpg.facts.service import (\n    Facts,\n)\n"
    assert [*_refused(source)] == ["adkpg.facts.service.Facts"]
    assert [*_refused("import adkpg.database.pools\n>>> from adkpg.facts import Ledger")] == [
        "adkpg.database.pools",
        "adkpg.facts.Ledger",
    ]


def _callables(value: Any) -> Iterator[Any]:
    """A public function, or what can be called of a class and of its objects."""
    if not inspect.isclass(value):
        if inspect.isfunction(value):
            yield value
        return
    if "__init__" in vars(value) or dataclasses.is_dataclass(value):
        yield value.__init__
    for name, member in inspect.getmembers(value):
        module = getattr(inspect.unwrap(member), "__module__", None) if callable(member) else None
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield member.fget
        elif inspect.isfunction(member) and str(module).startswith("adkpg"):
            yield member


def _classes(annotation: Any) -> Iterator[type]:
    """Classes of adkpg that an annotation names."""
    if inspect.isclass(annotation) and annotation.__module__.startswith("adkpg"):
        yield annotation
    is_list = isinstance(annotation, (list, tuple))  # the arguments of a Callable
    for part in annotation if is_list else typing.get_args(annotation):
        yield from _classes(part)


def _named(value: Any) -> Iterator[tuple[str, type]]:
    for function in _callables(value):
        own = inspect.unwrap(function)
        if own.__qualname__ in INTERNAL:
            continue
        for annotation in typing.get_type_hints(own, localns={"genai": genai}).values():
            for found in _classes(annotation):
                yield f"{own.__module__}.{own.__qualname__}", found
    if typing.is_typeddict(value):
        for annotation in typing.get_type_hints(value).values():
            yield from ((value.__qualname__, found) for found in _classes(annotation))


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_sorted_and_each_type_of_public_calls_is_public(package: str) -> None:
    names = list(EXPORTED[package])
    assert names == sorted(names)
    public = {
        value
        for exported in EXPORTED.values()
        for value in exported.values()
        if inspect.isclass(value)
    }
    missing = {
        f"{found.__module__}.{found.__qualname__} (of {where})"
        for value in EXPORTED[package].values()
        if not isinstance(value, types.ModuleType)
        for where, found in _named(value)
        if found not in public and found is not type(value)
    }
    assert sorted(missing) == []


# ADK's own signature, and what a user's own class is asked with.
POSITIONAL = {
    "CohereReranker.scores",
    "DatabaseSessionService.append_event",
    "FactExtractor.extract",
    "MemoryExtractor.extract",
    "OnnxReranker.scores",
    "Reranker.scores",
    "ScriptedLlm.generate_content_async",
    "TEIReranker.scores",
}


@pytest.mark.parametrize("package", PACKAGES)
def test_all_arguments_but_the_first_are_keyword_only(package: str) -> None:
    """Of functions, methods and constructors; values such as hits and pages are no calls."""
    several = set()
    for value in EXPORTED[package].values():
        for function in _callables(value):
            own = inspect.unwrap(function)
            if "__init__" in own.__qualname__ and dataclasses.is_dataclass(value):
                continue
            if inspect.isclass(value) and issubclass(value, Exception):
                continue
            if own.__name__.startswith("test_"):  # pytest gives a suite's tests what they name
                continue
            given = list(inspect.signature(own).parameters.values())
            positional = [
                each.name
                for each in given
                if each.kind is each.POSITIONAL_OR_KEYWORD and each.name != "self"
            ]
            if len(positional) > 1 and own.__qualname__ not in INTERNAL | POSITIONAL:
                several.add(own.__qualname__)
    assert several == set()


def test_the_console_reads_and_acts_through_public_calls_alone() -> None:
    public = [value for names in EXPORTED.values() for value in names.values()]
    members = inspect.getmembers(EXPORTED["adkpg"]["Database"])
    internal = {name for name, member in members if is_internal(member)}
    assert "fetch" in internal
    imported = []
    for path in (CHECKOUT / "adkpg" / "console").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                assert node.attr not in internal, f"{path.name}:{node.lineno}"
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("adkpg"):
                module = importlib.import_module(str(node.module))
                imported += [getattr(module, name.name) for name in node.names]
    asking = [each for each in imported if _asks(each) and "console" not in each.__module__]
    assert asking
    assert [each for each in asking if each not in public] == []


def _asks(value: Any) -> bool:
    """Whether it is awaited, or has what is."""
    members = [member for _, member in inspect.getmembers(value)] if inspect.isclass(value) else []
    return any(inspect.iscoroutinefunction(inspect.unwrap(each)) for each in (value, *members))
