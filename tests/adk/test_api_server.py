"""The real ``adk api_server``, over HTTP."""

import json
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from google.adk.cli.api_server import ApiServer as AdkApiServer
from google.adk.cli.utils.agent_loader import AgentLoader

from adkpg import Database, DatabaseSessionService
from adkpg.errors import DatabaseUnavailable
from tests.fakes import adk_commands as commands
from tests.fakes.adk_commands import Account, ApiServer

USER = "/apps/assistant/users/ada"


def uris(uri: str) -> tuple[str, ...]:
    return ("--session_service_uri", uri, "--memory_service_uri", uri)


def message(session_id: str, text: str) -> dict[str, Any]:
    return {
        "appName": "assistant",
        "userId": "ada",
        "sessionId": session_id,
        "newMessage": {"role": "user", "parts": [{"text": text}]},
    }


def say(client: httpx.Client, session_id: str, text: str) -> str:
    """Runs one turn and returns the text of its last event."""
    answer = client.post("/run", json=message(session_id, text))
    assert answer.status_code == 200, answer.text
    last: str = answer.json()[-1]["content"]["parts"][0]["text"]
    return last


def create(client: httpx.Client, session_id: str, **state: Any) -> httpx.Response:
    return client.post(f"{USER}/sessions", json={"sessionId": session_id, "state": state})


@pytest.fixture
def registered(agents: Path) -> Path:
    """The agents folder, with adkpg registered in code."""
    commands.write_agents(agents)
    (agents / "services.py").write_text(commands.SERVICES_PY)
    return agents


@pytest.mark.program
@pytest.mark.parametrize("way", ["services.py", "services.yaml"])
async def test_conversation_survives_a_restart_of_the_server(
    agents: Path, account: Account, way: str
) -> None:
    commands.write_agents(agents)
    texts = {"services.py": commands.SERVICES_PY, "services.yaml": commands.SERVICES_YAML}
    (agents / way).write_text(texts[way])
    env = commands.environment()
    with ApiServer(agents, *uris(account.uri), env=env) as server:
        client = server.client
        created = create(client, "one", **{"topic": "fruit", "user:name": "Ada", "app:v": 1})
        assert created.status_code == 200
        assert created.json()["state"] == {"topic": "fruit", "user:name": "Ada", "app:v": 1}
        assert create(client, "one").status_code == 409
        assert say(client, "one", "I love quinces") == ("Turn 1: I love quinces")
        remembered = client.patch(f"{USER}/memory", json={"session_id": "one"})
        assert remembered.status_code == 200, remembered.text
    first_log = server.log

    with ApiServer(agents, *uris(account.uri), env=env) as server:
        client = server.client
        assert say(client, "one", "Hello again.") == "Turn 2: Hello again."
        assert create(client, "two").status_code == 200
        recalled = say(client, "two", "Recall which fruit do I like")
        assert "I love quinces" in recalled
        state = client.get(f"{USER}/sessions/two").json()["state"]
        assert state == {"user:name": "Ada", "app:v": 1, "last_answer": recalled}

    for log in (first_log, server.log):
        assert account.password not in log
        assert "Traceback" not in log
        assert "ResourceWarning" not in log
        assert "unclosed" not in log
        assert "Application shutdown complete" in log


@pytest.mark.program
async def test_the_policy_of_the_environment_holds_for_appends_and_the_memory_endpoint(
    agents: Path, account: Account, connection: asyncpg.Connection
) -> None:
    commands.write_agents(agents)
    (agents / "services.yaml").write_text(commands.SERVICES_YAML)
    env = commands.environment(ADKPG_REMEMBER="redacted")
    with ApiServer(agents, *uris(account.uri), env=env) as server:
        assert create(server.client, "one").status_code == 200
        say(server.client, "one", "Pay with 4111 1111 1111 1111")
        appended = await connection.fetch("SELECT body FROM memories ORDER BY position")
        assert [row["body"] for row in appended] == [
            "user: Pay with [redacted]",
            "assistant: Turn 1: Pay with [redacted]",
        ]
        patched = server.client.patch(f"{USER}/memory", json={"session_id": "one"})
        assert patched.status_code == 200
    assert await connection.fetch("SELECT body FROM memories ORDER BY position") == appended


@pytest.mark.program
async def test_endpoints_answer_as_with_the_services_of_adk(
    registered: Path, account: Account
) -> None:
    env = commands.environment(ADKPG_DATABASE_URL=account.uri)
    with ApiServer(registered, *uris("adkpg://"), env=env) as server:
        client = server.client
        for session_id in ("one", "two"):
            assert create(client, session_id).status_code == 200
        generated = client.post(f"{USER}/sessions")
        assert generated.status_code == 200

        assert client.get(f"{USER}/sessions/none").status_code == 404
        assert client.post("/run", json=message("none", "Hello")).status_code == 404
        assert client.post("/run_sse", json=message("none", "Hello")).status_code == 404

        patched = client.patch(f"{USER}/sessions/one", json={"state_delta": {"seen": True}})
        assert patched.status_code == 200
        assert patched.json()["state"] == {"seen": True}
        assert client.patch(f"{USER}/sessions/none", json={"state_delta": {}}).status_code == 404

        streamed = client.post("/run_sse", json={**message("two", "Good day"), "streaming": True})
        assert streamed.status_code == 200
        events = [
            json.loads(line.removeprefix("data: ")) for line in streamed.text.splitlines() if line
        ]
        assert [event["content"]["parts"][0]["text"] for event in events] == [
            "Turn ",
            "1: ",
            "Good ",
            "day ",
            "Turn 1: Good day",
        ]
        stored = client.get(f"{USER}/sessions/two").json()["events"]
        assert [event["author"] for event in stored] == ["user", "assistant"]
        assert stored[-1]["id"] == events[-1]["id"]

        listed = client.get(f"{USER}/sessions")
        assert [each["id"] for each in listed.json()] == [generated.json()["id"], "one", "two"]
        assert client.delete(f"{USER}/sessions/one").status_code == 200
        assert client.get(f"{USER}/sessions/one").status_code == 404
        assert len(client.get(f"{USER}/sessions").json()) == 2

        unknown = client.patch(f"{USER}/memory", json={"session_id": "one"})
        assert unknown.status_code == 404
        known = client.patch(f"{USER}/memory", json={"session_id": "two"})
        assert (known.status_code, known.json()) == (200, None)
    assert account.password not in server.log


