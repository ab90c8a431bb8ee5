"""``adkpg audit`` in the terminal."""

import asyncio
import json
from typing import Any

import pytest

from adkpg import Database
from adkpg.audit import Audit
from tests.fakes.commands import Adkpg

ANA: dict[str, Any] = {"app_name": "shop", "user_id": "ana"}
LONG = "memory " * 30


@pytest.fixture(autouse=True)
def noted(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database with four changes, named by the environment."""
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    changes: list[tuple[dict[str, Any], str, str | None]] = [
        (ANA, "delete_memory", LONG),
        ({**ANA, "user_id": None}, "retry_all", "embed"),
        ({**ANA, "app_name": "bank"}, "delete_session", "s"),
        ({**ANA, "user_id": "bob"}, "delete_memory", None),
    ]

    async def note() -> None:
        async with Database(database_url) as database:
            for whose, action, subject in changes:
                async with Audit(database).recording(
                    **whose, actor="ops", action=action, subject=subject
                ):
                    pass

    asyncio.run(note())


def listed(adkpg: Adkpg, *asked: str) -> list[tuple[str, str | None, str]]:
    outcome = adkpg("audit", *asked, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    entries = json.loads(outcome.out)["entries"]
    return [(each["app_name"], each["user_id"], each["action"]) for each in entries]


def test_changes_are_listed_newest_first_of_all_an_app_or_a_user(adkpg: Adkpg) -> None:
    first = ("shop", "ana", "delete_memory")
    own = ("shop", None, "retry_all")
    bank = ("bank", "ana", "delete_session")
    last = ("shop", "bob", "delete_memory")
    assert listed(adkpg) == [last, bank, own, first]
    assert listed(adkpg, "--app", "shop") == [last, own, first]
    assert listed(adkpg, "--app", "shop", "--user", "ana") == [first]
    assert listed(adkpg, "--user", "ana") == [bank, first]
    assert listed(adkpg, "--app", "shop", "--app-wide") == [own]
    assert listed(adkpg, "--app", "nobody's") == []
    assert adkpg("audit", "--app", "nobody's").out == "The audit has no such change.\n"


def test_a_page_is_a_table_and_names_the_next(adkpg: Adkpg) -> None:
    first = adkpg("audit", "--limit", "3")
    lines = [line.split() for line in first.out.splitlines()]
    assert lines[0] == ["TIME", "WHO", "APP", "USER", "ACTION", "OUTCOME", "SUBJECT"]
    assert lines[2][2:] == ["ops", "bank", "ana", "delete_session", "done", "s"]
    assert lines[3][2:] == ["ops", "shop", "retry_all", "done", "embed"]
    cursor = first.out.split("--cursor ")[1].strip()
    (_, line) = adkpg("audit", "--limit", "3", "--cursor", cursor, "--full").out.splitlines()
    assert line.rstrip().endswith(LONG.strip())


def test_a_user_and_the_app_itself_exclude_each_other(adkpg: Adkpg) -> None:
    wrong = adkpg("audit", "--user", "ana", "--app-wide")
    assert (wrong.code, wrong.out) == (2, "")
    assert "give one of --user and --app-wide" in wrong.err
