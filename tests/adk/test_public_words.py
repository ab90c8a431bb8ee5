"""What clients, models and users are told of an error names no server, role or statement."""

import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import asyncpg
import pytest
from fastapi import FastAPI
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.tools.tool_context import ToolContext
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from adkpg import PgVectorMemoryService, errors
from adkpg.adk import Probes, QueuedRuns, register
from adkpg.database.driver import translate
from adkpg.database.installation import Installation
from adkpg.database.runner import Runner
from adkpg.errors import in_public
from adkpg.tools import ForgetTool, LoadMemoryTool, RememberTool
from tests.fakes import adk_commands as commands

PLACE = "postgresql://olga@db.internal:6432/bank"
WHOLE = f"{PLACE} refused SELECT secret FROM adkpg.sessions WHERE session_id = 'of-eve'"
PRIVATE = ("olga", "db.internal", ":6432", "bank", "SELECT", "secret", "of-eve")
CLASSES: list[type[errors.AdkpgError]] = [getattr(errors, name) for name in errors.__all__]
USER = "/apps/assistant/users/ada"
RUN = {
    "appName": "assistant",
    "userId": "ada",
    "sessionId": "one",
    "newMessage": {"role": "user", "parts": [{"text": "hello"}]},
}


def made(kind: type[errors.AdkpgError]) -> errors.AdkpgError:
    """An error as an operator reads it."""
    if issubclass(kind, errors.ConstraintViolated):
        return kind(WHOLE, "pkey")
    if issubclass(kind, errors.InvalidInput):  # of what a caller gave, as the server refused it
        return kind(WHOLE, public=errors.InvalidInput.public)
    return kind(WHOLE)


def told_nothing_private(answer: str) -> bool:
    return not any(word in answer for word in PRIVATE)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[errors.AdkpgError]], None]:
    """Has every statement end in an error of a class."""

    def fail(kind: type[errors.AdkpgError]) -> None:
        async def failed(*_: object, **__: object) -> None:
            raise made(kind)

        for name in ("fetch", "fetch_one", "read", "transact"):
            monkeypatch.setattr(Runner, name, failed)
        monkeypatch.setattr(Installation, "require_serving", failed)

    return fail


@pytest.fixture(params=[True, False], ids=["queued", "plain"])
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> FastAPI:
    """ADK's server; it reaches no database.

    As `adkpg api-server` completes it, or without the queue and with sessions that runs make: then
    errors come when a stream has begun.
    """
    commands.write_agents(tmp_path)
    monkeypatch.setenv("ADKPG_DATABASE_URL", "postgresql://127.0.0.1:1/none")
    register()
    options: dict[str, Any] = {
        **dict.fromkeys(
            ("session_service_uri", "memory_service_uri", "artifact_service_uri"), "adkpg://"
        ),
        "auto_create_session": not request.param,
        "trigger_sources": ["pubsub", "eventarc"],
        "trigger_auth_verifier": lambda request: None,
    }
    known = inspect.signature(get_fast_api_app).parameters  # older ones of ADK have fewer
    with warnings.catch_warnings():  # of what comes and goes in ADK
        warnings.simplefilter("ignore")
        found = get_fast_api_app(
            agents_dir=str(tmp_path),
            web=False,
            **{name: value for name, value in options.items() if name in known},
        )
    if request.param:
        found.add_middleware(QueuedRuns)
    found.add_middleware(Probes)
    return found


