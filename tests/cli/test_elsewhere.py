"""An empty answer says where there is more: other users' memories, and the apps there are."""

import asyncio

import pytest
from google.genai import types

from adkpg import DatabaseSessionService, PgVectorMemoryService
from adkpg.memory.records import Memory
from tests.fakes.commands import Adkpg

SCORE = "SCORE: the higher the better; it compares hits of one search only."


@pytest.fixture(autouse=True)
def stored(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app whose two users have three memories, and another with two sessions."""
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")

    async def fill() -> None:
        async with PgVectorMemoryService(database_url, mode="text") as memory:
            for user_id, texts in {"ana": ["A bike.", "A dog."], "bob": ["A cat."]}.items():
                entries = [
                    Memory(content=types.Content(parts=[types.Part(text=each)])) for each in texts
                ]
                await memory.add_memory(app_name="chat", user_id=user_id, memories=entries)
        async with DatabaseSessionService(database_url) as sessions:
            for session_id in ("s1", "s2"):
                await sessions.create_session(
                    app_name="travel", user_id="ana", session_id=session_id
                )

    asyncio.run(fill())


@pytest.mark.parametrize("command", [("list",), ("search", "bike")])
def test_an_empty_answer_without_a_user_tells_of_users(
    adkpg: Adkpg, command: tuple[str, ...]
) -> None:
    outcome = adkpg("memory", *command, "--app", "chat")
    assert outcome.code == 0
    assert outcome.out.endswith("2 users of it have 3 memories; give --user for a person's.\n")


@pytest.mark.parametrize(
    "command",
    [
        ("memory", "list"),
        ("memory", "list", "--user", "ana"),
        ("memory", "search", "bike", "--user", "ana"),
        ("sessions", "list"),
        ("sessions", "list", "--user", "ana"),
        ("stats", "--exact"),
    ],
)
def test_a_mistyped_app_is_told_which_there_are(adkpg: Adkpg, command: tuple[str, ...]) -> None:
    outcome = adkpg(*command, "--app", "chta")
    assert outcome.code == 0
    assert "There are these apps: chat, travel." in outcome.out


def test_an_app_without_any_is_none_that_was_mistyped(adkpg: Adkpg) -> None:
    assert adkpg("sessions", "list", "--app", "chat").out == (
        "No session of app 'chat' is stored.\n"
    )


def test_after_everybody_was_forgotten_no_app_is_said_to_be_missing_yet(adkpg: Adkpg) -> None:
    for app_name, user_id in (("chat", "ana"), ("chat", "bob"), ("travel", "ana")):
        assert adkpg("forget", "--app", app_name, "--user", user_id, "--yes").code == 0
    assert adkpg("sessions", "list", "--app", "travel").out == (
        "No session of app 'travel' is stored. Nothing is stored of any app.\n"
    )


def test_a_table_says_how_it_is_sorted_and_what_its_scores_are(adkpg: Adkpg) -> None:
    listed = adkpg("sessions", "list", "--app", "travel").out.splitlines()
    assert listed[-1] == "By creation, the newest first; with --user by last update."
    assert [line.split()[1] for line in listed[1:3]] == ["s2", "s1"]
    found = adkpg("memory", "search", "bike", "--app", "chat", "--user", "ana").out.splitlines()
    assert found[-1] == SCORE
