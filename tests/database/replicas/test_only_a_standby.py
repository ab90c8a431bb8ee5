"""A standby under `ADKPG_DATABASE_URL`, as after a failover: what writes says so in a sentence."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import click
import pytest

from adkpg import Database
from adkpg.errors import AdkpgError, ReadOnly
from adkpg.tables import metadata
from adkpg.tooling.cli import main
from tests.fakes.public_calls import (
    APP,
    CALLS,
    EVERYBODYS,
    OTHERS,
    Call,
    Person,
    Services,
    furnish,
    public_calls,
)
from tests.fakes.replicated import Replicated
from tests.fakes.replication import Pair

pytestmark = pytest.mark.fault

ADA = Person("ada")
WHO: dict[str, Any] = {"app_name": APP, "user_id": ADA.user_id}
SENTENCE = "is a standby or was set read-only; connect to the"

OF_MODELS: dict[str, Callable[[Services], Awaitable[object]]] = {
    "Models.add": lambda s: s.models.add("another", dimensions=8),
    "Models.index": lambda s: s.models.index("toy"),
    "PgVectorMemoryService.index_large_scopes": lambda s: s.memory.index_large_scopes(),
}
OF_TABLES: dict[str, Callable[[Services], Awaitable[object]]] = {
    "Database.upgrade": lambda s: s.database.upgrade(),
    "Database.downgrade": lambda s: s.database.downgrade("base"),
}


async def of_ada(call: Call, services: Services) -> object:
    return await call(services, WHO, ADA)


async def rows(both: Replicated) -> dict[str, Any]:
    connection = await asyncpg.connect(both.primary_url)
    try:
        return {
            table: await connection.fetchval(
                f"SELECT array_agg(t::text ORDER BY t::text) FROM {table} AS t"
            )
            for table in metadata.tables
            if await connection.fetchval("SELECT to_regclass($1)", table)
        }
    finally:
        await connection.close()


async def test_every_public_call_that_changes_something_is_read_only_there(
    both: Replicated,
) -> None:
    """What changes something is seen on the primary, where each call is made right after."""
    made: dict[str, Callable[[Services], Awaitable[object]]] = {
        **{name: partial(of_ada, call) for name, call in CALLS.items()},
        **OF_MODELS,
        **EVERYBODYS,
        **OF_TABLES,
    }
    assert set(public_calls()) - {"Database"} <= {*made, *OTHERS}
    async with (
        Database(both.standby_url) as standby,
        Database(both.primary_url) as primary,
    ):
        theirs = Services.on(primary)
        connection = await asyncpg.connect(both.primary_url)
        await connection.execute("SET search_path = adkpg, public")
        await furnish(theirs, connection, ADA, Person("bob"))
        await connection.close()
        here = Services.on(standby, theirs.live)
        changed: set[str] = set()
        refused: dict[str, str] = {}
        for name, call in made.items():
            await both.caught_up()
            try:
                await call(here)
            except ReadOnly as exc:
                refused[name] = str(exc)
            before = await rows(both)
            with suppress(AdkpgError):  # some are about what is not there any more
                await call(theirs)
            if await rows(both) != before:
                changed.add(name)
        assert changed - set(refused) == set()
        assert [name for name, text in refused.items() if SENTENCE not in text] == []
        assert len(changed) > 20


OF_ADA = ("--app", APP, "--user", ADA.user_id)
WRITES: dict[str, tuple[str, ...]] = {
    "db tidy": (),
    "db downgrade": ("base", "--yes"),
    "sessions delete": (ADA.session_id, *OF_ADA, "--yes"),
    "sessions prune": ("--all-apps", "--all-users", "--older-than", "1s", "--yes"),
    "memory delete": (ADA.memory_id, *OF_ADA, "--yes"),
    "memory add": ("{file}", *OF_ADA),
    "memory config": ("german", "--app", APP),
    "memory prune": ("--all-apps", "--all-users", "--older-than", "1s", "--yes"),
    "facts enable": ("--app", APP),
    "facts disable": ("--app", APP),
    "models add": ("another", "--dimensions", "8"),
    "models activate": ("toy", "--app", APP, "--force"),
    "models drop": ("toy", "--yes"),
    "forget": (*OF_ADA, "--yes"),
    "import": ("{export}",),
}
READS: dict[str, tuple[str, ...]] = {
    "db upgrade": (),  # there is nothing to do
    "db current": (),
    "db check": (),
    "sessions list": ("--app", APP),
    "sessions show": (ADA.session_id, *OF_ADA),
    "memory search": ("secret", *OF_ADA),
    "memory list": OF_ADA,
    "memory jobs": (),
    "models list": (),
    "apps": ("--user", ADA.user_id),
    "audit": (),
    "stats": (),
    "export": ("--app", APP, "--output", "{folder}/again.jsonl"),
}
SPARED = {
    **dict.fromkeys(("db upgrade-server", "db sql", "db url", "db grants"), "change no tables"),
    **dict.fromkeys(("web", "api-server", "run", "console", "worker", "demo"), "serve"),
    **dict.fromkeys(("reembed", "memory index", "memory evaluate"), "need a model; see the calls"),
    **dict.fromkeys(("backup", "restore"), "are pg_dump and pg_restore"),
    "db distribute": "needs Citus",
    "doctor": "says that it is a standby; see its tests",
}


def commands(command: click.Command, *path: str) -> Iterator[str]:
    """Every command, by its words."""
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from commands(child, *path, name)
    else:
        yield " ".join(path)


def test_every_command_reads_or_says_that_it_takes_no_writes(
    pair: Pair,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert {*WRITES, *READS, *SPARED} == set(commands(main))
    name = "commands"

    async def prepare() -> None:
        await pair.primary.execute(f"CREATE DATABASE {name}")
        async with Database(pair.primary.url_of(name)) as primary:
            await primary.upgrade()
            connection = await asyncpg.connect(pair.primary.url_of(name))
            await connection.execute("SET search_path = adkpg, public")
            await furnish(Services.on(primary), connection, ADA)
            await connection.close()
        await pair.standby.caught_up(pair.primary)

    asyncio.run(prepare())
    (tmp_path / "notes.md").write_text("A kitten.")
    places = {
        "{file}": str(tmp_path / "notes.md"),
        "{export}": str(tmp_path / "all.jsonl"),
        "{folder}/again.jsonl": str(tmp_path / "again.jsonl"),
    }

    def run(command: str, *arguments: str) -> tuple[int | str | None, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*command.split(), *(places.get(each, each) for each in arguments)])
        said = capsys.readouterr()
        return ended.value.code, said.err or said.out

    monkeypatch.setenv("ADKPG_DATABASE_URL", pair.primary.url_of(name))
    assert run("export", "--app", APP, "--output", "{export}")[0] == 0
    monkeypatch.setenv("ADKPG_DATABASE_URL", pair.standby.url_of(name))
    wrong = {}
    for command, arguments in (READS | WRITES).items():
        code, said = run(command, *arguments)
        refused = SENTENCE in said and "Traceback" not in said
        if (code, refused) != ((0, False) if command in READS else (1, True)):
            wrong[command] = (code, said)
    assert wrong == {}
