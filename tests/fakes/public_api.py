"""What users can rely on, as text: every public name with its signature and members.

``python -m tests.fakes.public_api`` writes tests/packaging/public_api.txt anew, after a change that
is meant; the diff is what CHANGELOG.md has to tell.
"""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adkpg.interface.internal import is_internal
from tests.fakes.checkout import CHECKOUT
from tests.fakes.front_door import PACKAGES

BASELINE = CHECKOUT / "tests" / "packaging" / "public_api.txt"


def described() -> str:
    """Returns the public interface, a line for each name, in a fixed order."""
    return "\n".join(line for package in PACKAGES for line in _package(package)) + "\n"


def _package(package: str) -> Iterator[str]:
    module = importlib.import_module(package)
    for name in sorted(module.__all__):
        yield from _value(f"{package}.{name}", getattr(module, name))


def _value(path: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        yield f"class {path}({bases})"
        for name, member in sorted(vars(value).items()):
            if name == "__init__" or not (name.startswith("_") or is_internal(member)):
                yield from _member(f"{path}.{name}", member)
        for name in sorted(vars(value).get("__annotations__", {})):
            if not name.startswith("_") and name not in vars(value):
                yield f"  {path}.{name}"
    elif callable(value) and inspect.isroutine(value):
        yield f"{path}{_signature(value)}"
    elif not path.endswith(".__version__"):
        yield path


def _member(path: str, member: Any) -> Iterator[str]:
    plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    if inspect.isfunction(plain):
        if str(plain.__module__).startswith("adkpg") or path.endswith("__init__"):
            yield f"  {path}{_signature(plain)}"
    elif not isinstance(member, dict):
        yield f"  {path}"


def _signature(function: Any) -> str:
    """Names, order, kinds and whether there is a default: what a call depends on."""
    parts = []
    starred = False
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            name, starred = f"*{name}", True
        elif parameter.kind is parameter.VAR_KEYWORD:
            name = f"**{name}"
        elif parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(name if parameter.default is parameter.empty else f"{name}=…")
    return f"({', '.join(parts)})"


if __name__ == "__main__":
    Path(BASELINE).write_text(described(), encoding="utf-8")
