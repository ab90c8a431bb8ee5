"""What a user imports: the names of some packages' ``__all__``, and no others."""

import dataclasses
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator
from typing import Any

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
_IMPORTS = re.compile(r"^\s*(?:>>> )?(?:from|import) (adkpg\b[\w.]*)", re.MULTILINE)


def _exported(package: str) -> dict[str, Any]:
    module = importlib.import_module(package)
    return {name: getattr(module, name) for name in module.__all__}


EXPORTED = {package: _exported(package) for package in PACKAGES}


def test_pages_and_examples_import_public_packages_only() -> None:
    programs = {example: example.read_text(encoding="utf-8") for example in EXAMPLES}
    for page in pages.DOCUMENTS:
        programs[page] = "\n".join(block.text for block in pages.blocks(page, "python", "py"))
    for path, program in programs.items():
        assert {*_IMPORTS.findall(program)} <= {*PACKAGES}, path


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
        if name.startswith("_") or is_internal(member):
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


def test_each_type_of_public_calls_is_public() -> None:
    values = [value for exported in EXPORTED.values() for value in exported.values()]
    public = {value for value in values if inspect.isclass(value)}
    missing = {
        f"{found.__module__}.{found.__qualname__} (of {where})"
        for value in values
        if not isinstance(value, types.ModuleType)
        for where, found in _named(value)
        if found not in public and found is not type(value)
    }
    assert sorted(missing) == []
