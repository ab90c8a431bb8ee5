"""``adkpg worker`` as a command and as a process that is told to end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import asyncpg
import pytest

from adkpg import PgVectorMemoryService
from tests.fakes.commands import Adkpg
from tests.fakes.conversation import USER, entry
from tests.fakes.embedding_server import EmbeddingServer, Reply
from tests.fakes.signals import interrupts_heard

WORKER = [sys.executable, "-m", "adkpg", "worker", "--poll-interval", "0.05s"]


@pytest.fixture
def waiting(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database, named by the environment, with three memories that wait for their vectors."""
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    remember(database_url, "I moved to Lisbon.", "My dog is called Rex.", "I like tea.")
    return database_url


def remember(url: str, *texts: str) -> None:
    async def fill() -> None:
        async with PgVectorMemoryService(url, mode="text") as memory:
            await memory.add_memory(**USER, memories=[entry(text) for text in texts])

    asyncio.run(fill())


def value(url: str, sql: str) -> object:
    async def ask() -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(ask())


def until(url: str, sql: str, expected: object) -> None:
    """Waits until the database says so; the test's own timeout ends it."""
    while value(url, sql) != expected:
        pass


WAITING = "SELECT count(*) FROM adkpg.memory_jobs WHERE NOT dead"


@pytest.fixture
def worker(waiting: str) -> Iterator[subprocess.Popen[str]]:
    with interrupts_heard():
        process = subprocess.Popen(
            WORKER,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"ADKPG_DATABASE_URL": waiting},
        )
    yield process
    process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def test_once_does_what_is_due_and_ends(adkpg: Adkpg, waiting: str) -> None:
    outcome = adkpg("worker", "--once")
    assert (outcome.code, outcome.out) == (0, "Embedded 3 memories.\n")
    assert "Remembering is off" in outcome.err
    assert value(waiting, WAITING) == 0
    assert value(waiting, "SELECT count(*) FROM adkpg.memory_vectors") == 3
    assert json.loads(adkpg("worker", "--once", "--json").out) == {"done": 0, "revived": None}


def test_what_was_given_up_is_revived_if_asked_for(adkpg: Adkpg, waiting: str) -> None:
    value(waiting, "UPDATE adkpg.memory_jobs SET dead = true, attempts = 10, error = 'x'")
    assert adkpg("worker", "--once").out == "Embedded 0 memories.\n"
    outcome = adkpg("worker", "--once", "--revive")
    assert (outcome.code, outcome.out) == (0, "Revived: 3.\nEmbedded 3 memories.\n")
    assert value(waiting, "SELECT count(*) FROM adkpg.memory_jobs") == 0


@pytest.mark.usefixtures("waiting")
def test_a_worker_without_an_embedder_is_a_sentence(
    adkpg: Adkpg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")
    outcome = adkpg("worker", "--once")
    assert (outcome.code, outcome.out) == (1, "")
    assert "embedder" in outcome.err


@pytest.mark.parametrize("option", [("--concurrency", "0"), ("--poll-interval", "0")])
def test_options_out_of_range_are_refused(adkpg: Adkpg, option: tuple[str, str]) -> None:
    outcome = adkpg("worker", *option)
    assert outcome.code == 2
    assert option[0] in outcome.err


@pytest.mark.program
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(
    worker: subprocess.Popen[str], waiting: str, number: signal.Signals
) -> None:
    until(waiting, WAITING, 0)
    remember(waiting, "It goes on.")
    until(waiting, WAITING, 0)
    worker.send_signal(number)
    out, err = worker.communicate(timeout=250)
    assert (worker.returncode, out) == (0, "Embedded 4 memories.\n")
    assert "INFO adkpg.database.installation: adkpg " in err, "the line at the start"
    assert ", remembering off, " in err
    assert err.count("\n") == 1


@pytest.fixture
def silent() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer(lambda _: Reply(silent=True))
    yield server
    server.close()


@pytest.mark.program
@pytest.mark.parametrize("options", [(), ("--once",)])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_though_its_embedder_hangs(
    waiting: str, silent: EmbeddingServer, number: signal.Signals, options: tuple[str, ...]
) -> None:
    environment = {"ADKPG_EMBEDDER": "openai", "OPENAI_BASE_URL": f"{silent.url}/v1"}
    with interrupts_heard():
        process = subprocess.Popen(
            [*WORKER, *options],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
    with process:
        while not silent.requests:
            assert process.poll() is None
        process.send_signal(number)
        out, _ = process.communicate(timeout=250)
    assert (process.returncode, out) == (0, "Embedded 0 memories.\n")
    assert value(waiting, f"{WAITING} AND lease_expires_at IS NULL") == 3
