"""What pyproject.toml declares is what the code imports and what constraints.txt pins."""

import ast
import itertools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.fakes.checkout import CHECKOUT

PROJECT: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
RUNTIME = [
    Requirement(line)
    for line in [*PROJECT["project"]["dependencies"], *itertools.chain(*EXTRAS.values())]
    if not line.startswith("adkpg[")
]
DEVELOPMENT = [Requirement(line) for line in PROJECT["dependency-groups"]["dev"]]
CONSTRAINTS = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8")


def imported_modules() -> Iterator[tuple[str, str]]:
    """Yields every absolute import of the package and its migrations, with its file."""
    files = [*(CHECKOUT / "adkpg").rglob("*.py"), *(CHECKOUT / "alembic").rglob("*.py")]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, path.name
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                yield node.module, path.name


def test_every_import_is_of_a_declared_dependency() -> None:
    # pydantic pins the exact pydantic-core that it works with: who has the one has the other. ADK's
    # server, of which QueuedRuns is middleware, is built on the starlette that ADK asks for.
    names = [*(requirement.name for requirement in RUNTIME), "pydantic-core", "starlette"]
    declared = {canonicalize_name(name) for name in names}
    owners = metadata.packages_distributions()
    undeclared = set()
    for module, file in imported_modules():
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names or top == "adkpg":
            continue
        if not declared & {canonicalize_name(owner) for owner in owners.get(top, [])}:
            undeclared.add((module, file))
    assert undeclared == set()


def pins(constraints: str = CONSTRAINTS) -> dict[str, list[str]]:
    """The versions that are pinned, by name; several where Pythons differ."""
    found: dict[str, list[str]] = {}
    for line in re.findall(r"^([^\s#].*?)(?: \\)?$", constraints, re.MULTILINE):
        requirement = Requirement(line)
        (pin,) = requirement.specifier
        assert pin.operator == "==", line
        found.setdefault(canonicalize_name(requirement.name), []).append(pin.version)
    return found


def test_every_declared_dependency_is_pinned_within_its_bounds() -> None:
    pinned = pins()
    for requirement in (*RUNTIME, *DEVELOPMENT):
        for version in pinned[canonicalize_name(requirement.name)]:
            assert version in requirement.specifier, f"{requirement}: run make lock"


def test_the_image_has_what_is_tested() -> None:
    tested = pins()
    image = pins((CHECKOUT / "constraints-image.txt").read_text(encoding="utf-8"))
    assert all({*versions} <= {*tested[name]} for name, versions in image.items()), "run make lock"
    assert {"hatchling", "google-adk", "onnxruntime", "jinja2"} <= image.keys()


@pytest.mark.program
def test_what_is_pinned_lacks_nothing() -> None:
    """It is installed as it is: nothing looks for what a package needs besides."""
    checked = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "check", "--python", sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_every_pin_has_hashes_and_no_address() -> None:
    blocks = re.split(r"\n(?=\S)", CONSTRAINTS.strip())
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in CONSTRAINTS
    assert "--index" not in CONSTRAINTS
    assert "--find-links" not in CONSTRAINTS


def test_runtime_dependencies_have_bounds() -> None:
    assert all(requirement.specifier for requirement in RUNTIME)
