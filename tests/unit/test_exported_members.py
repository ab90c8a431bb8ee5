"""Importing adkpg is cheap and silent, and a name that it lacks is an ImportError."""

import subprocess
import sys

import pytest


@pytest.mark.program
def test_importing_adkpg_imports_nothing_before_it_is_used_and_makes_no_noise() -> None:
    program = (
        "import logging, sys, adkpg\n"
        "assert not any(n.startswith(('google', 'pydantic', 'adkpg.')) for n in sys.modules)\n"
        "assert not logging.getLogger('adkpg').handlers\n"
        "assert adkpg.facts.Facts and adkpg.Settings and 'google.adk' in sys.modules"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=False
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


def test_a_name_that_adkpg_lacks_cannot_be_imported() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Databse' from 'adkpg'"):
        exec("from adkpg import Databse")
