"""A release: the same bytes from every checkout, well formed, and no public name lost unnoticed."""

import difflib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import adkpg
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


@pytest.mark.program
def test_a_release_is_one_command_and_the_same_bytes_from_two_checkouts(tmp_path: Path) -> None:
    """Of the SBOM, which takes longest, it is seen that it has no time and no folder in it."""
    one, another = copied(tmp_path / "one"), copied(tmp_path / "another")
    run = subprocess.run(
        ["make", "-o", ".venv/.installed", "release", f"BIN={Path(sys.executable).parent}"],
        cwd=one,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    names = (f"adkpg-{adkpg.__version__}-py3-none-any.whl", f"adkpg-{adkpg.__version__}.tar.gz")
    assert {path.name for path in (one / "dist").iterdir()} == {*names, "adkpg.cdx.json"}
    for target, name in zip(("wheel", "sdist"), names, strict=True):
        (tmp_path / target).mkdir()
        built = build(another, target, tmp_path / target)
        assert built.name == name
        assert built.read_bytes() == (one / "dist" / name).read_bytes(), name

    written = (one / "dist" / "adkpg.cdx.json").read_text(encoding="utf-8")
    bom = json.loads(written)
    assert bom["metadata"]["component"]["name"] == "adkpg"
    assert {"asyncpg", "sqlalchemy"} <= {part["name"] for part in bom["components"]}
    assert "timestamp" not in bom["metadata"]
    assert "serialNumber" not in bom
    assert str(tmp_path) not in written


def test_the_index_can_show_the_readme_without_the_repository(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        unpacked = archive.read(name).decode()
    assert "](docs/" not in unpacked
    assert "](https://raw.githubusercontent.com/adkpg/adkpg/main/docs/console-" in unpacked


def difference() -> list[str]:
    """How the public interface differs from the committed one; empty if it does not."""
    committed = BASELINE.read_text(encoding="utf-8").splitlines()
    return [*difflib.unified_diff(committed, described().splitlines(), "committed", "now", "", "")]


def test_the_public_interface_is_the_committed_one() -> None:
    told = "\n".join(difference())
    assert not told, (
        f"{told}\nIf this is meant, run `python -m tests.fakes.public_api`, and tell it in "
        "CHANGELOG.md."
    )


async def _upgrade(self: Any, to: str) -> None: ...


_upgrade.__module__ = adkpg.__name__


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"__all__": [n for n in adkpg.__all__ if n != "Hit"]}, ["-class adkpg.Hit()"]),
        ({"__all__": [*adkpg.__all__, "errors"]}, ["+adkpg.errors"]),
        ({"Database.downgrade": None}, ["-  adkpg.Database.downgrade(self, revision)"]),
        (
            {"Database.upgrade": _upgrade},
            ["-  adkpg.Database.upgrade(self, revision=…)", "+  adkpg.Database.upgrade(self, to)"],
        ),
    ],
    ids=["a name goes", "a name comes", "a method goes", "a method takes something else"],
)
def test_a_change_of_the_public_interface_is_told(
    changed: dict[str, Any], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in changed.items():
        if value is None:
            monkeypatch.delattr(f"adkpg.{name}")
        else:
            monkeypatch.setattr(f"adkpg.{name}", value)
    assert set(told) <= set(difference())
