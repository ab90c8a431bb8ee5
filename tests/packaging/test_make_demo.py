"""`make demo` starts for a user without a home directory, too."""

import os
import subprocess

import pytest

from tests.fakes.checkout import CHECKOUT
from tests.fakes.processes import ordinary_user


@pytest.mark.program
@pytest.mark.parametrize(
    ("variables", "own_place"),
    [
        ({"HOME": "/nonexistent"}, True),
        ({"HOME": ""}, True),
        ({"HOME": "/nonexistent", "ADKPG_EMBEDDED_DIR": "/chosen"}, False),
        ({"HOME": "/tmp"}, False),
    ],
)
def test_a_user_without_a_home_gets_the_demo(variables: dict[str, str], own_place: bool) -> None:
    uid, gid = ordinary_user()
    root = os.geteuid() == 0
    planned = subprocess.run(
        ["make", "-n", "-f", "-", "-o", ".venv/.installed", "demo"],
        cwd="/",  # that user may not enter a private checkout
        env={"PATH": os.environ["PATH"], **variables},
        input=(CHECKOUT / "Makefile").read_text(encoding="utf-8"),
        user=uid if root else None,
        group=gid if root else None,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ".venv/bin/adkpg demo" in planned
    assert ("ADKPG_EMBEDDED_DIR='//.venv/server'" in planned) is own_place
