"""What is masked is what ADK's own API server masks, compared with that server's answers."""

import html
import json
import re
from typing import Any

import httpx
import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.cli.api_server import ApiServer
from google.adk.cli.utils.base_agent_loader import BaseAgentLoader
from google.adk.evaluation.in_memory_eval_sets_manager import InMemoryEvalSetsManager
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from adkpg import DatabaseSessionService, PgVectorMemoryService
from tests.fakes.browser import Browser
from tests.fakes.conversation import said

PLACE: dict[str, Any] = {"app": "app", "user": "ana", "session": "s"}
KEY = {"authType": "apiKey", "apiKey": "s3cr3t", "note": "kept"}
OAUTH = {
    "auth_type": "oauth2",
    "oauth2": {"client_id": "id", "client_secret": "s3cr3t", "access_token": "s3cr3t"},
}
HTTP = {"authType": "http", "http": {"scheme": "bearer", "credentials": {"token": "s3cr3t"}}}
CONFIG = {"authScheme": {"type": "apiKey"}, "rawAuthCredential": KEY}
STATES: dict[str, Any] = {
    "key": KEY,
    "oauth": OAUTH,
    "deep": {"list": [{"of": HTTP}, 1, None]},
    "config": CONFIG,
    "user:login": OAUTH,
    "app:login": KEY,
    # What no rule of ADK's knows is shown by its server too.
    "password": "as it is",
    "apiKey": "as it is",
    "exchanged": {"exchangedAuthCredential": HTTP, "credentialKey": "k"},
}
"""By the key that they have."""


@pytest.fixture
async def stored(sessions: DatabaseSessionService) -> None:
    session = await sessions.create_session(
        app_name="app", user_id="ana", session_id="s", state=STATES
    )
    call = types.Part.from_function_call(
        name="adk_request_credential", args={"functionCallId": "f", "authConfig": CONFIG}
    )
    answer = types.Part.from_function_response(name="adk_request_credential", response=CONFIG)
    tool = types.Part.from_function_response(name="login", response={"given": OAUTH})
    await sessions.append_event(
        session,
        Event(
            author="guide",
            content=types.Content(role="model", parts=[call, answer, tool]),
            actions=EventActions(state_delta={f"{key} again": STATES[key] for key in STATES}),
        ),
    )
    changed = {**KEY, "apiKey": "s3cr3t2"}
    await sessions.append_event(session, said("done", state={"key": changed, "oauth": None}))


class _NoAgents(BaseAgentLoader):
    def load_agent(self, agent_name: str) -> Any:
        raise ValueError(agent_name)

    def list_agents(self) -> list[str]:
        return []


async def _of_adk(sessions: DatabaseSessionService, memory: PgVectorMemoryService) -> Any:
    """What ADK's server answers of the session."""
    unused: Any = None
    server = ApiServer(
        agent_loader=_NoAgents(),
        session_service=sessions,
        memory_service=memory,
        artifact_service=InMemoryArtifactService(),
        credential_service=unused,
        eval_sets_manager=InMemoryEvalSetsManager(),
        eval_set_results_manager=unused,
        agents_dir=".",
    )
    transport = httpx.ASGITransport(app=server.get_fast_api_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/apps/app/users/ana/sessions/s")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.usefixtures("stored")
async def test_a_session_is_masked_as_adks_server_masks_it(
    browser: Browser, sessions: DatabaseSessionService, memory: PgVectorMemoryService
) -> None:
    theirs = await _of_adk(sessions, memory)
    page = await browser.text("/session", **PLACE)
    assert "s3cr3t" in json.dumps(STATES)
    assert "s3cr3t" not in json.dumps(theirs)
    assert "s3cr3t" not in page
    texts = re.findall(r"<pre[^>]*>(\{.*?)</pre>", page, re.DOTALL)
    shown = [json.loads(html.unescape(each)) for each in texts]
    state, *others = shown
    assert state == theirs["state"]
    events = [each for each in others if "invocationId" in each]
    assert events == theirs["events"]


async def test_what_a_state_was_is_masked_as_the_whole_state(
    browser: Browser, sessions: DatabaseSessionService
) -> None:
    """A state may be a credential itself, of which a change has one key alone."""
    session = await sessions.create_session(
        app_name="app",
        user_id="ana",
        session_id="s",
        state={"authType": "apiKey", "apiKey": "s3cr3t"},
    )
    await sessions.append_event(session, said("anew", state={"apiKey": "<new>", "note": 1}))
    page = await browser.text("/session", **PLACE)
    assert "s3cr3t" not in page
    assert "note" in page
