"""Turns that become memory with the append, by callbacks and over HTTP."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.cli.api_server import ApiServer
from google.adk.cli.utils.base_agent_loader import BaseAgentLoader
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.adk import MemoryPlugin
from adkpg.tooling.testing.scripted_llm import call, text
from adkpg.tools import load_memory, preload_memory
from tests.fakes.capture_stage import remembered, stage_with
from tests.fakes.stage import APP, USER, Services, Stage, on_postgres


@pytest.mark.parametrize("way", ["plugin", "callback"])
async def test_a_windowed_session_erases_nothing(database_url: str, way: str) -> None:
    rebuild = on_postgres(database_url)

    async def remember(callback_context: CallbackContext) -> None:
        await callback_context.add_session_to_memory()

    def build(stage: Stage) -> App:
        callback = remember if way == "callback" else None
        agent = LlmAgent(name="root", model=stage.llm("root"), after_agent_callback=callback)
        plugins: list[BasePlugin] = [MemoryPlugin()] if way == "plugin" else []
        return App(name=APP, root_agent=agent, plugins=plugins)

    stage = Stage(rebuild, build, auto_create=True)
    window = RunConfig(get_session_config=GetSessionConfig(num_recent_events=1))
    for turn in range(4):
        stage.script("root", text(f"Answer {turn} of the quince."))
        await stage.say(f"Question {turn} of the quince", run_config=window)
    expected = [
        *(f"root: Answer {turn} of the quince." for turn in range(4)),
        *(f"user: Question {turn} of the quince" for turn in range(4)),
    ]
    assert await remembered(rebuild, "quince") == expected


async def test_all_ways_together_store_each_event_once(database_url: str) -> None:
    @asynccontextmanager
    async def rebuild() -> AsyncIterator[Services]:
        async with Database(database_url) as database:
            yield Services(
                DatabaseSessionService(database, remember=True),
                PgVectorMemoryService(database, mode="text"),
            )

    async def remember(callback_context: CallbackContext) -> None:
        await callback_context.add_session_to_memory()

    plugin = MemoryPlugin()
    stage = stage_with(rebuild, plugin, after_agent_callback=remember)
    for turn in range(3):
        stage.script("root", text(f"Answer {turn} of the quince."))
        await stage.say(f"Question {turn} of the quince")
    async with Database(database_url) as database:
        memory = PgVectorMemoryService(database, mode="text")
        assert await memory.count_memories(app_name=APP, user_id=USER) == 6
    assert len(await remembered(rebuild, "quince")) == 6


async def test_a_question_remembered_by_its_append_is_not_its_own_answer(database_url: str) -> None:
    @asynccontextmanager
    async def rebuild() -> AsyncIterator[Services]:
        async with Database(database_url) as database:
            yield Services(
                DatabaseSessionService(database, remember=True),
                PgVectorMemoryService(database, mode="text"),
            )

    def build(stage: Stage) -> App:
        agent = LlmAgent(name="root", model=stage.llm("root"), tools=[preload_memory])
        return App(name=APP, root_agent=agent)

    stage = Stage(rebuild, build, auto_create=True)
    stage.script("root", text("You have not told me."), text("Of the quince."))
    await stage.say("Where is my quince?")
    [content] = stage.parts["root"].requests[0]["contents"]
    assert content["parts"] == [{"text": "Where is my quince?"}]
    await stage.say("Tell me of my quince")
    block = stage.parts["root"].requests[1]["contents"][-2]["parts"][0]["text"]
    assert "user: Where is my quince?" in block
    assert "Tell me" not in block


async def draw(tool_context: ToolContext) -> str:
    """Draws a map."""
    await tool_context.save_artifact("harbour map.png", types.Part(text="~~~"))
    return "drawn"


async def test_an_artifact_that_a_tool_saved_is_found_by_its_name(database_url: str) -> None:
    plugin = MemoryPlugin()

    def build(stage: Stage) -> App:
        agent = LlmAgent(name="root", model=stage.llm("root"), tools=[draw, load_memory])
        return App(name=APP, root_agent=agent, plugins=[plugin])

    stage = Stage(on_postgres(database_url), build, auto_create=True)
    stage.script("root", call("draw"), text("Done."))
    await stage.say("Please draw")
    stage.script("root", call("load_memory", query="harbour map"), text("Yes."))
    stage.session_id = "two"
    [_, answered, _] = await stage.say("Did you draw something?")
    [response] = answered.get_function_responses()
    assert response.response is not None
    [found, *_] = response.response["memories"]
    assert found["artifacts"] == {"harbour map.png": 0}


class OneApp(BaseAgentLoader):
    """Gives ADK's server one app."""

    def __init__(self, app: App) -> None:
        self._app = app

    def load_agent(self, agent_name: str) -> App:
        return self._app

    def list_agents(self) -> list[str]:
        return [self._app.name]


@pytest.fixture
def served(database: Database) -> Callable[[App], httpx.AsyncClient]:
    """ADK's server with adkpg's services around one app."""

    def client(app: App) -> httpx.AsyncClient:
        server = ApiServer(
            agent_loader=OneApp(app),
            session_service=DatabaseSessionService(database),
            memory_service=PgVectorMemoryService(database, mode="text"),
            artifact_service=None,  # type: ignore[arg-type] # not used here
            credential_service=None,  # type: ignore[arg-type] # not used here
            eval_sets_manager=None,
            eval_set_results_manager=None,
            agents_dir="",
            auto_create_session=True,
        )
        transport = httpx.ASGITransport(app=server.get_fast_api_app())
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    return client


@pytest.mark.parametrize("plugged", [True, False])
async def test_the_memory_endpoint_remembers_once_with_and_without_the_plugin(
    served: Callable[[App], httpx.AsyncClient], database_url: str, plugged: bool
) -> None:
    stage = stage_with(on_postgres(database_url), MemoryPlugin())
    app = stage.build(stage)
    if not plugged:
        app = App(name=APP, root_agent=app.root_agent)
    stage.script("root", text("A quince."), text("A fine quince."))
    expected: list[str] = []
    async with served(app) as client:
        for said, answered in (("My quince", "A quince."), ("Which quince", "A fine quince.")):
            message = {"role": "user", "parts": [{"text": said}]}
            ran = await client.post(
                "/run",
                json={"appName": APP, "userId": USER, "sessionId": "one", "newMessage": message},
            )
            assert ran.status_code == 200, ran.text
            before = len(await remembered(stage.rebuild, "quince"))
            for _ in range(2):
                done = await client.patch(
                    f"/apps/{APP}/users/{USER}/memory", json={"session_id": "one"}
                )
                assert done.status_code == 200
            expected += [f"user: {said}", f"root: {answered}"]
            assert before == len(expected) - (0 if plugged else 2)
            assert await remembered(stage.rebuild, "quince") == sorted(expected)
