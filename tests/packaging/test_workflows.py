"""GitHub's workflows have the form they must have, pinned actions, and no right too many.

Their commands are ones that this checkout knows, and its versions those that are supported.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from adkpg import __version__
from adkpg.testing.server import IMAGE
from tests.fakes.checkout import CHECKOUT

PROJECT: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.program
@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_it_has_the_form_of_a_workflow(workflow: Path) -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    checked = subprocess.run(
        [program, "--builtin-schema", "vendor.github-workflows", workflow],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_the_hash_of_a_commit(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.program
def test_nothing_that_is_known_to_be_unsafe_is_in_them() -> None:
    checked = subprocess.run(
        [Path(sys.executable).with_name("zizmor"), "--offline", "--no-progress", *WORKFLOWS],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout


def test_a_release_publishes_what_its_tag_says() -> None:
    source = (CHECKOUT / "adkpg" / "__init__.py").read_text(encoding="utf-8")
    assert re.search(r'^__version__ = "(.*)"', source, re.MULTILINE)[1] == __version__  # type: ignore[index] # the line is there


def jobs(workflow: str) -> dict[str, Any]:
    text = (CHECKOUT / ".github" / "workflows" / workflow).read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)["jobs"]
    return found


def commands() -> Iterator[str]:
    for workflow in WORKFLOWS:
        for job in jobs(workflow.name).values():
            yield from (step["run"] for step in job["steps"] if "run" in step)


@pytest.mark.program
@pytest.mark.parametrize("command", sorted({*commands()}))
def test_a_command_is_one_that_the_checkout_knows(command: str) -> None:
    read = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")
    match shlex.split(command.removeprefix("env -u HOME ")):
        case ["make", *given]:
            make = ["make", "-n", "-o", ".venv/.installed", *given]
            planned = subprocess.run(make, cwd=CHECKOUT, capture_output=True, text=True)
            assert planned.returncode == 0, planned.stderr
            _, _, marks = command.partition("-m '")
            known = {mark.partition(":")[0] for mark in MARKERS}
            assert set(re.findall(r"\w+", marks)) <= known | {"and", "not", "or"}
        case [".ci/run"]:
            assert os.access(CHECKOUT / ".ci" / "run", os.X_OK)
        case ["uv", "pip", "install", "--resolution", _, "-e", what, "--group", group]:
            assert what.strip(".[]") in PROJECT["project"]["optional-dependencies"]
            assert group in PROJECT["dependency-groups"]
        case ["python" | ".venv/bin/python", "-m", "pip" | "pytest", *_] | ["uv", "venv"]:
            assert "\n" not in command
        case ["mv", built, "."]:
            makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
            assert built.replace("dist/", "$(DIST)/") in makefile
        case ["sudo", "apt-get", "update"] | ["sudo", "apt-get", "install", *_, "pgbouncer"]:
            assert "\n" not in command
        case ["test", "-z", "$(git status --porcelain)"]:
            assert (CHECKOUT / ".gitignore").is_file()
        case other:
            assert other == shlex.split(TAG_IS_THE_VERSION)


(TAG_IS_THE_VERSION,) = (
    step["run"]
    for step in jobs("release.yml")["build"]["steps"]
    if step.get("name") == "The tag is the version"
)
MARKERS = PROJECT["tool"]["pytest"]["ini_options"]["markers"]


@pytest.mark.program
@pytest.mark.parametrize(("tag", "code"), [(f"v{__version__}", 0), ("v99.0.0", 1), ("main", 1)])
def test_a_tag_of_another_version_is_not_released(tag: str, code: int) -> None:
    run = ["bash", "-e", "-c", TAG_IS_THE_VERSION]
    environment = os.environ | {"GITHUB_REF_NAME": tag}
    assert subprocess.run(run, cwd=CHECKOUT, env=environment, check=False).returncode == code


def test_a_tag_publishes_what_was_tested_and_built_without_a_password() -> None:
    text = (CHECKOUT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert 'on:\n  push:\n    tags: ["v*"]\n\n' in text
    build, publish = jobs("release.yml").values()
    ran = [step["run"] for step in build["steps"] if "run" in step]
    assert ran.index(".ci/run") < ran.index("make release")
    assert (publish["needs"], publish["permissions"]) == ("build", {"id-token": "write"})
    assert publish["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert "secrets." not in text
    assert "password:" not in text.replace("no password", "")


def test_all_versions_are_tested_that_are_said_to_be_supported() -> None:
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    ci = jobs("ci.yml")
    assert ci["pinned"]["strategy"]["matrix"]["python"] == classified
    newest = IMAGE.rpartition(":pg")[2]
    tested = [*ci["postgres"]["strategy"]["matrix"]["postgres"], newest]
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    assert f"Postgres {tested[0]} to {tested[-1]}" in readme
    assert tested == [str(version) for version in range(int(tested[0]), int(newest) + 1)]
    assert ci["lowest"]["steps"][-2]["run"].startswith("uv pip install --resolution lowest")
