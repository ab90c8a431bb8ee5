"""``/livez`` and ``/readyz``: before an app, and of a worker."""

import os
import re
import signal
import subprocess
import sys

import asyncpg
import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from adkpg import Database, DatabaseSessionService
from adkpg.adk import Probes
from tests.fakes.conversation import USER
from tests.fakes.proxy import Proxy


def client_of(*databases: Database, timeout_s: float = 60) -> httpx.AsyncClient:
    async def other(_: object) -> PlainTextResponse:
        return PlainTextResponse("the app's")

    app = Starlette(routes=[Route("/{path:path}", other, methods=["GET", "POST"])])
    probes = Probes(app, databases=databases, timeout_s=timeout_s)
    return httpx.AsyncClient(transport=httpx.ASGITransport(probes), base_url="http://app")


async def test_a_database_with_its_tables_is_ready(database: Database) -> None:
    async with client_of(database) as client:
        for path in ("/livez", "/readyz"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
            assert (await client.head(path)).status_code == 200
        assert (await client.get("/readyz/more")).text == "the app's"
        assert (await client.post("/readyz")).text == "the app's"


async def test_a_database_without_tables_is_not_ready_until_they_come(
    empty_database_url: str,
) -> None:
    async with Database(empty_database_url) as database, client_of(database) as client:
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == {"status": "unavailable", "error": "SchemaError"}
        assert (await client.get("/livez")).status_code == 200
        await database.upgrade()
        assert (await client.get("/readyz")).status_code == 200


async def test_a_database_that_migrates_itself_is_ready_before_its_first_use(
    empty_database_url: str,
) -> None:
    """Else what sends requests would wait for a request that makes the tables."""
    async with (
        Database(empty_database_url, auto_upgrade=True) as database,
        client_of(database) as client,
    ):
        assert (await client.get("/readyz")).status_code == 200
        assert await database.current() is None, "a probe changes nothing"
        await DatabaseSessionService(database).create_session(**USER)
        assert (await client.get("/readyz")).status_code == 200


async def test_tables_that_nothing_migrates_are_not_ready(
    database_url: str, connection: asyncpg.Connection
) -> None:
    await connection.execute("UPDATE adkpg_version SET version_num = '9999'")
    async with Database(database_url, auto_upgrade=True) as database, client_of(database) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["error"]) == (503, "SchemaError")


@pytest.mark.usefixtures("impatient")
async def test_of_several_databases_each_must_answer(database: Database) -> None:
    away = Database("postgresql://u:secret@127.0.0.1:1/nothing")
    async with away, client_of(database, away) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "unavailable", "error": "DatabaseUnavailable"}


@pytest.mark.usefixtures("impatient")
async def test_the_reason_is_in_the_log_once_for_each_change(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    """And in no answer: it names the server."""

    def said() -> list[str]:
        found = [each.message for each in caplog.records if each.name == "adkpg.adk.probes"]
        caplog.clear()
        return found

    async with Database(proxy.url) as database, client_of(database) as client:
        assert (await client.get("/readyz")).status_code == 200
        assert said() == []
        await proxy.leave()
        for _ in range(2):
            assert (await client.get("/readyz")).status_code == 503
        (why,) = said()
        assert why.startswith("Not ready: ")
        assert "127.0.0.1" in why
        await proxy.come_back()
        for _ in range(2):
            assert (await client.get("/readyz")).status_code == 200
        assert said() == ["Ready again."]


async def test_a_database_that_does_not_answer_is_not_waited_for(
    database: Database, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    async with connection.transaction():
        await connection.execute("LOCK TABLE adkpg_version IN ACCESS EXCLUSIVE MODE")
        async with client_of(database, timeout_s=0.2) as client:
            answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["error"] == "DatabaseUnavailable"
    assert "The database does not answer within 0.2 s" in caplog.text


@pytest.mark.program
def test_a_worker_answers_both_and_ends_by_its_signal(database_url: str) -> None:
    command = [sys.executable, "-m", "adkpg", "worker", "--health-port", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"ADKPG_DATABASE_URL": database_url},
    ) as process:
        assert process.stderr is not None
        said = re.fullmatch(r"Probes: (http://127.0.0.1:\d+)/readyz\n", process.stderr.readline())
        assert said is not None
        for path in ("/livez", "/readyz"):
            assert httpx.get(said[1] + path, timeout=60).json() == {"status": "ok"}
        assert httpx.get(said[1] + "/other", timeout=60).status_code == 404
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=250)
    assert (process.returncode, out) == (0, "Embedded 0 memories.\n")
    assert err.count("\n") == 1, "the line at the start"


@pytest.mark.program
def test_a_port_that_is_taken_is_a_sentence(database_url: str) -> None:
    command = [sys.executable, "-m", "adkpg", "worker", "--once", "--health-host", "192.0.2.1"]
    done = subprocess.run(
        [*command, "--health-port", "80"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"ADKPG_DATABASE_URL": database_url},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: Nothing can listen at 192.0.2.1 port 80 (")
    assert len(done.stderr.splitlines()) == 1
