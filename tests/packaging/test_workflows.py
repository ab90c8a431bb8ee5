"""GitHub's workflows are well formed and safe, and test the versions that are supported."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from adkpg import __version__
from adkpg.tooling.testing.server import IMAGE
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


@pytest.mark.program
def test_nothing_that_is_known_to_be_unsafe_is_in_them() -> None:
    checked = subprocess.run(
        [Path(sys.executable).with_name("zizmor"), "--offline", "--no-progress", *WORKFLOWS],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout


def jobs(workflow: str) -> dict[str, Any]:
    text = (CHECKOUT / ".github" / "workflows" / workflow).read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)["jobs"]
    return found


(TAG_IS_THE_VERSION,) = (
    step["run"]
    for step in jobs("release.yml")["build"]["steps"]
    if step.get("name") == "The tag is the version"
)


@pytest.mark.program
@pytest.mark.parametrize(("tag", "code"), [(f"v{__version__}", 0), ("v99.0.0", 1), ("main", 1)])
def test_a_tag_of_another_version_is_not_released(tag: str, code: int) -> None:
    run = ["bash", "-e", "-c", TAG_IS_THE_VERSION]
    environment = os.environ | {"GITHUB_REF_NAME": tag}
    assert subprocess.run(run, cwd=CHECKOUT, env=environment, check=False).returncode == code


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
