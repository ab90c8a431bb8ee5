"""ADK's own server with `QueuedRuns`: requests that come at the same time are all answered."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from adkpg import DatabaseSessionService
from adkpg.adk import QueuedRuns
from tests.fakes import adk_commands as commands
from tests.fakes.adk_commands import Account, OwnServer

PROGRAM = """
import sys
import uvicorn
from google.adk.cli.fast_api import get_fast_api_app
from adkpg.adk import QueuedRuns, SessionService, register

register()
app = get_fast_api_app(agents_dir={agents!r}, session_service_uri="adkpg://", web=False)
app.add_middleware(QueuedRuns, sessions=SessionService("adkpg://"))
uvicorn.run(app, port=0)
"""
PLACE: dict[str, Any] = {"app_name": "assistant", "user_id": "ada", "session_id": "one"}


def asked(text: str) -> dict[str, Any]:
    return {
        "appName": "assistant",
        "userId": "ada",
        "sessionId": "one",
        "newMessage": {"role": "user", "parts": [{"text": text}]},
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


@pytest.fixture
def app(sessions: DatabaseSessionService) -> FastAPI:
    """Says what it was asked; it waits for nobody."""
    plain = FastAPI()

    @plain.api_route("/{path:path}", methods=["GET", "POST"])
    async def answer(path: str, request: Request) -> dict[str, str]:
        return {"path": path, "body": (await request.body()).decode()}

    plain.add_middleware(QueuedRuns, sessions=sessions, timeout_s=0)
    return plain


async def test_one_whose_turn_does_not_come_is_told_to_retry(
    app: FastAPI, sessions: DatabaseSessionService
) -> None:
    await sessions.create_session(**PLACE)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        free = await client.post("/run", json=PLACE)
        assert (free.status_code, json.loads(free.json()["body"])) == (200, PLACE)
        async with sessions.invocation(**PLACE):
            for path in ("/run", "/run_sse"):
                busy = await client.post(path, json=asked("hello"))
                assert (busy.status_code, busy.headers["Retry-After"]) == (503, "5")
                assert "Session one is busy" in busy.json()["detail"]
            for path, body in (
                ("/list-apps", json.dumps(PLACE)),
                ("/apps/assistant/run", json.dumps(PLACE)),
                ("/run", "no JSON"),
                ("/run", json.dumps({**PLACE, "session_id": "none"})),
                ("/run", json.dumps({**PLACE, "user_id": "\x00"})),
            ):
                passed = await client.post(path, content=body)
                assert passed.json() == {"path": path[1:], "body": body}
