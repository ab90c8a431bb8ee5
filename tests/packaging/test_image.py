"""The container image: its Dockerfile is well formed, and copies what the wheel is built from."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.fakes.checkout import CHECKOUT, build, names

DOCKERFILE = CHECKOUT / "Dockerfile"


@pytest.mark.program
def test_the_linter_has_nothing_to_say() -> None:
    linted = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), DOCKERFILE], capture_output=True, text=True
    )
    assert linted.returncode == 0, linted.stdout


def copied(directory: Path) -> Path:
    """Returns a folder with what the Dockerfile copies of this checkout."""
    source = directory / "source"
    source.mkdir()
    for given in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE.read_text(), re.MULTILINE):
        for name in given.split():
            if (CHECKOUT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(CHECKOUT / name, source / name, ignore=ignored)
            else:
                shutil.copy(CHECKOUT / name, source)
    return source


def test_what_is_copied_is_enough_to_build_the_wheel(wheel: Path, tmp_path: Path) -> None:
    source = copied(tmp_path)
    (tmp_path / "dist").mkdir()
    assert names(build(source, "wheel", tmp_path / "dist")) == names(wheel)


@pytest.mark.program
def test_the_stages_commands_run_as_given(tmp_path: Path) -> None:
    # /opt lies in this test's folder; what pip would download is what this Python has.
    text = DOCKERFILE.read_text().replace("/opt/adkpg", f"{tmp_path}/adkpg")
    (built,) = re.findall(r"^RUN (.*)$", text, re.MULTILINE)
    (entry,), (default,) = (
        re.findall(rf"^{word} (.*)$", text, re.MULTILINE) for word in ("ENTRYPOINT", "CMD")
    )
    built = built.replace("python -m venv", f"{shlex.quote(sys.executable)} -m venv")
    environment = os.environ | {
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's "0" is: do not isolate
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONPATH": sysconfig.get_path("purelib"),
    }
    made = subprocess.run(
        ["sh", "-c", built], cwd=copied(tmp_path), env=environment, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
    command = tmp_path / "adkpg" / "bin" / json.loads(entry)[0]
    helped = subprocess.run(
        [command, *json.loads(default)], env=environment, capture_output=True, text=True
    )
    assert helped.stdout.startswith("Usage: adkpg"), helped.stderr


def test_it_runs_the_command_as_an_ordinary_user() -> None:
    text = DOCKERFILE.read_text()
    assert 'ENTRYPOINT ["adkpg"]' in text
    assert text.index("USER 1000") < text.index("ENTRYPOINT")
