"""The bar of an import, in a terminal of the operating system's."""

import asyncio
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.fakes.story import FIXTURES

FILE = FIXTURES / "v1-adk-2.6.0-Europe-Vienna.db"


def _in_a_terminal(arguments: list[str], columns: int) -> tuple[int, str]:
    """Runs a program in a terminal of so many columns; returns its code, and all that it showed."""
    terminal, its = pty.openpty()
    ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    running = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(its)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # Linux says so that nobody holds the other end any more
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    return running.wait(), re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())


@pytest.mark.program
async def test_an_import_shows_its_rate_and_the_time_left(
    database_url: str, tmp_path: Path
) -> None:
    program = ["-m", "adkpg", "import", str(FILE), "--database-url", database_url]
    code, shown = await asyncio.to_thread(_in_a_terminal, program, 100)
    assert code == 0, shown
    bars = [line for line in re.split(r"[\r\n]+", shown) if "events" in line and "/s" in line]
    assert bars, shown  # how often it is drawn before the end is the clock's affair
    assert re.fullmatch(r"Importing .* 100% 8 events [\d,]+/s 0:00:00\s*", bars[-1])
    assert all(len(line) <= 100 for line in bars)
    assert "sessions created        4" in shown
