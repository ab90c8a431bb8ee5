"""``adkpg web``, ``adkpg api-server`` and ``adkpg run``: ADK's own commands, on Postgres."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import asyncpg
import httpx
import pytest
from google.adk.cli import main as adk

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
    place = "app_name = 'assistant' AND user_id = 'ada'"
    for table, rows in (("sessions", 1), ("events", 2), ("memories", 2), ("artifacts", 1)):
        assert await connection.fetchval(f"SELECT count(*) FROM {table} WHERE {place}") == rows
    assert account.password not in server.log
    assert "Traceback" not in server.log
    assert "ResourceWarning" not in server.log
    assert not (agents / "assistant" / ".adk").exists()


@pytest.mark.parametrize("command", ["api-server", "web"])
async def test_messages_of_one_session_at_the_same_time_are_all_answered(
    agents: Path, account: Account, connection: asyncpg.Connection, command: str
) -> None:
    commands.write_agents(agents)
    env = commands.environment(ADKPG_DATABASE_URL=account.uri)
    with AdkpgServer(agents, env=env, command=command) as server:
        server.client.post(f"{USER}/sessions", json={"sessionId": "one"})
        async with httpx.AsyncClient(base_url=server.client.base_url, timeout=60) as client:
            answers = await asyncio.gather(
                *(client.post(path, json=_said(f"{path} {n}")) for n in range(3) for path in _RUNS)
            )
        ready = server.client.get("/readyz")
    assert [answer.status_code for answer in answers] == [200] * 6
    assert not any("error" in answer.text.lower() for answer in answers)
    assert ready.status_code == 200
    authors = await connection.fetch("SELECT payload ->> 'author' AS who FROM events ORDER BY seq")
    assert [row["who"] for row in authors] == ["user", "assistant"] * 6
    assert "Traceback" not in server.log


_RUNS = ("/run", "/run_sse")


def _said(text: str) -> dict[str, object]:
    message = {"role": "user", "parts": [{"text": text}]}
    return {"appName": "assistant", "userId": "ada", "sessionId": "one", "newMessage": message}


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
    assert await connection.fetchval("SELECT count(*) FROM sessions") == 2
    assert await connection.fetchval("SELECT count(*) FROM events") == 4
    assert account.password not in done.stdout + done.stderr + typed.stdout + typed.stderr


@pytest.mark.parametrize(
    "other",
    [("--use_local_storage",), ("--session_service_uri", "memory://"), ("--no_use_local_storage",)],
)
async def test_services_that_the_caller_names_are_used(
    agents: Path, account: Account, connection: asyncpg.Connection, other: tuple[str, ...]
) -> None:
    agent = str(commands.write_agents(agents))
    env = commands.environment(ADKPG_DATABASE_URL=account.uri, TMPDIR=str(agents))
    done = adkpg("run", *other, agent, "Hello", env=env)
    assert done.returncode == 0, done.stderr
    assert "Turn 1: Hello" in done.stdout
    assert await connection.fetchval("SELECT count(*) FROM sessions") == 0


@pytest.mark.parametrize(("command", "its"), [("web", "web"), ("api-server", "api_server")])
def test_help_and_wrong_usage_are_those_of_adk(command: str, its: str) -> None:
    env = commands.environment(COLUMNS="100")
    shown = adkpg(command, "--help", env=env)
    assert shown.returncode == 0
    assert f"Usage: adkpg {command} [OPTIONS]" in shown.stdout
    for parameter in adk.commands[its].params:
        assert all(option in shown.stdout for option in parameter.opts if option.startswith("--"))
    wrong = adkpg(command, "--no-such-option", env=env)
    assert wrong.returncode == 2
    assert "No such option" in wrong.stderr
    assert "Traceback" not in wrong.stderr


@pytest.mark.parametrize("command", ["run", "web", "api-server"])
def test_no_database_is_one_sentence(agents: Path, command: str) -> None:
    agent = commands.write_agents(agents)
    if command != "run":  # which reads it in time
        (agent / ".env").write_text("ADKPG_DATABASE_URL=embedded\n")
    env = commands.environment(TMPDIR=str(agents))
    env.pop("ADKPG_DATABASE_URL", None)
    given = (str(agent), "Hello") if command == "run" else ("--port", "0", str(agents))
    done = adkpg(command, *given, env=env)
    assert done.returncode == 1
    assert "Error: No database is named; set ADKPG_DATABASE_URL" in done.stderr
    assert "Correct the URI" not in done.stderr  # nobody gave one
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "uri", "words"),
    [
        ("api-server", "oracle://u:hunter2@h/d", "oracle://u:***@h/d"),
        ("web", "no uri", "Invalid database URL"),
        ("run", "mysql://u:hunter2@h/d", "Database related module not found"),
        ("run", "postgresql+asyncpg://u:hunter2@127.0.0.1:1/d", "127.0.0.1"),
        (
            "run",
            "sqlite:////no/folder/sessions.db",
            "unable to open database file. Correct the URI",
        ),
    ],
)
def test_a_uri_that_adk_cannot_use_is_one_sentence(
    agents: Path, database_url: str, command: str, uri: str, words: str
) -> None:
    agent = commands.write_agents(agents)
    env = commands.environment(ADKPG_DATABASE_URL=database_url, TMPDIR=str(agents))
    given = (str(agent), "Hello") if command == "run" else ("--port", "0", str(agents))
    done = adkpg(command, "--session_service_uri", uri, *given, env=env)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Error: ADK cannot use a service" in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


def test_run_logs_apart_where_adks_folder_cannot_be_written(agents: Path, account: Account) -> None:
    """Another account's, mostly; a file in its place is in nobody's way but root's, too."""
    agent = commands.write_agents(agents)
    (agents / "agents_log").touch()
    env = commands.environment(ADKPG_DATABASE_URL=account.uri, TMPDIR=str(agents))
    done = adkpg("run", str(agent), "Hello", env=env)
    assert done.returncode == 0, done.stderr
    assert "Turn 1: Hello" in done.stdout
    assert [*(agents / f"agents_log_{os.getuid()}").glob("agent.*.log")]


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
