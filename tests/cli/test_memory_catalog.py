"""``adkpg memory list|delete`` against a real server."""

import asyncio
import json
from typing import Any

import pytest
from google.genai import types

from adkpg import PgVectorMemoryService
from adkpg.memory.records import Memory
from tests.fakes.commands import Adkpg

PLACE = ("--app", "chat", "--user", "alice")
APP = ("--app", "chat")


def noted(text: str, day: int, **fields: Any) -> Memory:
    return Memory(
        id=f"m{day}",
        content=types.Content(parts=[types.Part(text=text)]),
        timestamp=f"2026-03-{day:02}T10:00:00+00:00",
        **fields,
    )


@pytest.fixture(autouse=True)
def stored(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database with four memories of one user and one of the app, named by the environment."""
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")
    memories = [
        noted("I moved to Lisbon.", 1, author="alice", custom_metadata={"place": "pt"}),
        noted("My dog is called Rex.", 2, author="alice", topics=["pets"]),
        noted("She has a dog.", 3, kind="fact", topics=["pets"], importance=0.9),
        noted("It rains.", 4, expires_at="2026-03-05T00:00:00Z"),
    ]

    async def fill() -> None:
        async with PgVectorMemoryService(database_url, mode="text") as memory:
            await memory.add_memory(app_name="chat", user_id="alice", memories=memories)
            await memory.add_memory(
                app_name="chat", user_id=None, memories=[noted("We are open.", 9)]
            )

    asyncio.run(fill())


def ids(outcome_out: str) -> list[str]:
    return [memory["id"] for memory in json.loads(outcome_out)["memories"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["m3", "m2", "m1"]),
        (["--all"], ["m4", "m3", "m2", "m1"]),
        (["--topic", "pets", "--kind", "fact"], ["m3"]),
        (["--session", "none"], []),
    ],
)
def test_list_with_filters(adkpg: Adkpg, options: list[str], expected: list[str]) -> None:
    outcome = adkpg("memory", "list", *PLACE, *options, "--json")
    assert (outcome.code, ids(outcome.out)) == (0, expected)


def test_list_as_a_table_in_pages(adkpg: Adkpg) -> None:
    first = adkpg("memory", "list", *PLACE, "--limit", "2")
    assert "She has a dog." in first.out
    assert "alice" in first.out
    assert "2026-03-02 10:00:00" in first.out
    cursor = first.out.split("--cursor ")[1].strip()
    second = adkpg("memory", "list", *PLACE, "--limit", "2", "--cursor", cursor)
    assert "Lisbon" in second.out
    assert "Rex" not in second.out
    assert "There are more" not in second.out


def test_without_a_user_it_is_the_apps_knowledge(adkpg: Adkpg) -> None:
    assert ids(adkpg("memory", "list", *APP, "--json").out) == ["m9"]
    found = json.loads(adkpg("memory", "search", "open", *PLACE, "--mode", "text", "--json").out)
    assert [hit["memory"]["id"] for hit in found["hits"]] == ["m9"]


def test_delete_by_id(adkpg: Adkpg) -> None:
    outcome = adkpg("memory", "delete", "m1", "m2", "nope", *PLACE, "--yes")
    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()] == ["ID", "m1", "m2", "Removed."]
    assert ids(adkpg("memory", "list", *PLACE, "--all", "--json").out) == ["m4", "m3"]


def test_delete_by_id_takes_along_what_says_the_same_and_filters_do_not(
    adkpg: Adkpg, database_url: str
) -> None:
    async def fill() -> None:
        async with PgVectorMemoryService(database_url, mode="text") as memory:
            again = [
                noted("i moved to Lisbon", day, author="alice", topics=topics)
                for day, topics in ((7, []), (8, ["home"]))
            ]
            await memory.add_memory(app_name="chat", user_id="alice", memories=again)

    asyncio.run(fill())
    outcome = adkpg("memory", "delete", *PLACE, "--topic", "home", "--yes", "--json")
    assert json.loads(outcome.out)["deleted"] == ["m8"]
    outcome = adkpg("memory", "delete", "m7", *PLACE, "--dry-run", "--json")
    assert json.loads(outcome.out) == {"dry_run": True, "deleted": ["m7", "m1"]}
    outcome = adkpg("memory", "delete", "m7", *PLACE, "--yes", "--json")
    assert json.loads(outcome.out) == {"dry_run": False, "deleted": ["m7", "m1"]}
    assert ids(adkpg("memory", "list", *PLACE, "--json").out) == ["m3", "m2"]


def test_delete_by_filters_takes_expired_ones_too(adkpg: Adkpg) -> None:
    outcome = adkpg("memory", "delete", *PLACE, "--kind", "note", "--yes", "--json")
    assert json.loads(outcome.out) == {"dry_run": False, "deleted": ["m4", "m2", "m1"]}
    assert ids(adkpg("memory", "list", *PLACE, "--all", "--json").out) == ["m3"]


@pytest.mark.parametrize("answer", [None, "n", ""])
def test_delete_shows_what_would_go_and_asks(adkpg: Adkpg, answer: str | None) -> None:
    outcome = adkpg("memory", "delete", "m9", *APP, "--app-wide", answer=answer)
    assert outcome.code == 1
    assert "We are open." in outcome.out
    said = "no terminal to ask on; add --yes" if answer is None else "[y/N]: Aborted!"
    assert said in outcome.err
    assert ids(adkpg("memory", "list", *APP, "--json").out) == ["m9"]


def test_delete_as_json_asks_on_standard_error(adkpg: Adkpg) -> None:
    outcome = adkpg("memory", "delete", "m9", *APP, "--app-wide", "--json", answer="y")
    assert json.loads(outcome.out) == {"dry_run": False, "deleted": ["m9"]}
    assert "We are open." in outcome.err
    assert "Delete these memories of app 'chat' itself? [y/N]" in outcome.err
    assert ids(adkpg("memory", "list", *APP, "--json").out) == []


def test_delete_dry_run_deletes_nothing(adkpg: Adkpg) -> None:
    outcome = adkpg("memory", "delete", *PLACE, "--topic", "pets", "--dry-run")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.endswith("Nothing was removed.\n")
    assert ids(adkpg("memory", "list", *PLACE, "--json").out) == ["m3", "m2", "m1"]
    nothing = adkpg("memory", "delete", *PLACE, "--topic", "boats")
    assert (nothing.code, nothing.out.split()[0]) == (0, "Nothing")


@pytest.mark.parametrize(
    "ways", [(), ("m1", "--kind", "note"), ("--source", "a", "--kind", "note")]
)
def test_delete_wants_to_be_told_in_one_way(adkpg: Adkpg, ways: tuple[str, ...]) -> None:
    outcome = adkpg("memory", "delete", *PLACE, *ways, "--yes")
    assert outcome.code == 2
    assert "one way" in outcome.err
    assert ids(adkpg("memory", "list", *PLACE, "--json").out) == ["m3", "m2", "m1"]


@pytest.mark.parametrize(
    ("wrong", "code", "sentence"),
    [
        (("--kind", "rumour"), 2, "rumour"),
        (("--cursor", "x"), 2, "did not come from a page"),
        (("--limit", "0"), 2, "--limit"),
    ],
)
def test_options_that_cannot_be_read_are_said(
    adkpg: Adkpg, wrong: tuple[str, str], code: int, sentence: str
) -> None:
    outcome = adkpg("memory", "list", *PLACE, *wrong)
    assert outcome.code == code
    assert sentence in outcome.err
