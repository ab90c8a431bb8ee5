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
        (
            ("memory", "prune", *APP, "--all-users", "--max-memories", HUGE, "--yes"),
            "'--max-memories'",
        ),
        (("memory", "search", "tea", *APP, "--limit", str(MAX_TOP_K + 1)), "top_k=10001"),
        (("models", "add", "x", "--dimensions", str(MAX_DIMENSIONS + 1)), "'--dimensions'"),
        (("worker", "--concurrency", HUGE), "'--concurrency'"),
        (("memory", "add", "no such file", *APP), "leads to no file"),
        (("memory", "list", *ANA, "--app-wide"), "give one of --user and --app-wide"),
        (("memory", "search", "tea", *ANA, "--app-wide"), "give one of --user and --app-wide"),
        (("memory", "jobs", *ANA, "--app-wide"), "give one of --user and --app-wide"),
        (("sessions", "list", *ANA, "--all-users"), "give one of --user and --all-users"),
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


WHOSE_MEMORIES = "Say whose: give one of --user, --app-wide and --all-users."
WHOSE_SESSIONS = "Say whose: give one of --user and --all-users."
OF_WHICH_APP = "Say of which app: give one of --app and --all-apps."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("memory", "prune", *APP), WHOSE_MEMORIES),
        (("memory", "prune", *ANA, "--app-wide"), WHOSE_MEMORIES),
        (("memory", "prune", *ANA, "--all-users"), WHOSE_MEMORIES),
        (("memory", "prune", *APP, "--app-wide", "--all-users"), WHOSE_MEMORIES),
        (("memory", "prune", "--all-users"), OF_WHICH_APP),
        (("memory", "prune", *APP, "--all-apps", "--all-users"), OF_WHICH_APP),
        (("sessions", "prune", *APP), WHOSE_SESSIONS),
        (("sessions", "prune", *ANA, "--all-users"), WHOSE_SESSIONS),
        (("sessions", "prune", "--all-users"), OF_WHICH_APP),
        (("forget", "--user", "ana"), OF_WHICH_APP),
        (("forget", *ANA, "--all-apps"), OF_WHICH_APP),
        (("memory", "delete", "m", *APP), "Say whose: give one of --user and --app-wide."),
    ],
)
def test_what_erases_is_told_exactly_whose_rows_go(
    adkpg: Adkpg, arguments: tuple[str, ...], said: str
) -> None:
    """No database is named, so nothing was asked before the refusal."""
    outcome = adkpg(*arguments, "--yes")
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
        ("memory", "prune", *APP, "--all-users", "--max-memories", most, "--yes"),
        ("memory", "search", "tea", *APP, "--limit", str(MAX_TOP_K)),
        ("models", "add", "x", "--dimensions", str(DIMENSIONS.max)),
        ("memory", "prune", *APP, "--all-users", "--older-than", "999999w", "--yes"),
    ):
        outcome = adkpg(*arguments)
        assert (outcome.code, outcome.err) == (0, ""), arguments
    assert adkpg("sessions", "show", "s", *ANA, "--events", most).code == 1, "no such session"
