"""`QueuedRuns` in ADK's own server: by whatever door runs come to a session, they take turns."""

import asyncio
import json
import shutil
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
from fastapi import FastAPI
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.sessions.session import Session
from starlette.types import Message

from adkpg import DatabaseSessionService
from adkpg.adk import QueuedRuns, SessionService, register
from adkpg.tooling.testing import texts
from tests.fakes import adk_commands as commands
from tests.fakes import gated, gates
from tests.fakes.adk_commands import Account, OwnServer

PROGRAM = """
import sys
import uvicorn
from google.adk.cli.fast_api import get_fast_api_app
from adkpg.adk import QueuedRuns, register

register()
app = get_fast_api_app(agents_dir={agents!r}, session_service_uri="adkpg://", web=False)
app.add_middleware(QueuedRuns)
uvicorn.run(app, port=0)
"""
PLACE: dict[str, Any] = {"app_name": "assistant", "user_id": "ada", "session_id": "one"}
HERE: dict[str, Any] = {"app_name": "gated", "user_id": "ada", "session_id": "one"}
IN_CONTEXT: dict[str, Any] = {
    "app_name": "gated",
    "user_id": "A2A_USER_ctx",
    "session_id": "ctx",
}
CARD = {
    "name": "gated",
    "description": "Waits.",
    "version": "1",
    "url": "http://test/a2a/gated",
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "w", "name": "waits", "description": "Waits.", "tags": ["wait"]}],
}


def asked(text: str, app_name: str | None = "assistant", **more: Any) -> dict[str, Any]:
    return {
        **({} if app_name is None else {"appName": app_name}),
        "userId": "ada",
        "sessionId": "one",
        "newMessage": {"role": "user", "parts": [{"text": text}]},
        **more,
    }


@pytest.mark.program
async def test_six_requests_at_the_same_time_are_answered(
    agents: Path, account: Account, sessions: DatabaseSessionService
) -> None:
    commands.write_agents(agents)
    env = commands.environment(ADKPG_DATABASE_URL=account.uri)
    session = await sessions.create_session(**PLACE)
    with OwnServer(PROGRAM.format(agents=str(agents)), env=env) as server:
        url = server.client.base_url
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            answers = await asyncio.gather(
                *(client.post("/run", json=asked(f"run {n}")) for n in range(6)),
                *(client.post("/run_sse", json=asked(f"sse {n}")) for n in range(6)),
            )
            missing = await client.post("/run", json={**asked("x"), "sessionId": "none"})
            wrong = await client.post("/run", json={})
    assert [answer.status_code for answer in answers] == [200] * 12
    assert (missing.status_code, wrong.status_code) == (404, 422)
    assert not any("error" in answer.text.lower() for answer in answers)
    stored = await sessions.get_session(**PLACE)
    assert stored is not None
    assert [event.author for event in stored.events] == ["user", "assistant"] * 12
    runs = [event.invocation_id for event in stored.events]
    assert runs[::2] == runs[1::2]
    assert session.id == "one"
    assert "Traceback" not in server.log


# In this process

ByAdk = Callable[..., httpx.AsyncClient]


@pytest.fixture
async def by_adk(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ByAdk]:
    """Serves the gated agent by ADK's app, as `adkpg api-server` does."""
    agent = tmp_path / "agents" / "gated"
    agent.mkdir(parents=True)
    (agent / "__init__.py").write_text("from . import agent\n")
    shutil.copy(Path(gated.__file__), agent / "agent.py")
    (agent / "agent.json").write_text(json.dumps(CARD))
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    monkeypatch.chdir(tmp_path)
    gates.reset()
    register()
    clients: list[httpx.AsyncClient] = []

    def served(*, single: bool = False, timeout_s: float | None = None, **options: Any) -> Any:
        with warnings.catch_warnings():  # of what comes and goes in ADK
            warnings.simplefilter("ignore")
            app = get_fast_api_app(
                agents_dir="agents/gated" if single else "agents",
                session_service_uri="adkpg://",
                web=False,
                **options,
            )
        app.add_middleware(QueuedRuns, timeout_s=timeout_s)
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False),
            base_url="http://test",
            timeout=30,
        )
        client.app = app  # type: ignore[attr-defined] # for WebSockets, which httpx has none of
        clients.append(client)
        return client

    yield served
    for client in clients:
        await client.aclose()
    await SessionService("adkpg://").database.close()


