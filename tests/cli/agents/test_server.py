"""``adkpg web`` and ``adkpg api-server`` in this process: their app, options and refusals."""

import asyncio
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from google.adk.cli import main as adk

from adkpg.tooling.cli import main
from adkpg.tooling.cli.agents.server import adk_app
from tests.fakes import adk_commands as commands
from tests.fakes.commands import Adkpg

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL:UserWarning")  # ADK's own parts

USER = "/apps/assistant/users/ada"
RUNS = ("/run", "/run_sse")
KINDS = ("session", "memory", "artifact")
SERVERS = {"web": "web", "api-server": "api_server"}


@pytest.fixture
def agents(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with one agent, which ADK puts on Python's path; the database is named."""
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    monkeypatch.setattr(sys, "path", [*sys.path])
    commands.write_agents(tmp_path)
    yield tmp_path
    sys.modules.pop("assistant", None)


def _uris(uri: str) -> dict[str, str]:
    return {f"{kind}_service_uri": uri for kind in KINDS}


def _said(text: str) -> dict[str, object]:
    message = {"role": "user", "parts": [{"text": text}]}
    return {"appName": "assistant", "userId": "ada", "sessionId": "one", "newMessage": message}


@pytest.mark.parametrize("web", [False, True])
async def test_messages_of_one_session_at_the_same_time_are_all_answered(
    agents: Path, connection: asyncpg.Connection, *, web: bool
) -> None:
    app = adk_app(host="127.0.0.1", agents_dir=str(agents), web=web, **_uris("adkpg://"))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.get("/livez")).json() == {"status": "ok"}
        await client.post(f"{USER}/sessions", json={"sessionId": "one"})
        answers = await asyncio.gather(
            *(client.post(path, json=_said(f"{path} {n}")) for n in range(3) for path in RUNS)
        )
    assert [answer.status_code for answer in answers] == [200] * 6
    assert not any("error" in answer.text.lower() for answer in answers)
    authors = await connection.fetch("SELECT payload ->> 'author' AS who FROM events ORDER BY seq")
    assert [row["who"] for row in authors] == ["user", "assistant"] * 6


async def test_a_service_that_is_named_is_used(
    agents: Path, connection: asyncpg.Connection
) -> None:
    uris = {**_uris("adkpg://"), "session_service_uri": "memory://"}
    app = adk_app(host="127.0.0.1", agents_dir=str(agents), web=False, **uris)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        await client.post(f"{USER}/sessions", json={"sessionId": "one"})
        answer = await client.post("/run", json=_said("Hello"))
    assert answer.json()[-1]["content"]["parts"][0]["text"] == "Turn 1: Hello"
    assert await connection.fetchval("SELECT count(*) FROM sessions") == 0


@pytest.mark.parametrize("command", SERVERS)
def test_options_have_the_names_that_adk_gives_them(command: str) -> None:
    known = {option for each in adk.commands[SERVERS[command]].params for option in each.opts}
    known.add("--auto_create_session")  # of api_server alone, there
    own = {option for each in main.commands[command].params for option in each.opts}
    assert own <= known


@pytest.mark.parametrize("command", SERVERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("uri", ["adkpg://u:hunter2@h:port/d", "nosuch://u:hunter2@h/d", "no uri"])
def test_a_uri_that_cannot_be_used_is_one_sentence(
    adkpg: Adkpg, agents: Path, command: str, kind: str, uri: str
) -> None:
    done = adkpg(command, f"--{kind}_service_uri", uri, str(agents))
    assert done.code in (1, 2)
    assert done.err.splitlines()[-1].startswith("Error: ")
    assert "hunter2" not in done.out + done.err


@pytest.mark.parametrize("command", SERVERS)
def test_no_database_is_one_sentence(
    adkpg: Adkpg, agents: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.delenv("ADKPG_DATABASE_URL", raising=False)
    (agents / "assistant" / ".env").write_text("ADKPG_DATABASE_URL=embedded\n")  # read too late
    done = adkpg(command, str(agents))
    assert done.code == 1
    assert done.err.startswith("Error: No database is named; set ADKPG_DATABASE_URL")
    assert "Correct the URI" not in done.err


@pytest.mark.parametrize("command", SERVERS)
def test_an_option_that_needs_more_of_adk_says_so(
    adkpg: Adkpg, agents: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "a2a"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "a2a", None)
    done = adkpg(command, "--a2a", str(agents))
    assert done.code == 1
    assert done.err.startswith("Error: ADK needs a2a")


@pytest.mark.parametrize("command", SERVERS)
def test_a_port_that_is_taken_is_a_sentence(adkpg: Adkpg, agents: Path, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = adkpg(command, "--port", str(taken.getsockname()[1]), str(agents))
    assert done.code == 1
    assert "address already in use" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "arguments", [["--no-such-option"], ["--port", "65536"], ["--log_level", "LOUD"], ["/no/such"]]
)
@pytest.mark.parametrize("command", SERVERS)
def test_wrong_usage_is_told_before_anything_starts(
    adkpg: Adkpg, command: str, arguments: list[Any]
) -> None:
    done = adkpg(command, *arguments)
    assert done.code == 2
    assert "Error: " in done.err
