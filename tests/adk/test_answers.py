"""ADK's server in this process: what a database holds is answered, or refused in words."""

import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.adk.cli.fast_api import get_fast_api_app

from adkpg.adk import register
from adkpg.adk.services import databases_of_services
from tests.fakes import adk_commands as commands
from tests.fakes.adk_commands import Account

USER = "/apps/assistant/users/ada"
JSON = {"content-type": "application/json"}


@pytest.fixture
async def client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, account: Account
) -> AsyncIterator[httpx.AsyncClient]:
    commands.write_agents(tmp_path)
    monkeypatch.setenv("ADKPG_DATABASE_URL", account.uri)
    register()
    with warnings.catch_warnings():  # of what comes and goes in ADK
        warnings.simplefilter("ignore")
        app = get_fast_api_app(
            agents_dir=str(tmp_path),
            web=False,
            session_service_uri="adkpg://",
            memory_service_uri="adkpg://",
            artifact_service_uri="adkpg://",
        )
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1", headers=JSON
    ) as client:
        yield client


def run(text: str) -> str:
    return (
        '{"appName": "assistant", "userId": "ada", "sessionId": "one", "newMessage": '
        f'{{"role": "user", "parts": [{{"text": "{text}"}}]}}}}'
    )


async def test_half_a_character_spoils_no_session(client: httpx.AsyncClient) -> None:
    half, mark = "\\ud83d", "\ufffd"
    sessions, one = f"{USER}/sessions", f"{USER}/sessions/one"
    nick = f'{{"sessionId": "one", "state": {{"nick": "{half}", "{half}": 1}}}}'
    name = f'{{"stateDelta": {{"user:{half}": ["{half}", NaN, -Infinity, "\\u0000"]}}}}'
    metadata = f'{{"{half}": "{half}"}}'
    file = f'{{"filename": "f", "artifact": {{"text": "{half}"}}, "customMetadata": {metadata}}}'
    asked: list[tuple[str, str, str | None]] = [
        ("POST", sessions, nick),
        ("POST", "/run", run(f"cut {half}")),
        ("POST", "/run_sse", run(f"cut {half}")),
        ("PATCH", one, name),
        ("POST", f"{one}/artifacts", file),
        ("GET", f"{one}/artifacts/f", None),
        ("GET", f"{one}/artifacts/f/versions/0/metadata", None),
        ("GET", f"{one}/artifacts", None),
        ("PATCH", f"{USER}/memory", '{"session_id": "one"}'),
        ("GET", one, None),
        ("GET", sessions, None),
    ]
    answers = {}
    for method, path, content in asked:
        answer = await client.request(method, path, content=content)
        assert answer.status_code == 200, (path, answer.text)
        answers[path] = answer
    (listed,) = answers[sessions].json()
    state: dict[str, Any] = listed["state"]
    assert (state["nick"], state[mark]) == (mark, 1)
    assert state[f"user:{mark}"] == [mark, None, None, "\x00"]
    said = [event["content"]["parts"][0]["text"] for event in answers[one].json()["events"][:2]]
    assert said == [f"cut {mark}", f"Turn 1: cut {mark}"]
    refused = await client.post(sessions, content=f'{{"sessionId": "{half}"}}')
    assert refused.status_code in (400, 409, 422), refused.text


async def test_a_listing_above_a_limit_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, client: httpx.AsyncClient
) -> None:
    for _ in range(3):
        assert (await client.post(f"{USER}/sessions")).status_code == 200
    assert len((await client.get(f"{USER}/sessions")).json()) == 3
    for database in databases_of_services():
        few = database.settings.model_copy(update={"max_results": 2})
        monkeypatch.setattr(database, "settings", few)
    answer = await client.get(f"{USER}/sessions")
    assert answer.status_code == 400
    assert "ADKPG_MAX_RESULTS=2" in answer.json()["detail"]
