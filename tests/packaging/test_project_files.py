"""The scripts and files at the top of the checkout do what they say."""

import os
import re
import subprocess

import pytest
import yaml

from tests.fakes.checkout import CHECKOUT
from tests.fakes.processes import ordinary_user


@pytest.mark.program
def test_ci_checks_and_tests_from_any_directory_without_input() -> None:
    planned = subprocess.run(
        [str(CHECKOUT / ".ci" / "run")],
        cwd="/",
        env=os.environ | {"MAKEFLAGS": "n"},  # make says what it would run
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for command in ("ruff check", "ruff format --check", "mypy", "lint-imports", "pytest"):
        assert f".venv/bin/{command}" in planned or f"-m {command}" in planned
    assert '-m "not program"' in planned
    assert "-m browser" in planned
    assert "test_programs.py" in planned


@pytest.mark.parametrize(
    ("workflow", "job", "command"),
    [("ci", "pinned", ".ci/run"), ("nightly", "all", "make test-all")],
)
def test_the_workflows_run_what_contributors_run(workflow: str, job: str, command: str) -> None:
    path = CHECKOUT / ".github" / "workflows" / f"{workflow}.yml"
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    assert {"run": command} in jobs[job]["steps"]


def test_every_make_target_says_what_it_does() -> None:
    text = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert {"demo", "test", "check"} <= set(phony.split())
    for target in phony.split():
        assert re.search(rf"^{target}:.*## \S", text, re.MULTILINE), target


@pytest.mark.program
@pytest.mark.parametrize(
    ("variables", "own_place"),
    [
        ({"HOME": "/nonexistent"}, True),
        ({"HOME": ""}, True),
        ({"HOME": "/nonexistent", "ADKPG_EMBEDDED_DIR": "/chosen"}, False),
        ({"HOME": "/tmp"}, False),
    ],
)
def test_a_user_without_a_home_gets_the_demo(variables: dict[str, str], own_place: bool) -> None:
    uid, gid = ordinary_user()
    root = os.geteuid() == 0
    planned = subprocess.run(
        ["make", "-n", "-f", "-", "-o", ".venv/.installed", "demo"],
        cwd="/",  # that user may not enter a private checkout
        env={"PATH": os.environ["PATH"], **variables},
        input=(CHECKOUT / "Makefile").read_text(encoding="utf-8"),
        user=uid if root else None,
        group=gid if root else None,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ".venv/bin/adkpg demo" in planned
    assert ("ADKPG_EMBEDDED_DIR='//.venv/server'" in planned) is own_place
