"""The examples that uvicorn serves, as processes that a deployment starts, asks and ends."""

import signal

import asyncpg
import pytest

from adkpg.tooling.testing.server import Server
from tests.fakes.adk_commands import Served, environment
from tests.fakes.checkout import CHECKOUT

pytestmark = pytest.mark.program

EXAMPLES = CHECKOUT / "examples"
WAITING = "SELECT count(*) FROM adkpg.memory_jobs"


async def until(connection: asyncpg.Connection, sql: str, expected: object) -> None:
    """Waits until the database says so; the test's own timeout ends it."""
    while await connection.fetchval(sql) != expected:
        pass


def until_ready(server: Served, code: int) -> str:
    """Waits until the server says so, and returns why; the test's own timeout ends it."""
    while (answer := server.client.get("/ready")).status_code != code:
        pass
    detail: str = answer.json()["detail"]
    return detail


def assert_ended_well(server: Served) -> None:
    assert server.returncode == -signal.SIGTERM, "uvicorn ends by the signal that it was sent"
    assert "Application shutdown complete." in server.log
    assert "Traceback" not in server.log
    assert "ResourceWarning" not in server.log


async def test_the_app_answers_remembers_and_embeds_and_ends_with_its_worker(
    database_url: str, connection: asyncpg.Connection
) -> None:
    env = environment(ADKPG_DATABASE_URL=database_url)
    with Served(EXAMPLES, "web:app", env=env) as server:
        assert until_ready(server, 200) == "ready"
        session = server.client.post("/sessions/ana").json()["session_id"]
        for _ in range(2):
            answer = server.client.post(
                f"/chat/ana/{session}",
                json={"text": "My bike is in the shed."},
                headers={"Idempotency-Key": "one"},
            )
            assert (answer.status_code, answer.json()) == (200, {"answer": "Turn 1."})
        assert server.client.post("/chat/ana/none", json={"text": "Hello"}).status_code == 404
        await until(connection, "SELECT count(*) FROM adkpg.memory_vectors", 2)
    assert_ended_well(server)
    assert await connection.fetchval("SELECT count(*) FROM adkpg.events") == 2


async def test_the_worker_says_whether_it_can_work(
    database_url: str, connection: asyncpg.Connection, server: Server
) -> None:
    app = Served(EXAMPLES, "web:app", env=environment(ADKPG_DATABASE_URL=database_url))
    name = await connection.fetchval("SELECT current_database()")
    work = environment(ADKPG_DATABASE_URL=database_url, ADKPG_RETRY_TIMEOUT_S="0")
    with Served(EXAMPLES, "worker:app", env=work) as worker:
        assert until_ready(worker, 200) == "ready"
        await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert until_ready(worker, 503)
        await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert until_ready(worker, 200) == "ready"
        with app:
            session = app.client.post("/sessions/ana").json()["session_id"]
            question = {"text": "My bike is in the shed."}
            assert app.client.post(f"/chat/ana/{session}", json=question).status_code == 200
        await until(connection, WAITING, 0)
    assert_ended_well(worker)
    assert "memories were given their vectors" in worker.log


@pytest.mark.parametrize("url", ["", "postgresql://ana:hidden@127.0.0.1:1/none"])
def test_without_a_database_it_is_not_ready_and_says_why(url: str, empty_database_url: str) -> None:
    env = environment(ADKPG_DATABASE_URL=url or empty_database_url, ADKPG_RETRY_TIMEOUT_S="0")
    with Served(EXAMPLES, "worker:app", env=env) as worker:
        detail = until_ready(worker, 503)
        assert "adkpg db upgrade" in detail if not url else "127.0.0.1:1" in detail
    assert "hidden" not in worker.log
