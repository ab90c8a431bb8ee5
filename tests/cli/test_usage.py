"""Values that no command can use: exit code 2, and the option or the value is named."""

import pytest

from adkpg.memory.search.options import MAX_TOP_K
from adkpg.tables import MAX_DIMENSIONS
from adkpg.tooling.cli.models import DIMENSIONS
from tests.fakes.commands import Adkpg

APP = ("--app", "app")
ANA = (*APP, "--user", "ana")
HUGE = str(2**64)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("memory", "list", *APP, "--cursor", "nonsense"), "cursor='nonsense' did not come from"),
        (("sessions", "list", *APP, "--cursor", "!"), "cursor='!' did not come from"),
        (("memory", "list", *APP, "--limit", HUGE), "'--limit'"),
        (("sessions", "list", *APP, "--limit", HUGE), "'--limit'"),
        (("sessions", "show", "s", *ANA, "--events", HUGE), "'--events'"),
        (("memory", "prune", *APP, "--max-memories", HUGE, "--yes"), "'--max-memories'"),
        (("memory", "search", "tea", *APP, "--limit", str(MAX_TOP_K + 1)), "top_k=10001"),
        (("models", "add", "x", "--dimensions", str(MAX_DIMENSIONS + 1)), "'--dimensions'"),
        (("worker", "--concurrency", HUGE), "'--concurrency'"),
        (("memory", "add", "no such file", *APP), "leads to no file"),
    ],
)
def test_values_that_cannot_be_used_are_wrong_usage(
    adkpg: Adkpg,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")
    outcome = adkpg(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_the_largest_values_that_are_taken_can_be_used(
    adkpg: Adkpg, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")
    most = str(10**9)
    for arguments in (
        ("memory", "list", *APP, "--limit", most),
        ("sessions", "list", *APP, "--limit", most),
        ("memory", "prune", *APP, "--max-memories", most, "--yes"),
        ("memory", "search", "tea", *APP, "--limit", str(MAX_TOP_K)),
        ("models", "add", "x", "--dimensions", str(DIMENSIONS.max)),
        ("memory", "prune", *APP, "--older-than", "999999w", "--yes"),
    ):
        outcome = adkpg(*arguments)
        assert (outcome.code, outcome.err) == (0, ""), arguments
    assert adkpg("sessions", "show", "s", *ANA, "--events", most).code == 1, "no such session"
