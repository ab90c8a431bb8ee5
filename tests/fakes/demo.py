"""The demo as its users run it: what it wrote, and the servers that it left."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from adkpg.embedded.postmaster import Postmaster
from adkpg.tooling.demo.line import Line, read

KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")


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
        if name not in KEYS and not name.startswith("ADKPG_")
    }
    return kept | {"COLUMNS": "160"} | variables


def postmasters(directory: Path) -> list[Postmaster]:
    """The servers that run below a directory."""
    found = (Postmaster.of(pid_file.parent) for pid_file in directory.rglob("postmaster.pid"))
    return [postmaster for postmaster in found if postmaster is not None]
