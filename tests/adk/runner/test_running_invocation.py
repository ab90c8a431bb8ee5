"""A turn that is still running is not recalled to itself, whoever asks memory for it."""

import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.load_memory_tool import load_memory_tool as load_memory
from google.adk.tools.preload_memory_tool import preload_memory_tool as preload_memory
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.memory.invocation import running_invocation
from adkpg.tooling.testing.scripted_llm import call, text
from adkpg.tools import LoadMemoryTool, PreloadMemoryTool
from tests.fakes.stage import APP, USER, Services, Stage
from tests.fakes.tool_stage import answers, sent

EARLIER = "The quince grows behind the shed"
ASKED = "Where does the quince grow?"


@pytest.fixture
async def services(database: Database) -> Services:
    """Sessions whose appends remember, and the memory beside them; an earlier session is in it."""
    sessions = DatabaseSessionService(database, remember=True)
    session = await sessions.create_session(app_name=APP, user_id=USER, session_id="earlier")
    said = types.Content(role="user", parts=[types.Part(text=EARLIER)])
    await sessions.append_event(session, Event(invocation_id="e-1", author="user", content=said))
    return Services(sessions, PgVectorMemoryService(database, mode="text"))


def stage_of(services: Services, build: Any) -> Stage:
    @asynccontextmanager
    async def same() -> AsyncIterator[Services]:
        yield services

    return Stage(same, build, auto_create=True)


def agent(stage: Stage, *tools: Any, name: str = "root", **options: Any) -> LlmAgent:
    return LlmAgent(name=name, model=stage.llm(name), tools=list(tools), **options)


def words(answer: dict[str, Any]) -> list[str]:
    """The texts of ``load_memory``'s answer, ADK's or adkpg's."""
    memories = answer["memories"] if "memories" in answer else answer["result"].memories
    texts = []
    for memory in memories:
        known = memory if isinstance(memory, dict) else memory.model_dump()
        content = known.get("content")
        texts.append(content["parts"][0]["text"] if content else known["text"])
    return sorted(texts)


@pytest.mark.parametrize("tool", [load_memory, LoadMemoryTool()], ids=["ADK's", "adkpg's"])
async def test_load_memory_finds_other_turns_and_not_the_running_one(
    services: Services, tool: Any
) -> None:
    stage = stage_of(services, lambda stage: App(name=APP, root_agent=agent(stage, tool)))
    stage.script("root", call("load_memory", query=ASKED), text("Behind the shed."))
    [answer] = answers(await stage.say(ASKED), "load_memory")
    assert words(answer) == [EARLIER]
    # The first run is over: what was said in it is memory for the next, in the same task.
    stage.script("root", call("load_memory", query=ASKED), text("As I said."))
    [answer] = answers(await stage.say("Say it once more, of the quince"), "load_memory")
    assert words(answer) == ["Behind the shed.", EARLIER, ASKED]


@pytest.mark.parametrize("tool", [preload_memory, PreloadMemoryTool()], ids=["ADK's", "adkpg's"])
async def test_preload_memory_does_not_answer_a_question_with_itself(
    services: Services, tool: BaseTool
) -> None:
    stage = stage_of(services, lambda stage: App(name=APP, root_agent=agent(stage, tool)))
    stage.script("root", text("Behind the shed."), text("Yes."))
    await stage.say(ASKED)
    [block, question] = sent(stage, 0)
    assert (EARLIER in block, ASKED in block, question) == (True, False, ASKED)
    stage.session_id = "two"
    await stage.say("Is the quince there still?")
    [block, question] = sent(stage, 1)
    assert (ASKED in block, question in block) == (True, False)


async def test_the_second_agent_of_a_sequence_is_in_the_same_turn(services: Services) -> None:
    def build(stage: Stage) -> App:
        team: list[BaseAgent] = [
            agent(stage, name="gardener"),
            agent(stage, load_memory, name="cook"),
        ]
        return App(name=APP, root_agent=SequentialAgent(name="team", sub_agents=team))

    stage = stage_of(services, build)
    stage.script("gardener", text("The quince is somewhere."))
    stage.script("cook", call("load_memory", query="quince"), text("Behind the shed."))
    [answer] = answers(await stage.say(ASKED), "load_memory")
    assert words(answer) == [EARLIER]


async def test_an_agent_that_is_a_tool_is_not_told_the_turn_it_serves(services: Services) -> None:
    own = LoadMemoryTool(memory_service=services.memory)

    def build(stage: Stage) -> App:
        inner = agent(stage, own, name="gardener", description="Knows the garden.")
        return App(name=APP, root_agent=agent(stage, AgentTool(inner)))

    stage = stage_of(services, build)
    stage.script("root", call("gardener", request="quince"), text("Behind the shed."))
    stage.script("gardener", call("load_memory", query="quince"), text("Behind the shed."))
    await stage.say(ASKED)
    [[answer]] = [
        [part["function_response"]["response"] for part in content["parts"]]
        for content in stage.parts["gardener"].requests[1]["contents"]
        if "function_response" in content["parts"][0]
    ]
    assert words(answer) == [EARLIER]


async def test_a_function_of_the_application_is_not_told_the_turn_either(
    services: Services,
) -> None:
    async def look_up(query: str, tool_context: ToolContext) -> list[str]:
        """Looks something up."""
        assert isinstance(services.memory, PgVectorMemoryService)
        hits = await services.memory.search(app_name=APP, user_id=USER, query=query)
        return [str(part.text) for hit in hits for part in hit.memory.content.parts or []]

    stage = stage_of(services, lambda stage: App(name=APP, root_agent=agent(stage, look_up)))
    stage.script("root", call("look_up", query="quince"), text("Behind the shed."))
    [answer] = answers(await stage.say(ASKED), "look_up")
    assert answer["result"] == [EARLIER]
    found = await services.memory.search_memory(app_name=APP, user_id=USER, query="quince grow")
    assert len(found.memories) == 3, "after the run the turn is memory"


class Custom(BaseAgent):
    """An agent of the application's own."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(
            invocation_id=ctx.invocation_id,
            author=self.name,
            content=types.Content(parts=[types.Part(text=str(running_invocation()))]),
        )


async def test_the_running_invocation_is_known_to_agents_and_instructions_and_ends_with_the_run(
    services: Services,
) -> None:
    seen: list[str | None] = []

    async def instruction(context: ReadonlyContext) -> str:
        seen.append(running_invocation())
        return "Be brief."

    def build(stage: Stage) -> App:
        team = [agent(stage, name="first", instruction=instruction), Custom(name="second")]
        return App(name=APP, root_agent=SequentialAgent(name="team", sub_agents=team))

    stage = stage_of(services, build)
    stage.script("first", text("Well."))
    events = await stage.say(ASKED)
    [said] = [event.content for event in events if event.author == "second"]
    assert said is not None
    assert said.parts is not None
    assert seen == [events[0].invocation_id] == [said.parts[0].text]
    assert running_invocation() is None


@pytest.mark.program
def test_it_is_known_also_where_asyncio_run_was_replaced() -> None:
    """As a notebook's nest_asyncio does, whose file lies where ADK does."""
    code = (
        "import asyncio, functools\n"
        "run = asyncio.run\n"
        "asyncio.run = functools.partial(run)\n"
        "from google.adk.agents.invocation_context import InvocationContext\n"
        "from adkpg.memory.invocation import running_invocation\n"
        "async def ask(context): return running_invocation()\n"
        "print(run(ask(InvocationContext.model_construct(invocation_id='mine'))))"
    )
    asked = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert asked.stdout.strip() == "mine", asked.stderr
