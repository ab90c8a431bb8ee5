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
        "adkpg.documents",
        "adkpg.embedded",
        "adkpg.embedding",
        "adkpg.erasure",
        "adkpg.facts",
        "adkpg.models",
        "adkpg.tools",
    ],
)
def test_all_is_sorted_and_exact(package: str) -> None:
    module = importlib.import_module(package)
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert list(module.__all__) == sorted(module.__all__)
    assert set(module.__all__) == public


def test_importing_adkpg_makes_no_noise() -> None:
    program = "import adkpg, logging; assert not logging.getLogger('adkpg').handlers"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
