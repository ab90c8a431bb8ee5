"""The benchmarks' modules; they are programs and no package."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.checkout import CHECKOUT


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of benchmarks/ by its name."""
    monkeypatch.syspath_prepend(CHECKOUT / "benchmarks")
    return importlib.import_module