def asked(client: TestClient) -> Iterator[tuple[str, str]]:
    """Asks at every door; yields where, and what was answered."""
    event = {"message": {"data": "aGk=", "messageId": "1"}, "subscription": "s"}
    for method, path, body in (
        ("POST", f"{USER}/sessions", {"sessionId": "one"}),
        ("POST", f"{USER}/sessions/one", {}),
        ("GET", f"{USER}/sessions", None),
        ("GET", f"{USER}/sessions/one", None),
        ("PATCH", f"{USER}/sessions/one", {"stateDelta": {"a": 1}}),
        ("DELETE", f"{USER}/sessions/one", None),
        ("PATCH", f"{USER}/memory", {"session_id": "one"}),
        ("GET", f"{USER}/sessions/one/artifacts", None),
        ("GET", f"{USER}/sessions/one/artifacts/x", None),
        ("GET", f"{USER}/sessions/one/artifacts/x/versions", None),
        ("DELETE", f"{USER}/sessions/one/artifacts/x", None),
        ("POST", f"{USER}/sessions/one/artifacts", {"filename": "x", "artifact": {"text": "y"}}),
        ("POST", "/run", RUN),
        ("POST", "/run_sse", RUN),
        ("POST", "/apps/assistant/trigger/pubsub", event),
        ("POST", "/apps/assistant/trigger/eventarc", {**event, "id": "1", "type": "t"}),
    ):
        answer = client.request(method, path, json=body)
        assert answer.status_code >= 400 or "error" in answer.text, (path, answer.text)
        yield f"{method} {path}", answer.text
    live = "/run_live?app_name=assistant&user_id=ada&session_id=one"
    try:
        with client.websocket_connect(live) as socket:
            socket.receive_text()
    except WebSocketDisconnect as exc:
        yield live, exc.reason
    yield "/readyz", client.get("/readyz").text


def test_no_door_of_adks_server_tells_clients_the_operators_words(
    app: FastAPI,
    failing: Callable[[type[errors.AdkpgError]], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = TestClient(app, raise_server_exceptions=False)
    for kind in CLASSES:
        failing(kind)
        answers = dict(asked(client))
        assert len(answers) == 18
        for door, answer in answers.items():
            assert told_nothing_private(answer), (kind, door, answer)
        assert f"{kind.__name__}: {WHOLE}" in caplog.text
        caplog.clear()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (LoadMemoryTool, {"query": "tea"}),
        (RememberTool, {"text": "Tea at five."}),
        (ForgetTool, {"memory_id": "m"}),
    ],
)
async def test_no_tool_tells_models_the_operators_words(
    failing: Callable[[type[errors.AdkpgError]], None],
    caplog: pytest.LogCaptureFixture,
    tool: Callable[..., LoadMemoryTool | RememberTool | ForgetTool],
    arguments: dict[str, Any],
) -> None:
    memory = PgVectorMemoryService("postgresql://127.0.0.1:1/none", mode="text")
    session = SimpleNamespace(app_name="a", user_id="ada", id="one", events=[])
    asking = cast(
        "ToolContext", SimpleNamespace(session=session, invocation_id="i", agent_name="agent")
    )
    for kind in CLASSES:
        failing(kind)
        try:
            answer = str(
                await tool(memory_service=memory).run_async(args=arguments, tool_context=asking)
            )
        except errors.AdkpgError as exc:
            answer = f"{exc} {exc!r} {exc.args} {vars(exc)}"
        assert told_nothing_private(answer), kind
        assert f"{kind.__name__}: {WHOLE}" in caplog.text
        caplog.clear()


def test_each_class_has_a_public_sentence_of_its_own() -> None:
    for kind in CLASSES:
        assert "public" in vars(kind) or kind is errors.InvalidArtifact
        assert told_nothing_private(kind.public)
        assert len(kind.public) <= 123, "what the end of a WebSocket has room for"
        assert str(made(kind)) == WHOLE, "the caller of the library reads all"


def test_what_a_caller_gave_is_named_to_them_unless_the_server_says_it() -> None:
    assert errors.InvalidInput("limit=0 is below 1.").public == "limit=0 is below 1."
    refused = asyncpg.DataError(WHOLE)
    error = translate(refused, PLACE)
    assert isinstance(error, errors.InvalidInput)
    assert told_nothing_private(error.public)


def test_the_whole_message_is_logged_once_however_many_doors_it_comes_by(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = errors.SessionExists(WHOLE)
    with pytest.raises(errors.SessionExists) as raised, in_public(), in_public():
        raise error
    assert raised.value is error
    assert str(error) == error.message == errors.SessionExists.public
    assert [each.message for each in caplog.records] == [f"SessionExists: {WHOLE}"]
