"""``adkpg backup`` and ``adkpg restore``: what comes back is what was there."""

import asyncio
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.database.migrating import migrations
from adkpg.database.row_security import quoted
from adkpg.embedded.binaries import Binaries
from adkpg.tooling.testing.server import Server
from tests.fakes.catalog import execute, fetch
from tests.fakes.commands import Adkpg
from tests.fakes.conversation import entry
from tests.fakes.databases import database_with
from tests.fakes.toys import ToyEmbedder

pytestmark = pytest.mark.program

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
HOSTILE = "kitten NUL \x00 and a lone surrogate \ud800, a \\. line:\n\\.\nCOPY a.b (c) FROM stdin;"


def said(text: str, **state: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", content=content, actions=EventActions(state_delta=state))


async def live(url: str) -> None:
    """Sessions, events, states, memories, vectors, marks, and work that waits."""
    async with Database(url, remember=True) as database:
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        session = await sessions.create_session(**ANA, session_id="s", state={"app:a": HOSTILE})
        for text in (HOSTILE, "oolong please", "an automobile"):
            await sessions.append_event(session, said(text, **{"user:last": text}))
        await memory.flush()
        await memory.add_memory(**ANA, memories=[entry("a puppy barks")])
        page = await memory.list_memories(**ANA)
        await memory.delete_memory(**ANA, memory_id=page.items[1].id)
        await sessions.append_event(session, said("what waits"))


async def seen(url: str) -> dict[str, Any]:
    """What a user of the services sees, and how many rows there are."""
    async with Database(url) as database:
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        session = await sessions.get_session(**ANA, session_id="s")
        assert session is not None
        hits = [
            await memory.search(**ANA, query=query, mode=mode)
            for query in ("feline", "oolong", "hound")
            for mode in ("hybrid", "text", "vector")
        ]
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "SELECT 'adkpg.' || c.relname AS name FROM pg_class c WHERE relkind = 'r'"
            " AND relnamespace = 'adkpg'::regnamespace ORDER BY 1"
        )
        rows = {
            table["name"]: sorted(
                await connection.fetch(f"SELECT * FROM {table['name']}"), key=repr
            )
            for table in tables
        }
    finally:
        await connection.close()
    return {"session": session.model_dump(), "hits": hits, "rows": rows}


