"""A release: the same bytes from every checkout, well formed, and no public name lost unnoticed."""

import difflib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import adkpg
from tests.fakes.checkout import build, copied
from tests.fakes.public_api import BASELINE, described


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


def test_the_public_interface_is_the_committed_one() -> None:
    committed = BASELINE.read_text(encoding="utf-8").splitlines()
    changed = "\n".join(difflib.unified_diff(committed, described().splitlines(), lineterm=""))
    assert not changed, (
        f"{changed}\nIf this is meant, run `python -m tests.fakes.public_api`, and tell it in "
        "CHANGELOG.md."
    )
