"""Runs the demo: as its users do, in processes of its own, or quickly within this one."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adkpg.tooling.cli import main
from tests.fakes.demo import KEYS, Demo, Outcome, environment, postmasters


@pytest.fixture(autouse=True)
def _no_keys_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def quick_demo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Demo:
    """The same within this process."""

    def run(*arguments: str, **variables: str) -> Outcome:
        for name, value in ({"COLUMNS": "160"} | variables).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main(["demo", *arguments], prog_name="adkpg")
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def demo() -> Demo:
    """Runs ``adkpg demo`` with arguments, and with variables of the environment by keyword."""

    def run(*arguments: str, **variables: str) -> Outcome:
        ended = subprocess.run(
            [sys.executable, "-m", "adkpg", "demo", *arguments],
            env=environment(**variables),
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        return Outcome(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def embedded_dir() -> Iterator[Path]:
    """A directory for an embedded server, which another account may enter if the tests are root."""
    path = Path(os.path.realpath(tempfile.mkdtemp(prefix="adkpg-demo-", dir="/tmp")))
    yield path
    for left in postmasters(path):
        left.stop(time.monotonic() + 30)
    shutil.rmtree(path)
