"""The public names are those of __all__, sorted, and nothing else."""

import importlib
import inspect
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "package",
    [
        "adkpg",
        "adkpg.adk",
        "adkpg.artifacts",
        "adkpg.audit",
        "adkpg.console",
        "adkpg.documents",
        "adkpg.embedded",
        "adkpg.embedding",
        "adkpg.erasure",
        "adkpg.evaluation",
        "adkpg.facts",
        "adkpg.models",
        "adkpg.reranking",
        "adkpg.testing",
        "adkpg.tools",
        "adkpg.transfer",
    ],
)
def test_all_is_sorted_and_exact(package: str) -> None:
    module = importlib.import_module(package)
    public = {
        name
        for name in dir(module)
        if not name.startswith("_") and not inspect.ismodule(getattr(module, name))
    }
    assert list(module.__all__) == sorted(module.__all__)
    assert set(module.__all__) == public


@pytest.mark.program
def test_importing_adkpg_imports_nothing_before_it_is_used() -> None:
    program = (
        "import sys, adkpg\n"
        "assert not any(n.startswith(('google', 'pydantic', 'adkpg.')) for n in sys.modules)\n"
        "assert adkpg.facts.Facts and adkpg.Settings and 'google.adk' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=250)


def test_a_name_that_adkpg_lacks_cannot_be_imported() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Databse' from 'adkpg'"):
        exec("from adkpg import Databse")


@pytest.mark.program
def test_importing_adkpg_makes_no_noise() -> None:
    program = "import adkpg, logging; assert not logging.getLogger('adkpg').handlers"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=False
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
