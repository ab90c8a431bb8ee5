"""One process: start, stop, settings, and what a client finds."""

import os
import stat
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import create_async_engine

from adkpg import Database, Settings
from adkpg.embedded import EmbeddedServer
from adkpg.embedded.postmaster import Postmaster, process_runs
from adkpg.errors import ConfigurationError, EmbeddedServerError
from tests.fakes.processes import FAST, Query, Serve, ordinary_user


@pytest.fixture
def place(used: Path) -> Path:
    return used


async def test_data_survive_a_restart(place: Path, serve: Serve, query: Query) -> None:
    server = serve()
    assert server.start() is server
    await query(server.url, "CREATE TABLE kept AS SELECT 'still here' AS word")
    running = Postmaster.of(place / "pgdata")
    assert running is not None
    server.stop()
    assert not process_runs(running.pid)
    assert Postmaster.of(place / "pgdata") is None
    server.start()
    assert await query(server.url, "SELECT word FROM kept") == "still here"


async def test_start_and_stop_are_idempotent(place: Path, serve: Serve, query: Query) -> None:
    server = serve()
    server.start()
    first = Postmaster.of(place / "pgdata")
    url = server.url
    server.start()
    assert Postmaster.of(place / "pgdata") == first
    assert server.url == url
    server.stop()
    server.stop()
    assert Postmaster.of(place / "pgdata") is None


async def test_an_empty_database_with_vectors_is_ready(serve: Serve, query: Query) -> None:
    with serve() as server:
        assert server.url.startswith("postgresql://postgres@/adkpg?host=/")
        assert await query(server.url, "SELECT current_database()") == "adkpg"
        await query(server.url, "CREATE EXTENSION vector")
        distance = await query(server.url, "SELECT '[1,2]'::vector <-> '[4,6]'::vector")
        assert distance == 5.0


async def test_text_is_utf8_and_parsed_by_unicode_rules(serve: Serve, query: Query) -> None:
    with serve() as server:
        found = await query(
            server.url,
            "SELECT string_agg(lexeme, ' ' ORDER BY lexeme COLLATE \"C\") "
            "FROM unnest(to_tsvector('simple', '“Quoted” hello—world ÄRGER'))",
        )
        assert found == "hello quoted world ärger"
        assert await query(server.url, "SHOW server_encoding") == "UTF8"
        provider = "SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname='adkpg'"
        assert await query(server.url, provider) == "bC.UTF-8"


async def test_it_listens_on_a_private_socket_only(place: Path, serve: Serve, query: Query) -> None:
    with serve() as server:
        assert await query(server.url, "SHOW listen_addresses") == ""
        assert stat.S_IMODE((place / "run").stat().st_mode) == 0o700
        assert stat.S_IMODE((place / "pgdata").stat().st_mode) == 0o700
        assert (place / "run").stat().st_uid == (place / "pgdata").stat().st_uid


async def test_durable_settings_are_the_default(serve: Serve, query: Query) -> None:
    with serve(settings=None) as server:
        assert await query(server.url, "SHOW fsync") == "on"
        assert await query(server.url, "SHOW full_page_writes") == "on"
        assert await query(server.url, "SHOW synchronous_commit") == "on"


async def test_settings_apply_at_each_start(serve: Serve, query: Query) -> None:
    odd = "back\\slash 'quoted'"
    with serve(settings={**FAST, "work_mem": "7MB", "cluster_name": odd}) as server:
        assert await query(server.url, "SHOW work_mem") == "7MB"
        assert await query(server.url, "SHOW cluster_name") == odd
        joined = serve(settings={**FAST, "work_mem": "9MB"}).start()
        assert await query(joined.url, "SHOW work_mem") == "7MB"
        joined.stop()
    with serve() as server:
        assert await query(server.url, "SHOW work_mem") == "4MB"


def test_a_start_that_fails_quotes_the_log(place: Path, serve: Serve) -> None:
    with pytest.raises(EmbeddedServerError, match="work_mem") as failure:
        serve(settings={**FAST, "work_mem": "much"}).start()
    assert str(place / "server.log") in str(failure.value)
    serve().start()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"port": "5433"}, "'port' is chosen by the embedded server"),
        ({"Listen_Addresses": "*"}, "chosen by the embedded server"),
        ({"work_mem = 1 #": "1"}, "not the name of a Postgres setting"),
        ({"work_mem": "1\0"}, "NUL"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        EmbeddedServer(settings=settings)


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf")])
def test_a_timeout_that_cannot_work_is_refused(timeout_s: float) -> None:
    with pytest.raises(ConfigurationError, match="timeout_s"):
        EmbeddedServer(timeout_s=timeout_s)


def test_the_url_needs_a_start(serve: Serve) -> None:
    server = serve()
    with pytest.raises(EmbeddedServerError, match=r"call start\(\) first"):
        _ = server.url
    server.start()
    server.stop()
    with pytest.raises(EmbeddedServerError, match=r"call start\(\) first"):
        _ = server.url


def test_data_of_another_major_version_are_refused(place: Path, serve: Serve) -> None:
    with serve():
        pass
    version = place / "pgdata" / "PG_VERSION"
    version.write_text("17\n")
    with pytest.raises(
        EmbeddedServerError, match=r"made by PostgreSQL 17.*adkpg db upgrade-server"
    ):
        serve().start()
    version.write_text("18\n")
    serve().start()


def test_a_directory_without_data_is_refused(fresh: Path, serve: Serve) -> None:
    (fresh / "pgdata").mkdir(mode=0o700)
    os.chown(fresh, *ordinary_user())
    os.chown(fresh / "pgdata", *ordinary_user())
    with pytest.raises(EmbeddedServerError, match="holds no Postgres data"):
        serve(fresh).start()


async def test_the_callers_environment_does_not_leak_in(
    place: Path, serve: Serve, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "PGPORT": "1",
        "PGDATA": "/nonexistent",
        "PGUSER": "nobody",
        "PGDATABASE": "none",
        "PGOPTIONS": "-c work_mem=99MB",
        "LC_ALL": "tr_TR.UTF-8",
        "TMPDIR": "/nonexistent",
    }.items():
        monkeypatch.setenv(name, value)
    server = serve().start()
    monkeypatch.setenv("PGHOST", "nowhere.invalid")  # neither does a client's, who has the URL
    assert await query(server.url, "SHOW work_mem") == "4MB"
    running = Postmaster.of(place / "pgdata")
    assert running is not None
    assert os.getsid(running.pid) != os.getsid(0)  # Ctrl-C in our terminal does not reach it


async def test_what_the_environment_asks_of_other_servers_is_not_asked_of_this_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "read-only")
    async with Database("embedded", settings=Settings(embedded_dir=place)) as database:
        assert await database.current() is None


async def test_the_url_is_read_by_sqlalchemy_too(serve: Serve) -> None:
    """ADK's own service takes it, for one."""
    engine = create_async_engine(
        serve().start().url.replace("postgresql://", "postgresql+asyncpg://", 1)
    )
    async with engine.connect() as connection:
        assert await connection.scalar(select(1)) == 1
    await engine.dispose()


def test_a_large_log_is_set_aside(place: Path, serve: Serve) -> None:
    with serve():
        pass
    os.truncate(place / "server.log", 10_000_001)
    with serve():
        pass
    assert (place / "server.log.1").stat().st_size == 10_000_001
    assert (place / "server.log").stat().st_size < 100_000
