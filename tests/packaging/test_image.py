"""The container image: its Dockerfile is well formed, and copies what the wheel is built from."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.fakes.checkout import CHECKOUT, build, names

DOCKERFILE = CHECKOUT / "Dockerfile"


def test_the_linter_has_nothing_to_say() -> None:
    linted = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), DOCKERFILE], capture_output=True, text=True
    )
    assert linted.returncode == 0, linted.stdout


def test_what_is_copied_is_enough_to_build_the_wheel(wheel: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for copied in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE.read_text(), re.MULTILINE):
        for name in copied.split():
            if (CHECKOUT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(CHECKOUT / name, source / name, ignore=ignored)
            else:
                shutil.copy(CHECKOUT / name, source)
    (tmp_path / "dist").mkdir()
    assert names(build(source, "wheel", tmp_path / "dist")) == names(wheel)


def test_it_runs_the_command_as_an_ordinary_user() -> None:
    text = DOCKERFILE.read_text()
    assert 'ENTRYPOINT ["adkpg"]' in text
    assert text.index("USER 1000") < text.index("ENTRYPOINT")
