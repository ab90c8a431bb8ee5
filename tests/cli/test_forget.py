"""``adkpg forget`` and ``adkpg memory prune``."""

import asyncio
import getpass
import json
from pathlib import Path

import asyncpg
import pytest
from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.genai import types

from adkpg import Database, PgVectorMemoryService, Users
from adkpg.audit import Audit
from tests.fakes.commands import Adkpg
from tests.fakes.conversation import entry
from tests.fakes.life import PERSONAL, live_through, rows_of, scope_of
from tests.fakes.toys import ToyEmbedder

APPS = ("app", "other")


@pytest.fixture
def lived(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database in which alice and bob have lived in two apps; it is the environment's."""

    async def live() -> None:
        connection = await opened(database_url)
        async with Database(database_url) as database:
            memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
            for app in APPS:
                for user in ("alice", "bob"):
                    await live_through(database, memory, connection, user, app)
        await connection.close()

    asyncio.run(live())
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    monkeypatch.setenv("COLUMNS", "100")
    return database_url


async def opened(url: str) -> asyncpg.Connection:
    connection = await asyncpg.connect(url)
    await connection.execute("SET search_path = adkpg, public")
    return connection


def rows(url: str, user_id: str, app_name: str = "app") -> dict[str, int]:
    async def read() -> dict[str, int]:
        connection = await opened(url)
        try:
            return await rows_of(connection, user_id, app_name)
        finally:
            await connection.close()

    return asyncio.run(read())


def run(url: str, sql: str) -> None:
    async def execute() -> None:
        connection = await opened(url)
        await connection.execute(sql)
        await connection.close()

    asyncio.run(execute())


def noted(url: str) -> list[tuple[str, str, str]]:
    """Returns what the audit has of the app: who did what, and how it ended."""

    async def read() -> list[tuple[str, str, str]]:
        async with Database(url) as database:
            page = await Audit(database).entries(app_name="app", user_id=Users.APP_WIDE)
        return [(each.actor, each.action, each.outcome) for each in page.items]

    return asyncio.run(read())


NOTHING = dict.fromkeys(PERSONAL, 0)
FORGET = ("forget", "--app", "app", "--user", "alice")


def test_forget_shows_what_there_is_and_asks(adkpg: Adkpg, lived: str) -> None:
    before, bobs = rows(lived, "alice"), rows(lived, "bob")

    refused = adkpg(*FORGET, answer="n\n")
    assert (refused.code, rows(lived, "alice")) == (1, before)
    lines = [line.split() for line in refused.out.splitlines()]
    assert lines[0] == ["APP", "WHAT", "COUNT"]
    assert ["app", "sessions", "2"] in lines
    assert ["app", "events", "6"] in lines
    assert ["app", "memories", "(turn)", "5"] in lines
    assert ["app", "marks", "of", "deleted", "memories", "1"] in lines
    assert "Erase all this for good? [y/N]" in refused.err

    agreed = adkpg(*FORGET, answer="y\n")
    assert agreed.code == 0
    assert agreed.out.endswith("Removed.\n")
    assert rows(lived, "alice") == NOTHING
    assert rows(lived, "alice", "other") == before
    assert rows(lived, "bob") == bobs

    assert noted(lived) == [(f"{getpass.getuser()} (command line)", "forget_person", "done")]

    again = adkpg(*FORGET)
    assert (again.code, again.out) == (0, "Nothing is kept of user alice in app.\n")
    again = adkpg(*FORGET, "--yes")
    assert (again.code, again.out) == (0, "Nothing is kept of user alice in app.\n")


def test_forget_in_an_app_that_keeps_nothing_names_those_that_do(adkpg: Adkpg, lived: str) -> None:
    before = rows(lived, "alice")
    missed = adkpg("forget", "--app", "ap", "--app", "typo", "--user", "alice", "--yes")
    assert (missed.code, missed.out) == (0, "Nothing is kept of user alice in ap, typo.\n")
    assert missed.err == "User alice is kept in other apps: app, other.\n"
    assert rows(lived, "alice") == before
    nobody = adkpg("forget", "--app", "app", "--user", "carol", "--yes")
    assert nobody.out == "Nothing is kept of user carol in app.\n"
    assert nobody.err == (
        "No other app keeps anything of user carol; check how the id is spelled.\n"
    )


def test_forget_in_all_apps_leaves_nothing_anywhere(adkpg: Adkpg, lived: str) -> None:
    bobs = [rows(lived, "bob", app) for app in APPS]
    asked = ("forget", "--all-apps", "--user", "alice")
    planned = json.loads(adkpg(*asked, "--dry-run", "--json").out)["erased"]
    erased = json.loads(adkpg(*asked, "--yes", "--json").out)["erased"]
    assert erased == planned
    assert [each["app_name"] for each in erased] == list(APPS)
    assert [rows(lived, "alice", app) for app in APPS] == [NOTHING, NOTHING]
    assert [rows(lived, "bob", app) for app in APPS] == bobs
    again = adkpg(*asked, "--yes")
    assert (again.code, again.out) == (0, "Nothing is kept of user alice in any app.\n")
    assert json.loads(adkpg("apps", "--user", "alice", "--json").out)["apps"] == []


def test_apps_says_what_each_keeps(adkpg: Adkpg, lived: str) -> None:
    lines = [line.split() for line in adkpg("apps", "--user", "alice").out.splitlines()]
    assert lines[0] == ["APP", "SESSIONS", "MEMORIES", "FILES", "LAST", "SEEN"]
    assert [line[:4] for line in lines[1:]] == [[app, "2", "7", "1"] for app in APPS]
    said = json.loads(adkpg("apps", "--user", "alice", "--json").out)
    assert said["user_id"] == "alice"
    assert [each["app_name"] for each in said["apps"]] == list(APPS)
    assert adkpg("apps", "--user", "carol").out == "No app keeps anything of user 'carol'.\n"


@pytest.mark.parametrize("answer", [None, ""])
def test_forget_without_an_answer_erases_nothing(
    adkpg: Adkpg, lived: str, answer: str | None
) -> None:
    before = rows(lived, "alice")
    assert adkpg(*FORGET, answer=answer).code == 1
    assert rows(lived, "alice") == before


def test_forget_dry_run_asks_and_erases_nothing(adkpg: Adkpg, lived: str) -> None:
    before = rows(lived, "alice")
    shown = adkpg(*FORGET, "--dry-run")
    assert shown.code == 0
    assert shown.out.endswith("Nothing was removed.\n")
    planned = json.loads(adkpg(*FORGET, "--dry-run", "--json").out)
    assert planned["dry_run"] is True
    assert planned["erased"][0]["rows"] == before
    assert rows(lived, "alice") == before


def test_forget_in_several_apps_with_files(adkpg: Adkpg, lived: str, tmp_path: Path) -> None:
    artifacts = FileArtifactService(tmp_path)
    for app in APPS:
        asyncio.run(
            artifacts.save_artifact(
                **scope_of("alice", app),
                session_id="s1",
                filename="report.txt",
                artifact=types.Part(text="x"),
            )
        )
    expected = [rows(lived, "alice", app) for app in APPS]
    arguments = ("--app", "other", "--artifact-service-uri", tmp_path.as_uri(), "--yes", "--json")
    answer = adkpg(*FORGET, *arguments)
    assert answer.code == 0
    said = json.loads(answer.out)
    assert said["dry_run"] is False
    assert [each["app_name"] for each in said["erased"]] == list(APPS)
    assert [each["rows"] for each in said["erased"]] == expected
    assert [each["files"] for each in said["erased"]] == [1, 1]
    assert list(tmp_path.rglob("report.txt")) == []
    assert [rows(lived, "alice", app) for app in APPS] == [NOTHING, NOTHING]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--json",), 1, "no terminal to ask on; add --yes"),
        (("--yes", "--artifact-service-uri", "nonsense://x"), 1, "file:///folder"),
        (("--yes", "--artifact-service-uri", "file://elsewhere/x"), 1, "correct the URI"),
    ],
)
def test_forget_says_what_is_wrong(
    adkpg: Adkpg, lived: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    before = rows(lived, "alice")
    answer = adkpg(*FORGET, *arguments)
    assert answer.code == code
    assert words in answer.err
    assert rows(lived, "alice") == before


def test_prune_shows_first_and_erases_with_yes(adkpg: Adkpg, lived: str) -> None:
    run(lived, "UPDATE memories SET expires_at = now() WHERE user_id = 'bob' AND kind = 'note'")
    before = rows(lived, "bob")
    options = ("memory", "prune", "--app", "app", "--all-users", "--max-memories", "5")

    refused = adkpg(*options)
    assert (refused.code, rows(lived, "bob")) == (1, before)
    shown = adkpg(*options, "--dry-run")
    assert shown.code == 0
    assert refused.out + "Nothing was removed.\n" == shown.out
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[0] == [
        *("APP", "USER", "EXPIRED", "SUPERSEDED", "FADED", "SURPLUS", "DRAWN", "TOTAL"),
    ]
    assert [line[:3] for line in lines[1:3]] == [["app", "alice", "0"], ["app", "bob", "1"]]
    assert rows(lived, "bob") == before

    planned = json.loads(adkpg(*options, "--dry-run", "--json").out)
    pruned = json.loads(adkpg(*options, "--json", "--yes").out)
    assert (planned["dry_run"], pruned["dry_run"]) == (True, False)
    assert pruned["pruned"] == planned["pruned"]
    assert rows(lived, "bob")["memories"] <= 5
    assert rows(lived, "bob", "other")["memories"] == before["memories"]

    done = adkpg(*options, "--yes")
    assert (done.code, done.out) == (0, "There is no memory to erase.\n")


def test_prune_takes_every_rule(adkpg: Adkpg, lived: str) -> None:
    run(lived, "UPDATE memories SET timestamp = now() - interval '9 days', importance = 0.1")
    run(lived, "UPDATE memories SET superseded_by = 'x', expires_at = now() WHERE kind = 'fact'")
    answer = adkpg(
        *("memory", "prune", "--all-apps", "--user", "alice", "--older-than", "8.5d"),
        *("--max-importance", "0.2"),
        *("--kind", "note", "--kind", "summary", "--superseded", "--yes"),
    )
    assert answer.code == 0
    _, *counts, done = [line.split() for line in answer.out.splitlines()]
    assert done == ["Removed."]
    assert counts == [[app, "alice", "0", "1", "1", "0", "0", "2"] for app in APPS]
    assert rows(lived, "alice")["memories"] == 5


@pytest.mark.parametrize(
    ("asked", "whose"),
    [
        (("--app", "app", "--user", "alice"), [("app", "alice")]),
        (("--all-apps", "--user", "alice"), [("app", "alice"), ("other", "alice")]),
        (("--app", "app", "--app-wide"), [("app", None)]),
        (("--all-apps", "--app-wide"), [("app", None), ("other", None)]),
        (("--app", "app", "--all-users"), [("app", None), ("app", "alice"), ("app", "bob")]),
        (
            ("--all-apps", "--all-users"),
            [(app, user) for app in APPS for user in (None, "alice", "bob")],
        ),
    ],
)
def test_prune_keeps_to_those_it_is_told(
    adkpg: Adkpg, lived: str, asked: tuple[str, ...], whose: list[tuple[str, str | None]]
) -> None:
    """Memories of two users and of the app itself have expired, in two apps."""

    async def know() -> None:
        async with Database(lived) as database:
            memory = PgVectorMemoryService(database, mode="text")
            for app in APPS:
                await memory.add_memory(app_name=app, user_id=None, memories=[entry("We open.")])

    asyncio.run(know())
    run(lived, "UPDATE memories SET expires_at = now()")
    answer = adkpg("memory", "prune", *asked, "--yes", "--json")
    pruned = json.loads(answer.out)["pruned"]
    assert [(each["app_name"], each["user_id"]) for each in pruned] == whose
