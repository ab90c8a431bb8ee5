"""This checkout, its distributions, and an environment outside of it that holds one."""

import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def build(source: Path, target: str, directory: Path) -> Path:
    """Builds a wheel or sdist without a network and returns its path."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(directory)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (built,) = directory.iterdir()
    return built


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@dataclass(frozen=True)
class Environment:
    """A virtual environment with adkpg's wheel; its dependencies are those of this Python.

    Programs run in it with ``/`` as their directory and without this checkout on their path.
    """

    bin: Path

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ADKPG_", "PYTHON", "PYTEST_", "VIRTUAL_ENV"))
        }
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd="/",
            env=kept | variables,
            capture_output=True,
            text=True,
            timeout=250,
        )