@pytest.mark.program
async def test_sessions_and_memories_are_kept_by_the_embedded_server(
    registered: Path, embedded_dir: Path
) -> None:
    env = commands.environment(ADKPG_EMBEDDED_DIR=str(embedded_dir))
    with ApiServer(registered, *uris("adkpg://embedded"), env=env) as server:
        assert create(server.client, "one").status_code == 200
        say(server.client, "one", "The parcel is behind the shed.")
        assert server.client.patch(f"{USER}/memory", json={"session_id": "one"}).status_code == 200
    with ApiServer(registered, *uris("adkpg://embedded"), env=env) as server:
        assert create(server.client, "two").status_code == 200
        assert "behind the shed" in say(server.client, "two", "Recall the parcel")
        assert say(server.client, "one", "Thanks").startswith("Turn 2:")
    assert "Traceback" not in server.log


@pytest.mark.program
async def test_database_without_tables_is_answered_with_the_command_to_run(
    registered: Path, empty_database_url: str
) -> None:
    env = commands.environment(ADKPG_DATABASE_URL=empty_database_url)
    with ApiServer(registered, *uris("adkpg://"), env=env) as server:
        answer = create(server.client, "one")
    assert answer.status_code == 500
    assert "adkpg db upgrade" in answer.json()["detail"]
    assert "adkpg db upgrade" in server.log


@pytest.mark.program
async def test_auto_upgrade_makes_the_tables_at_first_use(
    registered: Path, empty_database_url: str
) -> None:
    env = commands.environment(ADKPG_DATABASE_URL=empty_database_url, ADKPG_AUTO_UPGRADE="true")
    with ApiServer(registered, *uris("adkpg://"), env=env) as server:
        assert create(server.client, "one").status_code == 200
    async with Database(empty_database_url) as database:
        await database.check()


@pytest.mark.program
async def test_unreachable_server_is_named_in_the_log_alone(registered: Path) -> None:
    uri = "adkpg://ada:not-to-be-told@127.0.0.1:1/agents"
    with ApiServer(registered, *uris(uri), env=commands.environment()) as server:
        answer = create(server.client, "one")
    assert answer.status_code == 500
    assert answer.json() == {"detail": DatabaseUnavailable.public}
    assert "ada:***@127.0.0.1:1/agents cannot be reached" in server.log
    assert "not-to-be-told" not in server.log


async def test_memory_endpoint_without_a_memory_service_is_a_bad_request(
    agents: Path, sessions: DatabaseSessionService
) -> None:
    # ADK's command always has a memory service, so its server class is asked directly.
    server = AdkApiServer(
        agent_loader=AgentLoader(str(agents)),
        session_service=sessions,
        memory_service=None,  # type: ignore[arg-type] # the case that its endpoint provides for
        artifact_service=None,  # type: ignore[arg-type] # not used here
        credential_service=None,  # type: ignore[arg-type] # not used here
        eval_sets_manager=None,
        eval_set_results_manager=None,
        agents_dir=str(agents),
    )
    await sessions.create_session(app_name="assistant", user_id="ada", session_id="one")
    transport = httpx.ASGITransport(app=server.get_fast_api_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.patch(f"{USER}/memory", json={"session_id": "one"})
        assert answer.status_code == 400
        found = await client.get(f"{USER}/sessions/one")
        assert found.status_code == 200


@pytest.mark.program
def test_a_new_session_takes_its_end_in_options(registered: Path, account: Account) -> None:
    env = commands.environment()
    uri = ("--artifact_service_uri", account.uri)
    with ApiServer(registered, *uris(account.uri), *uri, env=env) as server:
        client = server.client
        for options, status in (
            ({"ttl": "7200s"}, 200),
            ({"expire_time": "2100-01-01T00:00:00Z"}, 200),
            ({"ttl": "7200s", "expire_time": "2100-01-01T00:00:00Z"}, 400),
            ({"ttl": "soon"}, 400),
            ({"expire_time": "2001-01-01T00:00:00Z"}, 400),
            ({"no_such_option": 1}, 400),
        ):
            answer = client.post(f"{USER}/sessions", json={"options": options})
            assert answer.status_code == status, (options, answer.text)
        assert create(client, "files").status_code == 200
        place = f"{USER}/sessions/files/artifacts"
        saved = client.post(
            place,
            json={"filename": "a.txt", "artifact": {"text": "a list"}, "customMetadata": {"k": 1}},
        )
        assert saved.status_code == 200, saved.text
        assert saved.json()["canonicalUri"].endswith("/sessions/files/artifacts/a.txt/versions/0")
        assert client.get(place).json() == ["a.txt"]
        assert client.get(f"{place}/a.txt").json()["text"] == "a list"
        assert client.get(f"{place}/none").status_code == 404
        assert client.delete(f"{place}/a.txt").status_code == 200
        assert client.get(place).json() == []
