"""The demo as its users run it: real processes, whose output is read."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from adkpg.cli import main
from adkpg.demo.line import Line, read
from adkpg.embedded.postmaster import Postmaster

_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """The output without its line breaks."""
        return " ".join(self.out.split())

    @property
    def lines(self) -> list[Line]:
        """What one act wrote."""
        return [read(text) for text in self.out.splitlines()]


Demo = Callable[..., Outcome]


def environment(**variables: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _KEYS and not name.startswith("ADKPG_")
    }
    return kept | {"COLUMNS": "160"} | variables


@pytest.fixture(autouse=True)
def _no_keys_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _KEYS:
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
            timeout=100,
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


def postmasters(directory: Path) -> list[Postmaster]:
    """The servers that run below a directory."""
    found = (Postmaster.of(pid_file.parent) for pid_file in directory.rglob("postmaster.pid"))
    return [postmaster for postmaster in found if postmaster is not None]