async def stored(sessions: DatabaseSessionService) -> Session:
    found = await sessions.get_session(**HERE)
    assert found is not None
    return found


async def turns_of(sessions: DatabaseSessionService) -> list[str]:
    """What was said in the session; each run is a question, "begun" and "done"."""
    return [str(text) for text in texts(await stored(sessions))]


async def until_waiting(connection: asyncpg.Connection, count: int = 1) -> None:
    async with asyncio.timeout(30):
        while await connection.fetchval("SELECT count(*) FROM invocation_waiters") < count:
            await asyncio.sleep(0)


async def is_free(connection: asyncpg.Connection) -> bool:
    async with asyncio.timeout(30):
        while await connection.fetchval(
            "SELECT count(*) FROM sessions WHERE invocation_expires_at IS NOT NULL"
        ):
            await asyncio.sleep(0.01)
    return True


@asynccontextmanager
async def held(sessions: DatabaseSessionService) -> AsyncIterator[None]:
    """Another's run has the session: one of a context of its own."""
    taken, over = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with sessions.invocation(**HERE):
            taken.set()
            await over.wait()

    running = asyncio.create_task(run())
    await taken.wait()
    yield
    over.set()
    await running


async def live(app: FastAPI, query: str, *headers: tuple[bytes, bytes]) -> list[Message]:
    """Speaks to ``/run_live`` until the agent is done or the server closes; what it sent."""
    sent: list[Message] = []
    over = asyncio.Event()
    received: asyncio.Queue[Message] = asyncio.Queue()
    received.put_nowait({"type": "websocket.connect"})

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "websocket.close" or "done" in message.get("text", ""):
            received.put_nowait({"type": "websocket.disconnect", "code": 1000})
            over.set()

    scope = {
        "type": "websocket",
        "path": "/run_live",
        "raw_path": b"/run_live",
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", b"test"), *headers],
        "subprotocols": [],
        "client": ("127.0.0.1", 1),
        "server": ("test", 80),
        "scheme": "ws",
    }
    await app(scope, received.get, send)
    return sent


def message(text: str, context_id: str) -> dict[str, Any]:
    """A message of A2A."""
    return {
        "jsonrpc": "2.0",
        "id": uuid4().hex,
        "method": "message/send",
        "params": {
            "message": {
                "kind": "message",
                "role": "user",
                "messageId": uuid4().hex,
                "contextId": context_id,
                "parts": [{"kind": "text", "text": text}],
            }
        },
    }


ALL_OF_A_RUN = ["begun", "done"]


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
@pytest.mark.parametrize("single", [False, True], ids=["named", "without appName"])
async def test_runs_take_turns_by_whatever_name(
    by_adk: ByAdk, sessions: DatabaseSessionService, path: str, single: bool
) -> None:
    await sessions.create_session(**HERE)
    client = by_adk(single=single)
    answers = await asyncio.gather(
        *(client.post(path, json=asked(f"q{n}", None if single else "gated")) for n in range(5))
    )
    assert [answer.status_code for answer in answers] == [200] * 5
    said_there = await turns_of(sessions)
    assert sorted(said_there[::3]) == [f"q{n}" for n in range(5)]
    assert said_there[1::3] + said_there[2::3] == ["begun"] * 5 + ["done"] * 5


async def test_first_messages_of_a_session_that_does_not_exist_are_all_answered(
    by_adk: ByAdk, sessions: DatabaseSessionService
) -> None:
    client = by_adk(auto_create_session=True)
    answers = await asyncio.gather(
        *(
            client.post(path, json=asked(f"{path}{n}", "gated"))
            for n in range(3)
            for path in ("/run", "/run_sse")
        )
    )
    assert [answer.status_code for answer in answers] == [200] * 6
    assert all("done" in answer.text and "error" not in answer.text for answer in answers)
    assert len(await turns_of(sessions)) == 18


