"""``adkpg web``, ``adkpg api-server`` and ``adkpg run`` as programs, on Postgres."""

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import asyncpg
import pytest

from tests.fakes import adk_commands as commands
from tests.fakes.adk_commands import Account, AdkpgServer

pytestmark = pytest.mark.program

USER = "/apps/assistant/users/ada"


def adkpg(
    *arguments: str, env: Mapping[str, str], said: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    return subprocess.run(
        [*commands.ADKPG, *arguments],
        env=env,
        input=said,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


@pytest.mark.parametrize("command", ["api-server", "web"])
async def test_a_server_keeps_all_three_in_the_database_of_the_environment(
    agents: Path, account: Account, connection: asyncpg.Connection, command: str
) -> None:
    commands.write_agents(agents)  # and no services.py
    url = account.uri.replace("adkpg://", "postgresql://")
    env = commands.environment(ADKPG_DATABASE_URL=url)
    with AdkpgServer(agents, env=env, command=command) as server:
        client = server.client
        assert client.post(f"{USER}/sessions", json={"sessionId": "one"}).status_code == 200
        turn = {
            "appName": "assistant",
            "userId": "ada",
            "sessionId": "one",
            "newMessage": {"role": "user", "parts": [{"text": "I love quinces"}]},
        }
        assert client.post("/run", json=turn).status_code == 200
        assert client.patch(f"{USER}/memory", json={"session_id": "one"}).status_code == 200
        file = {"filename": "a.txt", "artifact": {"text": "a list"}}
        saved = client.post(f"{USER}/sessions/one/artifacts", json=file)
        assert saved.status_code == 200, saved.text
        for path in ("/livez", "/readyz"):
            assert client.get(path).json() == {"status": "ok"}
        await connection.execute("UPDATE adkpg_version SET version_num = '9999'")
        assert client.get("/readyz").status_code == 503
        assert client.get("/livez").status_code == 200
    place = "app_name = 'assistant' AND user_id = 'ada'"
    for table, rows in (("sessions", 1), ("events", 2), ("memories", 2), ("artifacts", 1)):
        assert await connection.fetchval(f"SELECT count(*) FROM {table} WHERE {place}") == rows
    assert server.returncode == 0
    assert server.log.count("Remembering is off") == 1
    assert account.password not in server.log
    assert "Traceback" not in server.log
    assert "ResourceWarning" not in server.log
    assert not (agents / "assistant" / ".adk").exists()


async def test_run_answers_and_stores_and_takes_options_of_adk(
    agents: Path, account: Account, connection: asyncpg.Connection
) -> None:
    agent = str(commands.write_agents(agents))
    env = commands.environment(ADKPG_DATABASE_URL=account.uri, TMPDIR=str(agents))
    state = '{"topic": "fruit"}'
    done = adkpg("run", "--state", state, agent, "--", "--help", env=env)
    assert done.returncode == 0, done.stderr
    assert "Turn 1: --help" in done.stdout
    typed = adkpg("run", agent, env=env, said="Good morning\nexit\n")
    assert "[assistant]: Turn 1: Good morning" in typed.stdout, typed.stderr
    assert typed.stderr.count("Remembering is off") == 1
    assert await connection.fetchval("SELECT count(*) FROM sessions") == 2
    assert await connection.fetchval("SELECT count(*) FROM events") == 4
    assert account.password not in done.stdout + done.stderr + typed.stdout + typed.stderr


async def test_a_service_that_the_caller_names_is_used(
    agents: Path, account: Account, connection: asyncpg.Connection
) -> None:
    agent = str(commands.write_agents(agents))
    env = commands.environment(ADKPG_DATABASE_URL=account.uri, TMPDIR=str(agents))
    done = adkpg("run", "--session_service_uri", "memory://", agent, "Hello", env=env)
    assert done.returncode == 0, done.stderr
    assert "Turn 1: Hello" in done.stdout
    assert await connection.fetchval("SELECT count(*) FROM sessions") == 0


def test_run_without_a_database_is_one_sentence(agents: Path) -> None:
    agent = commands.write_agents(agents)
    env = commands.environment(TMPDIR=str(agents))
    env.pop("ADKPG_DATABASE_URL", None)
    done = adkpg("run", str(agent), "Hello", env=env)
    assert done.returncode == 1
    assert "Error: No database is named; set ADKPG_DATABASE_URL" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_refuses_a_uri_in_adks_words(agents: Path, database_url: str) -> None:
    agent = commands.write_agents(agents)
    env = commands.environment(ADKPG_DATABASE_URL=database_url, TMPDIR=str(agents))
    done = adkpg("run", "--session_service_uri", "mysql://u:hunter2@h/d", str(agent), "Hi", env=env)
    assert done.returncode == 1
    assert "Database related module not found" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


def test_run_says_what_it_waits_for_before_it_gives_up(agents: Path) -> None:
    agent = commands.write_agents(agents)
    with socket.socket() as bound:  # and listens not: whoever connects is refused
        bound.bind(("127.0.0.1", 0))
        url = f"postgresql://ana:s3cret@127.0.0.1:{bound.getsockname()[1]}/nowhere"
        env = commands.environment(ADKPG_DATABASE_URL=url, TMPDIR=str(agents))
        with subprocess.Popen(
            [*commands.ADKPG, "run", str(agent), "Hello"],
            env=env | {"ADKPG_RETRY_TIMEOUT_S": "100"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            said = next((line for line in process.stderr if "is repeated" in line), "nothing")
            assert process.poll() is None
            process.kill()
    assert said.startswith("A call is repeated for up to 100 s: postgresql://ana:***@127.0.0.1:")
    assert "cannot be reached" in said
