"""A release: the same bytes from every checkout, well formed, and no public name lost unnoticed."""

import difflib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.fakes.checkout import CHECKOUT, build
from tests.fakes.public_api import BASELINE, described


def copied(place: Path) -> Path:
    """A copy of what git tracks, in another folder, whose files are of another time."""
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


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_two_checkouts_build_the_same_bytes(target: str, tmp_path: Path) -> None:
    built = []
    for name in ("one", "another"):
        (tmp_path / f"{name}-dist").mkdir()
        source = copied(tmp_path / name)
        built.append(build(source, target, tmp_path / f"{name}-dist"))
    assert built[0].name == built[1].name
    assert built[0].read_bytes() == built[1].read_bytes()


def test_the_index_can_show_the_readme_without_the_repository(wheel: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", str(wheel)],
        check=True,
        capture_output=True,
    )
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        unpacked = archive.read(name).decode()
    assert "](docs/" not in unpacked
    assert "](https://raw.githubusercontent.com/adkpg/adkpg/main/docs/console-" in unpacked


def test_the_wheel_is_well_formed(wheel: Path) -> None:
    """W002, W004: __init__ files are alike, and Alembic's scripts are loaded by their path."""
    subprocess.run(
        [
            Path(sys.executable).with_name("check-wheel-contents"),
            "--ignore",
            "W002,W004",
            str(wheel),
        ],
        check=True,
        capture_output=True,
    )


def test_the_public_interface_is_the_committed_one() -> None:
    difference = "\n".join(
        difflib.unified_diff(
            BASELINE.read_text(encoding="utf-8").splitlines(),
            described().splitlines(),
            "committed",
            "now",
            lineterm="",
        )
    )
    assert not difference, (
        f"{difference}\nIf this is meant, run `python -m tests.fakes.public_api`, and tell it in "
        "CHANGELOG.md."
    )


def test_a_release_is_one_command(tmp_path: Path) -> None:
    released = subprocess.run(
        [
            *("make", "-o", ".venv/.installed", "release", f"DIST={tmp_path}"),
            f"BIN={Path(sys.executable).parent}",
        ],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert released.returncode == 0, released.stdout + released.stderr
    wheel, *_ = sorted(tmp_path.glob("*.whl"))
    assert [*tmp_path.glob("*.tar.gz")]
    bom = json.loads((tmp_path / "adkpg.cdx.json").read_text(encoding="utf-8"))
    assert {"asyncpg", "sqlalchemy"} <= {part["name"] for part in bom["components"]}
    assert wheel.name.startswith("adkpg-")
