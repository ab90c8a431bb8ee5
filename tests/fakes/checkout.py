"""This checkout, its distributions, and an environment outside of it that holds one."""

import os
import shutil
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


def copied(place: Path) -> Path:
    """Returns a folder with a copy of what git tracks, whose files are of another time."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, tracked):
        if (CHECKOUT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(CHECKOUT / name, place / name)
            (place / name).chmod((CHECKOUT / name).stat().st_mode)
    return place


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