async def test_a_live_session_waits_and_is_waited_for(
    by_adk: ByAdk, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await sessions.create_session(**HERE)
    client = by_adk()
    query = "app_name=gated&user_id=ada&session_id=one"
    first = asyncio.create_task(client.post("/run", json=asked("wait", "gated")))
    await gates.begun.get()
    speaking = asyncio.create_task(live(client.app, query))  # type: ignore[attr-defined] # ours
    await until_waiting(connection)
    assert await turns_of(sessions) == ["wait", "begun"]
    gates.opened.set()
    assert (await first).status_code == 200
    sent = await speaking
    assert [each["type"] for each in sent][:1] == ["websocket.accept"]
    assert await is_free(connection)
    assert await turns_of(sessions) == ["wait", *ALL_OF_A_RUN, *ALL_OF_A_RUN]


async def test_a_change_of_state_does_not_spoil_a_run(
    by_adk: ByAdk, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await sessions.create_session(**HERE)
    client = by_adk()
    run = asyncio.create_task(client.post("/run", json=asked("wait", "gated")))
    await gates.begun.get()
    place = "/apps/gated/users/ada/sessions/one"
    patched = asyncio.create_task(client.patch(place, json={"stateDelta": {"a": 1}}))
    await until_waiting(connection)
    assert (await client.get(place)).status_code == 200, "a read waits for nobody"
    gates.opened.set()
    assert ((await run).status_code, (await patched).status_code) == (200, 200)
    assert (await stored(sessions)).state == {"a": 1}


# ADK says so of its implementation of A2A.
EXPERIMENTAL = pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning")


@EXPERIMENTAL
async def test_messages_of_an_a2a_context_are_all_completed(
    by_adk: ByAdk, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    client = by_adk(a2a=True)
    answers = await asyncio.gather(
        *(client.post("/a2a/gated", json=message(f"m{n}", "ctx")) for n in range(6))
    )
    states = [answer.json()["result"]["status"]["state"] for answer in answers]
    assert states == ["completed"] * 6
    found = await sessions.get_session(**IN_CONTEXT)
    assert found is not None
    said_there = [str(text) for text in texts(found)]
    assert sorted(said_there[::3]) == [f"m{n}" for n in range(6)]
    assert said_there[1::3] + said_there[2::3] == ["begun"] * 6 + ["done"] * 6
    assert await is_free(connection)


@EXPERIMENTAL
async def test_a_run_that_goes_on_after_its_request_keeps_its_turn(
    by_adk: ByAdk, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    client = by_adk(a2a=True)
    asking = message("wait", "ctx")
    asking["params"]["configuration"] = {"blocking": False}
    answer = await client.post("/a2a/gated", json=asking)
    assert answer.json()["result"]["status"]["state"] in ("submitted", "working")
    await gates.begun.get()
    second = asyncio.create_task(client.post("/a2a/gated", json=message("second", "ctx")))
    await until_waiting(connection)
    gates.opened.set()
    assert (await second).json()["result"]["status"]["state"] == "completed"
    found = await sessions.get_session(**IN_CONTEXT)
    assert found is not None
    assert texts(found) == ["wait", *ALL_OF_A_RUN, "second", *ALL_OF_A_RUN]
    assert await is_free(connection)


async def test_what_a_run_leaves_behind_writes_after_it(
    by_adk: ByAdk, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await sessions.create_session(**HERE)
    client = by_adk()
    assert (await client.post("/run", json=asked("leave", "gated"))).status_code == 200
    assert await is_free(connection)
    gates.opened.set()
    await gates.left[0]
    assert await turns_of(sessions) == ["leave", *ALL_OF_A_RUN, "later"]


async def test_a_client_that_goes_away_frees_the_session(
    by_adk: ByAdk, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await sessions.create_session(**HERE)
    client = by_adk()
    for path in ("/run", "/run_sse"):
        run = asyncio.create_task(client.post(path, json=asked("wait", "gated")))
        await gates.begun.get()
        run.cancel()
        await asyncio.wait({run})
        assert await is_free(connection)


@pytest.mark.parametrize("auto_create_session", [False, True])
async def test_one_whose_turn_does_not_come_is_told_to_retry(
    by_adk: ByAdk, sessions: DatabaseSessionService, auto_create_session: bool
) -> None:
    await sessions.create_session(**HERE)
    client = by_adk(timeout_s=0, auto_create_session=auto_create_session)
    async with held(sessions):
        for path in ("/run", "/run_sse"):
            busy = await client.post(path, json=asked("hello", "gated"))
            assert (busy.status_code, busy.headers["Retry-After"]) == (503, "5")
            assert busy.json() == {"detail": "Session one is busy; try again later."}
    assert (await client.post("/run", json=asked("hello", "gated"))).status_code == 200


async def test_the_wait_is_a_setting(
    by_adk: ByAdk, sessions: DatabaseSessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_INVOCATION_TIMEOUT_S", "0.01")
    await sessions.create_session(**HERE)
    client = by_adk()
    async with held(sessions):
        busy = await client.post("/run", json=asked("hello", "gated"))
    assert busy.status_code == 503
    await SessionService("adkpg://").database.close()


# Keys


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
@pytest.mark.parametrize("auto_create_session", [False, True])
async def test_a_request_that_is_retried_runs_once(
    by_adk: ByAdk, sessions: DatabaseSessionService, path: str, auto_create_session: bool
) -> None:
    await sessions.create_session(**HERE)
    client = by_adk(auto_create_session=auto_create_session)
    key = {"Idempotency-Key": "k1"}
    asking = asked("once", "gated")
    answers = await asyncio.gather(*(client.post(path, json=asking, headers=key) for _ in range(3)))
    answers.append(await client.post(path, json=asking, headers=key))
    assert [answer.status_code for answer in answers] == [200] * 4
    assert len({answer.text for answer in answers}) == 1
    assert len({answer.headers["content-type"] for answer in answers}) == 1
    assert "done" in answers[0].text
    assert await turns_of(sessions) == ["once", *ALL_OF_A_RUN]
    other = await client.post(path, json=asking, headers={"Idempotency-Key": "k2"})
    assert other.text != answers[0].text


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_a_run_that_failed_runs_again(
    by_adk: ByAdk, sessions: DatabaseSessionService, path: str
) -> None:
    await sessions.create_session(**HERE)
    client = by_adk()
    key = {"Idempotency-Key": "k"}
    failed = await client.post(path, json=asked("fail", "gated"), headers=key)
    assert failed.status_code == 500 or "error" in failed.text
    again = await client.post(path, json=asked("well", "gated"), headers=key)
    assert again.status_code == 200
    assert (await turns_of(sessions))[-3:] == ["well", *ALL_OF_A_RUN]


async def test_keys_that_cannot_be_honoured_are_refused(
    by_adk: ByAdk, sessions: DatabaseSessionService
) -> None:
    await sessions.create_session(**HERE)
    client = by_adk()
    for key in ("", "k" * 513):
        refused = await client.post(
            "/run", json=asked("x", "gated"), headers={"Idempotency-Key": key}
        )
        assert refused.status_code == 400
        assert "Idempotency-Key" in refused.json()["detail"]
    query = "app_name=gated&user_id=ada&session_id=one"
    sent = await live(client.app, query, (b"idempotency-key", b"k"))  # type: ignore[attr-defined] # ours
    assert [(each["type"], each["code"]) for each in sent] == [("websocket.close", 1008)]
    assert await turns_of(sessions) == []


async def test_an_answer_that_is_too_large_to_keep_is_given_once(
    by_adk: ByAdk, sessions: DatabaseSessionService
) -> None:
    await sessions.create_session(**HERE)
    client = by_adk()
    key = {"Idempotency-Key": "k"}
    first = await client.post("/run", json=asked("much", "gated"), headers=key)
    assert (first.status_code, len(first.content) > 600_000) == (200, True)
    again = await client.post("/run", json=asked("much", "gated"), headers=key)
    assert again.status_code == 409
    assert "too large to be kept" in again.json()["detail"]
    assert len(await turns_of(sessions)) == 3


# A blocked event loop


async def test_a_run_that_blocks_the_event_loop_keeps_its_session(
    by_adk: ByAdk, sessions: DatabaseSessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_INVOCATION_LEASE_S", "0.5")
    await sessions.create_session(**HERE)
    client = by_adk()
    answers = await asyncio.gather(
        *(client.post("/run", json=asked(text, "gated")) for text in ("block", "second"))
    )
    assert [answer.status_code for answer in answers] == [200, 200]
    assert sorted((await turns_of(sessions))[::3]) == ["block", "second"]
    await SessionService("adkpg://").database.close()
