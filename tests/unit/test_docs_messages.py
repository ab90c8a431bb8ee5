"""docs/messages.py reads from the code each sentence that an error may say."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from adkpg import errors
from tests.fakes.checkout import CHECKOUT


@pytest.fixture(scope="module")
def messages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("messages", CHECKOUT / "docs" / "messages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise Busy('A lock was held; try again.')", {"A lock was held; try again."}),
        ("raise Busy(f'{name} was held; try again.')", {"… was held; try again."}),
        ("log.warning('Turn %s waits for %.1f s', a, b)", {"Turn … waits for … s"}),
        ("raise Busy(printable(f'{name} is not there'))", {"… is not there"}),
        (
            "raise Busy('It waits' + ('; for a lock.' if lock else '; for a row.'))",
            {"It waits; for a lock.", "It waits; for a row."},
        ),
        (
            "def f():\n    why = 'A lock is held'\n    why = 'A row is held'\n    raise Busy(why)",
            {"A lock is held", "A row is held"},
        ),
        (
            "def why(x):\n    return f'The lock of {x}'\nraise Busy(why(1) + ' is held')",
            {"The lock of … is held"},
        ),
        ("raise Busy('away')", set()),
        ("raise Other('This is not asked for.')", set()),
    ],
)
def test_a_sentence_is_read(
    messages: ModuleType, tmp_path: Path, code: str, said: set[str]
) -> None:
    path = tmp_path / "module.py"
    path.write_text(code, encoding="utf-8")
    found = messages.Module(path).said(["Busy", "warning"])
    assert {sentence for _, sentence in found} == said


def test_what_is_raised_in_adkpg_is_found(messages: ModuleType) -> None:
    kinds = {
        name
        for path in (CHECKOUT / "adkpg").rglob("*.py")
        for name, _ in messages.Module(path).said(errors.__all__)
    }
    parents = {"AdkpgError", "ModelUnavailable", "RetryableError", "SchemaError"}
    assert set(errors.__all__) - kinds <= parents, "which nobody raises themselves"
