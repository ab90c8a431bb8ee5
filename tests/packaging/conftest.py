"""The distributions of this checkout, built once, and an environment that holds one."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.checkout import CHECKOUT, Environment, build


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the checkout."""
    return build(CHECKOUT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def unpacked_sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that an sdist of the checkout unpacks to."""
    directory = tmp_path_factory.mktemp("sdist")
    archive = build(CHECKOUT, "sdist", directory)
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(directory)], check=True)
    (unpacked,) = (path for path in directory.iterdir() if path.is_dir())
    return unpacked


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A fresh virtual environment outside the checkout, with the wheel installed."""
    place = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-config"),
            *("--offline", "--no-deps", "--link-mode", "copy", "--python", str(python), str(wheel)),
        ],
        check=True,
        env={**os.environ, "UV_CACHE_DIR": str(place.parent / "cache")},
    )
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # A path in a .pth comes last, and the .pth files in it (our editable install) are not read.
    link = place / "lib" / version / "site-packages" / "dependencies.pth"
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    link.write_text("\n".join(sorted(paths)) + "\n", encoding="utf-8")
    return Environment(place / "bin")


@pytest.fixture
def embedded_dir() -> Iterator[Path]:
    """A place for an embedded server: as root, no other account may enter pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="adkpg-test-", dir="/tmp"))
    yield path / "server"
    shutil.rmtree(path)