@pytest.fixture
def lived(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with everything, named by the environment."""
    asyncio.run(live(database_url))
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    return database_url


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "adkpg.dump"


@pytest.fixture
def empty(empty_database_url: str) -> str:
    return empty_database_url


@pytest.mark.direct("pg_dump needs a session")
def test_everything_comes_back_in_an_empty_database(
    adkpg: Adkpg, lived: str, empty: str, file: Path
) -> None:
    written = adkpg("backup", str(file))
    assert (written.code, written.err) == (0, "")
    assert f"of revision {migrations.expected()}" in written.out
    counts = [int(count) for count in re.findall(r"^\w+ +(\d+)$", written.out, re.MULTILINE)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] > 0, "empty tables are not listed"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    restored = adkpg("restore", str(file), "--database-url", empty, "--json")
    assert (restored.code, restored.err) == (0, "")
    answer = json.loads(restored.out)
    assert answer["rows"]["events"] == 4
    assert answer["drops"] == {}
    assert asyncio.run(seen(empty)) == asyncio.run(seen(lived))
    asyncio.run(live_on(empty))


async def live_on(url: str) -> None:
    """The restored tables are written to, and lose a memory with its words."""
    async with Database(url, remember=True) as database:
        sessions = DatabaseSessionService(database)
        memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
        session = await sessions.get_session(**ANA, session_id="s")
        assert session is not None
        await sessions.append_event(session, said("a hound"))
        await memory.flush()
        (hit, *_) = await memory.search(**ANA, query="hound")
        await memory.delete_memory(**ANA, memory_id=hit.memory.id)
        assert hit.memory.id not in [
            each.memory.id for each in await memory.search(**ANA, query="hound")
        ]


@pytest.mark.direct("pg_dump needs a session")
def test_tables_that_are_there_are_dropped_after_a_question_alone(
    adkpg: Adkpg, lived: str, server: Server, file: Path
) -> None:
    assert adkpg("backup", str(file)).code == 0
    before = asyncio.run(seen(lived))
    asyncio.run(live_on(lived))
    changed = asyncio.run(seen(lived))
    dry = json.loads(adkpg("restore", str(file), "--dry-run", "--json").out)
    assert (dry["drops"]["events"], dry["rows"]["events"]) == (5, 4)
    refused = adkpg("restore", str(file))
    assert refused.code == 1
    assert "add --yes" in refused.err
    assert adkpg("restore", str(file), answer="n").code == 1
    assert asyncio.run(seen(lived)) == changed
    assert adkpg("restore", str(file), "--yes").code == 0
    assert asyncio.run(seen(lived)) == before


@pytest.mark.fault
def test_after_an_error_nothing_has_changed(adkpg: Adkpg, lived: str, file: Path) -> None:
    assert adkpg("backup", str(file)).code == 0
    before = asyncio.run(seen(lived))

    async def forbid() -> None:
        """The last statement of a restore counts rows, of which a trigger hides some."""
        connection = await asyncpg.connect(lived)
        await connection.execute(
            "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'no index today'; END $$;"
            " CREATE EVENT TRIGGER refuse ON ddl_command_end WHEN TAG IN ('CREATE INDEX')"
            " EXECUTE FUNCTION refuse()"
        )
        await connection.close()

    asyncio.run(forbid())
    failed = adkpg("restore", str(file), "--yes")
    assert failed.code == 1
    assert "no index today" in failed.err
    assert failed.err.count("\n") == 1
    assert asyncio.run(seen(lived)) == before


@pytest.mark.usefixtures("lived")
def test_a_file_is_overwritten_after_a_question_alone(adkpg: Adkpg, file: Path) -> None:
    file.write_text("precious")
    refused = adkpg("backup", str(file))
    assert refused.code == 1
    assert "add --yes" in refused.err
    assert file.read_text() == "precious"
    assert adkpg("backup", str(file), answer="y").code == 0
    assert file.stat().st_size > 1_000
    assert adkpg("backup", str(file), "--yes").code == 0
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.direct("pg_dump needs a session")
def test_settings_of_a_database_change_no_backup(
    adkpg: Adkpg, lived: str, empty: str, file: Path
) -> None:
    for url in (lived, empty):
        name = urlsplit(url).path.strip("/")
        for setting in ("client_encoding = 'LATIN1'", "standard_conforming_strings = off"):
            asyncio.run(execute(url, f'ALTER DATABASE "{name}" SET {setting}'))
    written = adkpg("backup", str(file))
    assert (written.code, written.err) == (0, "")
    restored = adkpg("restore", str(file), "--database-url", empty)
    assert (restored.code, restored.err) == (0, "")
    assert asyncio.run(seen(empty)) == asyncio.run(seen(lived))


async def with_pgvector_in(url: str, schema: str | None) -> str:
    """Puts pgvector into a schema of an empty database, if one is named, which its path finds."""
    name = urlsplit(url).path.strip("/")
    path = ["public", *([quoted(schema)] if schema else [])]
    await execute(url, f'ALTER DATABASE "{name}" SET search_path = {", ".join(path)}')
    if schema:
        await execute(
            url,
            f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)};"
            f"CREATE EXTENSION vector SCHEMA {quoted(schema)}",
        )
    return url


@pytest.mark.direct("pg_dump needs a session")
def test_a_backup_is_restored_wherever_pgvector_is(
    adkpg: Adkpg, server: Server, file: Path
) -> None:
    async def made(place: str | None) -> str:
        return await with_pgvector_in(server.url_of(await server.create()), place)

    for source, places in (
        (None, ("extensions", "adkpg")),
        ("extensions", (None, "O'dd \"place")),
        ("adkpg", ("public", "adkpg")),
    ):
        url = asyncio.run(made(source))
        assert adkpg("db", "upgrade", "--database-url", url).code == 0
        asyncio.run(live(url))
        assert adkpg("backup", str(file), "--yes", "--database-url", url).code == 0
        before = asyncio.run(seen(url))
        for place in places:
            target = asyncio.run(made(place))
            for _ in range(2):  # the second time what is there is dropped before
                restored = adkpg("restore", str(file), "--yes", "--database-url", target)
                assert (restored.code, restored.err) == (0, "")
                assert asyncio.run(seen(target)) == before
            asyncio.run(live_on(target))
            asyncio.run(server.drop(urlsplit(target).path.strip("/")))
        asyncio.run(server.drop(urlsplit(url).path.strip("/")))


@pytest.mark.direct("pg_dump needs a session")
def test_what_others_have_in_the_schema_is_left_alone(
    adkpg: Adkpg, empty: str, database_url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_SCHEMA", "public")
    monkeypatch.setenv("ADKPG_DATABASE_URL", empty)
    theirs = 'public."their ""customers"'
    asyncio.run(execute(empty, f"CREATE TABLE {theirs} AS SELECT 1 AS a"))
    assert adkpg("db", "upgrade").code == 0
    assert adkpg("backup", str(file)).code == 0
    asyncio.run(
        execute(empty, f"INSERT INTO {theirs} VALUES (2); CREATE FUNCTION f() RETURNS int RETURN 1")
    )
    answer = json.loads(adkpg("restore", str(file), "--yes", "--json").out)
    assert 'their "customers' not in {**answer["drops"], **answer["rows"]}
    assert len(asyncio.run(fetch(empty, f"SELECT f() FROM {theirs}"))) == 2
    refused = adkpg("backup", str(file), "--yes")
    assert "remove these objects from the schema" in refused.err
    asyncio.run(
        execute(
            empty,
            "DROP FUNCTION f(); CREATE SCHEMA far; CREATE DOMAIN far.away AS int;"
            "ALTER TABLE public.audit ADD COLUMN x far.away",
        )
    )
    assert "remove these objects from the schema" in adkpg("backup", str(file), "--yes").err


def test_nothing_is_restored_where_not_every_text_can_be_kept(
    adkpg: Adkpg, lived: str, server: Server, file: Path
) -> None:
    assert adkpg("backup", str(file)).code == 0

    async def refused() -> None:
        options = "ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C'"
        async with database_with(server, options) as url:
            answer = await asyncio.to_thread(
                adkpg, "restore", str(file), "--yes", "--database-url", url
            )
            assert "encoding is SQL_ASCII" in answer.err
            there = "SELECT FROM pg_namespace WHERE nspname = 'adkpg'"
            assert await fetch(url, there) == []

    asyncio.run(refused())


def test_what_cannot_work_is_a_sentence(
    adkpg: Adkpg, lived: str, empty: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = adkpg("backup", str(file), "--database-url", empty)
    assert "nothing to back up" in nothing.err
    assert "no folder" in adkpg("backup", str(file.parent / "none" / "f")).err
    assert "no file" in adkpg("restore", str(file)).err
    file.write_text("no archive")
    assert "pg_restore failed" in adkpg("restore", str(file)).err
    assert adkpg("backup", str(file), "--yes").code == 0
    monkeypatch.setenv("ADKPG_DATABASE_SCHEMA", "elsewhere")
    assert "no backup of the schema elsewhere" in adkpg("restore", str(file)).err


def test_a_backup_of_an_unknown_revision_is_refused(
    adkpg: Adkpg, lived: str, empty: str, file: Path
) -> None:
    async def later() -> None:
        connection = await asyncpg.connect(lived)
        await connection.execute("UPDATE adkpg.adkpg_version SET version_num = '9999'")
        await connection.close()

    asyncio.run(later())
    assert adkpg("backup", str(file)).code == 0
    refused = adkpg("restore", str(file), "--database-url", empty)
    assert refused.code == 1
    assert "revision 9999" in refused.err


@pytest.fixture
def crowded(server: Server, lived: str) -> Iterator[str]:
    """The same database for a role that needs a password."""
    role = f"keeper_{server.run}"
    asyncio.run(server.execute(f"CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'hidden word'"))
    parts = urlsplit(lived)
    place = parts.netloc.rpartition("@")[2]
    yield urlunsplit(parts._replace(netloc=f"{role}:hidden%20word@{place}"))
    asyncio.run(server.drop(parts.path.strip("/")))  # and what the role owns there
    asyncio.run(server.execute(f"DROP ROLE {role}"))


@pytest.mark.direct("pg_dump needs a session")
def test_no_program_is_given_the_password_as_an_argument(
    adkpg: Adkpg, crowded: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run under a shell that notes how they were called."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("pg_dump", "pg_restore", "psql"):
        program = programs / name
        program.write_text(
            f'#!/bin/sh\necho "$0 $@ $PGPASSWORD" >> {tmp_path}/{name}.calls\n'
            f'exec {Binaries.find().program(name)} "$@"\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert adkpg("backup", str(file), "--database-url", crowded).code == 0
    assert adkpg("restore", str(file), "--yes", "--database-url", crowded).code == 0
    for name in ("pg_dump", "psql"):
        (call,) = [
            line
            for line in (tmp_path / f"{name}.calls").read_text().splitlines()
            if "--version" not in line
        ]
        assert call.endswith(" hidden word")
        assert call.count("hidden") == 1
