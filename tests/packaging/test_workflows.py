"""GitHub's workflows have the form they must have, pinned actions, and no right too many."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from adkpg import __version__
from tests.fakes.checkout import CHECKOUT

WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))


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
