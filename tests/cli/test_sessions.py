"""``adkpg sessions`` against a real server."""

import asyncio
import json

import asyncpg
import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from adkpg import Database, DatabaseSessionService
from tests.fakes.commands import Adkpg

PARTS = [
    types.Part(text="It rains.\nTake [bold]care[/bold] \x1b[31m\ud800"),
    types.Part(function_call=types.FunctionCall(name="forecast", args={"city": "Köln"})),
    types.Part(function_response=types.FunctionResponse(name="forecast", response={"mm": 3})),
    types.Part(inline_data=types.Blob(data=b"\x00", mime_type="image/png")),
]


@pytest.fixture
def stored(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with three sessions, the last with three events; named by the environment."""
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)

    async def fill() -> None:
        async with Database(database_url) as database:
            service = DatabaseSessionService(database)
            for user_id, session_id in (("alice", "a1"), ("alice", "a2"), ("bob", "b" * 60)):
                session = await service.create_session(
                    app_name="weather",
                    user_id=user_id,
                    session_id=session_id,
                    state={"topic": "rain", "user:city": "Köln"},
                )
            for number, parts in enumerate(([types.Part(text="Hello")], PARTS, None)):
                await service.append_event(
                    session,
                    Event(
                        author="user" if number == 0 else "agent",
                        content=types.Content(parts=parts) if parts else None,
                        actions=EventActions(state_delta={"step": number} if not parts else {}),
                        timestamp=1e18 if number == 2 else 1.0,
                    ),
                )

    asyncio.run(fill())
    return database_url


@pytest.mark.usefixtures("stored")
def test_list_shows_whole_ids(adkpg: Adkpg) -> None:
    outcome = adkpg("sessions", "list", "--app", "weather")
    assert outcome.code == 0
    assert "b" * 60 in outcome.out
    assert "a1" in outcome.out
    assert "There are more" not in outcome.out


@pytest.mark.usefixtures("stored")
def test_list_of_one_user(adkpg: Adkpg) -> None:
    outcome = adkpg("sessions", "list", "--app", "weather", "--user", "alice", "--json")
    listed = json.loads(outcome.out)
    assert [session["id"] for session in listed["sessions"]] == ["a2", "a1"]
    assert listed["sessions"][0]["state"] == {"topic": "rain", "user:city": "Köln"}
    assert listed["next_cursor"] is None


@pytest.mark.usefixtures("stored")
def test_list_tells_how_many_events_a_session_has_and_how_it_began(adkpg: Adkpg) -> None:
    outcome = adkpg("sessions", "list", "--app", "weather")
    assert outcome.out.splitlines()[0].split() == [
        "USER",
        "SESSION",
        "LAST",
        "UPDATE",
        "EVENTS",
        "FIRST",
        "WORDS",
    ]
    begun = {line.split()[1]: line.split()[4:] for line in outcome.out.splitlines()[1:4]}
    assert begun == {"b" * 60: ["3", "Hello"], "a2": ["0"], "a1": ["0"]}
    listed = json.loads(adkpg("sessions", "list", "--app", "weather", "--json").out)["sessions"]
    told = {each["id"]: (each["eventCount"], each.get("firstWords")) for each in listed}
    assert told == {"b" * 60: (3, "Hello"), "a2": (0, None), "a1": (0, None)}


def test_first_words_are_looked_for_in_the_first_events_that_are_not_long(
    adkpg: Adkpg, database_url: str
) -> None:
    async def fill() -> None:
        async with Database(database_url) as database:
            service = DatabaseSessionService(database)
            for user_id, texts in (
                ("ada", ["x" * 50_000, "", "NUL \0\nand more"]),
                ("bo", ["x" * 50_000]),
            ):
                session = await service.create_session(
                    app_name="weather", user_id=user_id, session_id="same"
                )
                for text in texts:
                    said = types.Content(role="user", parts=[types.Part(text=text)])
                    await service.append_event(session, Event(author="user", content=said))

    asyncio.run(fill())
    outcome = adkpg("sessions", "list", "--app", "weather", "--database-url", database_url)
    rows = [line.split(maxsplit=4) for line in outcome.out.splitlines()[1:3]]
    assert {row[0]: row[4] for row in rows} == {"ada": r"3       NUL \x00 and more", "bo": "1"}


@pytest.mark.usefixtures("stored")
def test_pages_follow_each_other(adkpg: Adkpg) -> None:
    seen: list[str] = []
    cursor: list[str] = []
    for _ in range(3):
        outcome = adkpg("sessions", "list", "--app", "weather", "--limit", "1", "--json", *cursor)
        page = json.loads(outcome.out)
        seen += [session["id"] for session in page["sessions"]]
        cursor = ["--cursor", page["next_cursor"] or ""]
    assert sorted(seen) == ["a1", "a2", "b" * 60]
    assert page["next_cursor"] is None
    table = adkpg("sessions", "list", "--app", "weather", "--limit", "1")
    assert "There are more: --cursor " in table.out


@pytest.mark.usefixtures("stored")
def test_a_wrong_cursor_is_a_sentence(adkpg: Adkpg) -> None:
    outcome = adkpg("sessions", "list", "--app", "weather", "--cursor", "nonsense")
    assert (outcome.code, outcome.out) == (2, "")
    assert "cursor" in outcome.err


@pytest.mark.usefixtures("stored")
def test_show_tells_state_and_events(adkpg: Adkpg) -> None:
    outcome = adkpg("sessions", "show", "b" * 60, "--app", "weather", "--user", "bob")
    assert outcome.code == 0
    for part in (
        '"Köln"',
        "Hello",
        "It rains.",
        'call forecast({"city": "Köln"})',
        'answer of forecast: {"mm": 3}',
        "[inline_data]",
        'state: {"step": 2}',
        "1e+18",
    ):
        assert part in outcome.out


@pytest.mark.usefixtures("stored")
def test_what_was_said_cannot_steer_the_terminal(adkpg: Adkpg) -> None:
    outcome = adkpg("sessions", "show", "b" * 60, "--app", "weather", "--user", "bob")
    assert "\x1b" not in outcome.out
    assert r"[bold]care[/bold] \x1b[31m�" in outcome.out


@pytest.mark.usefixtures("stored")
def test_show_the_last_events_as_json(adkpg: Adkpg) -> None:
    place = ("--app", "weather", "--user", "bob", "--json")
    shown = json.loads(adkpg("sessions", "show", "b" * 60, "--events", "2", *place).out)
    assert shown["events"][0]["content"]["parts"][0]["text"] == PARTS[0].text
    assert len(shown["events"]) == 2
    assert shown["state"]["step"] == 2
    none = json.loads(adkpg("sessions", "show", "b" * 60, "--events", "0", *place).out)
    assert none["events"] == []


@pytest.mark.usefixtures("stored")
def test_another_users_session_is_not_found(adkpg: Adkpg) -> None:
    outcome = adkpg("sessions", "show", "a1", "--app", "weather", "--user", "bob")
    assert (outcome.code, outcome.out) == (1, "")
    assert "no session 'a1'" in outcome.err


@pytest.mark.usefixtures("stored")
def test_delete_shows_and_deletes_what_is_there(adkpg: Adkpg) -> None:
    place = ("--app", "weather", "--user", "alice")
    shown = adkpg("sessions", "delete", "a1", "none", *place, "--dry-run")
    assert (shown.code, "a1" in shown.out, "Nothing was removed." in shown.out) == (0, True, True)
    refused = adkpg("sessions", "delete", "a1", *place)
    assert refused.code == 1
    assert "add --yes" in refused.err
    gone = adkpg("sessions", "delete", "a1", "none", *place, "--yes", "--json")
    assert json.loads(gone.out) == {"dry_run": False, "deleted": ["a1"]}
    again = adkpg("sessions", "delete", "a1", *place, "--yes", "--forget")
    assert (again.code, again.out.strip()) == (
        0,
        "User alice of app weather has no such session.",
    )
    listed = adkpg("sessions", "list", *place, "--json")
    assert [each["id"] for each in json.loads(listed.out)["sessions"]] == ["a2"]


def test_prune_shows_first(adkpg: Adkpg, stored: str) -> None:
    async def age() -> None:
        connection = await asyncpg.connect(stored)
        await connection.execute(
            "UPDATE adkpg.sessions SET created_at = now() - interval '40 days',"
            " updated_at = now() - interval '40 days' WHERE session_id <> 'a2'"
        )
        await connection.close()

    asyncio.run(age())
    asked = ("sessions", "prune", "--app", "weather", "--all-users", "--older-than", "30d")
    counts = [
        {"app_name": "weather", "user_id": "alice", "sessions": 1, "events": 0, "states": 0},
        {"app_name": "weather", "user_id": "bob", "sessions": 1, "events": 3, "states": 0},
    ]
    shown = adkpg(*asked, "--dry-run", "--json")
    assert json.loads(shown.out) == {"dry_run": True, "pruned": counts}
    assert adkpg(*asked).code == 1
    events = adkpg(*asked, "--events-only", "--yes", "--json")
    assert json.loads(events.out)["pruned"] == [{**counts[1], "events": 2}]  # one is of the future
    gone = adkpg(*asked, "--yes")
    assert "SESSIONS" in gone.out
    assert "Removed." in gone.out
    assert "There is no session to delete." in adkpg(*asked, "--yes").out
    wrong = adkpg("sessions", "prune", "--all-apps", "--all-users", "--events-only", "--yes")
    assert (wrong.code, wrong.out) == (2, "")
    assert "older_than" in wrong.err


def test_without_tables_the_sentence_names_the_command(
    adkpg: Adkpg, empty_database_url: str
) -> None:
    outcome = adkpg("sessions", "list", "--app", "weather", "--database-url", empty_database_url)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.endswith("run: adkpg db upgrade\n")
