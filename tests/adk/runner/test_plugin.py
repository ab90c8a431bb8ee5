"""MemoryPlugin: turns of the real Runner become memory by themselves."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence

import pytest
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions.session import Session
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from adkpg import Database, PgVectorMemoryService
from adkpg.adk import MemoryPlugin
from adkpg.remember.policy import RememberPolicy
from adkpg.tooling.testing.scripted_llm import Pause, call, text
from tests.fakes.capture_stage import on, remembered, stage_with
from tests.fakes.stage import APP, USER, Rebuild, Stage, in_memory, on_postgres


@pytest.fixture(params=["adk", "postgres"])
def rebuild(request: pytest.FixtureRequest, database_url: str) -> Rebuild:
    return in_memory() if request.param == "adk" else on_postgres(database_url)


class FailingMemory(InMemoryMemoryService):
    """Refuses to remember until it is mended."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = True
        self.calls = 0

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        self.calls += 1
        if self.broken:
            raise OSError("no route")
        await super().add_events_to_memory(
            app_name=app_name, user_id=user_id, events=events, session_id=session_id
        )


class SessionsOnlyMemory(BaseMemoryService):
    """Takes whole sessions only, as ADK asks of every memory service."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []

    async def add_session_to_memory(self, session: Session) -> None:
        self.sessions.append(session)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        return SearchMemoryResponse()


async def test_each_turn_is_remembered_by_what_was_said(rebuild: Rebuild) -> None:
    stage = stage_with(rebuild, MemoryPlugin(), output_key="answer")
    thinking = text("A quince, yes.")
    assert thinking.content is not None
    thinking.content.parts = [
        types.Part(text="The quince is a fruit.", thought=True),
        types.Part(text="A quince, yes."),
    ]
    stage.script("root", call("note", line="quince"), thinking)
    await stage.say("I planted a quince")
    assert await remembered(rebuild, "quince") == [
        "root: A quince, yes.",
        "user: I planted a quince",
    ]
    stage.script("root", text("The quince needs water."))
    await stage.say("What does the quince need?")
    assert await remembered(rebuild, "quince") == [
        "root: A quince, yes.",
        "root: The quince needs water.",
        "user: I planted a quince",
        "user: What does the quince need?",
    ]


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")
async def test_several_agents_of_a_turn_are_remembered_once(rebuild: Rebuild) -> None:
    plugin = MemoryPlugin()

    async def remember(callback_context: CallbackContext) -> None:
        await callback_context.add_session_to_memory()

    def build(stage: Stage) -> App:
        child = LlmAgent(name="child", model=stage.llm("child"))
        first = LlmAgent(name="first", model=stage.llm("first"), tools=[AgentTool(child)])
        second = LlmAgent(name="second", model=stage.llm("second"), after_agent_callback=remember)
        root = SequentialAgent(name="root", sub_agents=[first, second])
        return App(name=APP, root_agent=root, plugins=[plugin])

    stage = Stage(rebuild, build, auto_create=True)
    stage.script("first", call("child", request="Tell of a quince"), text("The first quince."))
    stage.script("child", text("The child's quince."))
    stage.script("second", text("The second quince."))
    await stage.say("Quince?")
    # What an agent asks another as a tool, and is answered, is tool traffic.
    assert await remembered(rebuild, "quince") == [
        "first: The first quince.",
        "second: The second quince.",
        "user: Quince?",
    ]


async def test_the_policy_decides_and_the_metadata_is_kept(
    database: Database, database_url: str
) -> None:
    policy = RememberPolicy(authors=["user"], redact=lambda said: said.replace("4111", "[card]"))
    plugin = MemoryPlugin(policy, custom_metadata={"channel": "voice"})
    stage = stage_with(on_postgres(database_url), plugin)
    stage.script("root", text("Noted: 4111."))
    await stage.say("My card is 4111")
    memory = PgVectorMemoryService(database, mode="text")
    found = await memory.search_memory(app_name=APP, user_id=USER, query="card 4111 noted")
    [kept] = found.memories
    assert kept.content.parts is not None
    assert kept.content.parts[0].text == "My card is [card]"
    assert kept.custom_metadata["channel"] == "voice"
    assert "4111" not in kept.model_dump_json()


async def test_a_turn_that_fails_is_remembered_as_far_as_it_came(rebuild: Rebuild) -> None:
    def fail(callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        raise RuntimeError("out of order")

    stage = stage_with(rebuild, MemoryPlugin(), after_model_callback=fail)
    stage.script("root", text("Never said."))
    with pytest.raises(RuntimeError, match="out of order"):
        await stage.say("I planted a quince")
    assert await remembered(rebuild, "quince") == ["user: I planted a quince"]


async def test_a_turn_whose_caller_stops_reading_is_remembered(rebuild: Rebuild) -> None:
    stage = stage_with(rebuild, MemoryPlugin())
    stage.script("root", call("note", line="a"), text("Never read."))
    message = types.Content(role="user", parts=[types.Part(text="I planted a quince")])
    async with stage.runner() as runner:
        turn = runner.run_async(user_id=USER, session_id="one", new_message=message)
        await anext(turn)
        await turn.aclose()
    assert await remembered(rebuild, "quince") == ["user: I planted a quince"]


async def cancelled(stage: Stage, said: str) -> None:
    """Cancels the task of a turn while the model is thinking."""
    pause = Pause()
    stage.script("root", pause)
    turn = asyncio.create_task(stage.say(said))
    await pause.reached.wait()
    turn.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await turn


async def test_a_cancelled_turn_is_remembered_with_the_next_of_its_session() -> None:
    rebuild = on(InMemoryMemoryService())
    stage = stage_with(rebuild, MemoryPlugin())
    await cancelled(stage, "I planted a quince")
    assert await remembered(rebuild, "quince") == []
    stage.session_id = "two"
    stage.script("root", text("Hello."))
    await stage.say("Hi")
    assert await remembered(rebuild, "quince") == []
    stage.session_id = "one"
    stage.script("root", text("Hello again."))
    await stage.say("Hi again")
    assert await remembered(rebuild, "quince") == ["user: I planted a quince"]


async def test_a_cancelled_turn_is_remembered_when_the_runner_is_closed() -> None:
    rebuild = on(InMemoryMemoryService())
    stage = stage_with(rebuild, MemoryPlugin())
    await cancelled(stage, "I planted a quince")
    async with stage.runner() as runner:
        await runner.close()
    assert await remembered(rebuild, "quince") == ["user: I planted a quince"]


async def test_a_memory_that_fails_costs_the_turn_nothing_and_gets_it_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = FailingMemory()
    stage = stage_with(on(memory), MemoryPlugin())
    stage.script("root", text("A quince."), text("A fine quince."), text("Hello."))
    with caplog.at_level(logging.ERROR, "adkpg.adk"):
        events = await stage.say("I planted a quince")
    assert events[-1].is_final_response()
    assert "could not be remembered yet" in caplog.text
    assert "no route" in caplog.text
    await stage.say("What is it?")
    # The second turn found the memory broken, and did not try the first one's again.
    assert memory.calls == 2
    memory.broken = False
    stage.session_id = "two"
    await stage.say("Hi")
    assert await remembered(on(memory), "quince") == [
        "root: A fine quince.",
        "root: A quince.",
        "user: I planted a quince",
    ]
    assert memory.calls == 5


async def test_turns_that_wait_are_remembered_when_the_runner_is_closed() -> None:
    memory = FailingMemory()
    stage = stage_with(on(memory), MemoryPlugin())
    stage.script("root", text("A quince."), text("Two quinces."))
    await stage.say("I planted a quince")
    await stage.say("And another quince")
    async with stage.runner() as runner:
        await runner.close()
        assert memory.calls == 3
        memory.broken = False
        await runner.close()
    assert await remembered(on(memory), "quince") == [
        "root: A quince.",
        "user: And another quince",
        "user: I planted a quince",
    ]


async def test_turns_that_wait_are_bounded(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adkpg.adk.plugin._TURNS_KEPT", 2)
    memory = FailingMemory()
    stage = stage_with(on(memory), MemoryPlugin())
    for turn in range(4):
        stage.session_id = f"session {turn}"
        stage.script("root", text("Hm."))
        await stage.say(f"quince {turn}")
    assert "A turn of session session 0 is not remembered" in caplog.text
    memory.broken = False
    async with stage.runner() as runner:
        await runner.close()
    assert await remembered(on(memory), "quince") == ["user: quince 2", "user: quince 3"]


async def test_without_a_memory_service_it_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    stage = stage_with(on(None), MemoryPlugin())
    stage.script("root", text("Hello."), text("Hello."))
    await stage.say("Hi")
    await stage.say("Hi")
    assert caplog.text.count("has no memory service") == 1


async def test_a_service_of_whole_sessions_is_given_them() -> None:
    memory = SessionsOnlyMemory()
    stage = stage_with(on(memory), MemoryPlugin(), output_key="answer")
    stage.script("root", call("note", line="a"), text("One."), text("Two."))
    await stage.say("First")
    await stage.say("Second")
    first, second = memory.sessions
    said = [
        [
            part.text
            for event in session.events
            if event.content
            for part in event.content.parts or []
        ]
        for session in (first, second)
    ]
    assert said == [["First", "One."], ["First", "One.", "Second", "Two."]]
    assert (second.app_name, second.user_id, second.id, second.state) == (APP, USER, "one", {})
    assert len((await stage.session()).events) == 6
