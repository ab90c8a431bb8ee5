"""How much a run of an agent loads: what the server reads; rewinds, and resumed runs."""

import re
from typing import Any

import pytest
from google.adk.agents.llm_agent import Agent
from google.adk.apps.app import App, EventsCompactionConfig, ResumabilityConfig
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

import adkpg
from adkpg import Database, DatabaseSessionService, Settings
from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.sessions.run_history import outline, reading, statements
from adkpg.testing import said
from adkpg.testing.conformance.sessions import KEY
from adkpg.testing.scripted_llm import ScriptedLlm, call
from tests.fakes.adk_history import Story, Summarizer, outlines, part_of, tell, told
from tests.fakes.roles import GUARDED, guarded_roles

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL:UserWarning")
ID = KEY | {"session_id": "s"}


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are long from their first event on."""
    monkeypatch.setattr(reading, "_WHOLE", 0)


@pytest.fixture
def needing(database: Database) -> DatabaseSessionService:
    return DatabaseSessionService(database, run_history="needed")


async def stored(service: DatabaseSessionService, events: list[Event]) -> None:
    session = await service.create_session(**ID)
    for event in events:
        await service.append_event(session, event)


def ids(events: list[Event]) -> list[str]:
    return [event.id for event in events]


async def run(service: DatabaseSessionService, config: GetSessionConfig | None = None) -> Session:
    """Loads the session as a run does."""
    session = await service.get_session(**ID, config=config)
    assert session is not None
    return session


@pytest.fixture
def events() -> list[Event]:
    steps: list[tuple[Any, ...]] = [
        ("turn", "root", 2, "ends"),
        ("turn", "helper", 1, "waits"),
        ("task", "ends"),
        ("turn", "root", 1, "asks"),
        ("compact", 1, 0),
        *[("turn", "root", 1, "ends")] * 5,
        ("rewind", 1),
        ("task", "stops"),
        ("state",),
        ("turn", "root", 0, "ends"),
        ("compact", 2, 1),
        ("turn", "root", 1, "ends"),
    ]
    story = told(steps)
    odd = 'nul \0 bell \7 half \ud800 quote " \\u0000 é 🦫'
    story.add("root", types.Part(text=odd), invocation="odd", branch="root.helper")
    return story.events


# What is read


async def test_the_server_outlines_events_as_the_reader_does(
    needing: DatabaseSessionService, database: Database, long: None, events: list[Event]
) -> None:
    await stored(needing, events)
    row = await database.fetch_one(statements.select_outlined_session(), {**ID, "whole": 0})
    assert row is not None
    assert [outline.read(text) for text in row["outlines"]] == outlines(events)
    assert any('"raw"' in text for text in row["outlines"])


async def test_a_run_loads_what_it_needs_and_everybody_else_loads_all(
    needing: DatabaseSessionService, long: None, events: list[Event]
) -> None:
    await stored(needing, events)
    part = await run(needing)
    assert ids(part.events) == ids(part_of(events))
    assert len(part.events) < len(events)
    whole = await needing.get_session(**ID)
    assert whole is not None
    assert ids(whole.events) == ids(events)
    assert part.state == whole.state
    assert part.last_update_time == whole.last_update_time
    assert ids((await run(needing, GetSessionConfig())).events) == ids(events)
    recent = await run(needing, GetSessionConfig(num_recent_events=2))
    assert ids(recent.events) == ids(events[-2:])
    await needing.append_event(part, said("after"))
    with pytest.raises(adkpg.errors.StaleSession):
        await needing.append_event(whole, said("too late"))


async def test_by_default_a_run_loads_all(
    sessions: DatabaseSessionService, events: list[Event]
) -> None:
    await stored(sessions, events)
    assert ids((await run(sessions)).events) == ids(events)


@pytest.mark.parametrize(("last", "expected"), [(1, 4), (8, 8), (9, 12)])
async def test_a_number_is_of_the_last_events_in_whole_invocations(
    database: Database, last: int, expected: int
) -> None:
    service = DatabaseSessionService(database, run_history=last)
    story = Story()
    for _ in range(5):
        tell(story, "root", 1, "ends")
    await stored(service, story.events)
    assert ids((await run(service)).events) == ids(story.events[-expected:])


async def test_a_short_session_is_one_round_trip_and_whole(
    needing: DatabaseSessionService, monkeypatch: pytest.MonkeyPatch, events: list[Event]
) -> None:
    await stored(needing, events)

    def refused() -> Any:
        raise AssertionError("The session is read twice.")

    monkeypatch.setattr(statements, "select_chosen_events", refused)
    assert ids((await run(needing)).events) == ids(events)


async def test_many_needed_events_come_in_pages(
    needing: DatabaseSessionService,
    long: None,
    monkeypatch: pytest.MonkeyPatch,
    events: list[Event],
) -> None:
    await stored(needing, events)
    for name, value in (("_PAGE_EVENTS", 3), ("_PAGE_BYTES", 900), ("_SLICE", 5)):
        monkeypatch.setattr(reading, name, value)
    assert ids((await run(needing)).events) == ids(part_of(events))


async def test_no_session_is_none(needing: DatabaseSessionService, long: None) -> None:
    assert await needing.get_session(**ID, config=None) is None
    await stored(needing, [])
    assert (await run(needing)).events == []


@pytest.mark.race
async def test_a_session_deleted_between_its_outline_and_its_events_is_none(
    needing: DatabaseSessionService,
    long: None,
    monkeypatch: pytest.MonkeyPatch,
    events: list[Event],
) -> None:
    await stored(needing, events)
    read = reading._read

    async def deleted_meanwhile(texts: Any) -> Any:
        await needing.delete_session(**ID)
        return await read(texts)

    monkeypatch.setattr(reading, "_read", deleted_meanwhile)
    assert await needing.get_session(**ID, config=None) is None


@pytest.mark.parametrize("wrong", [-1, "all", True, 1.5])
def test_what_is_no_run_history_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="neither 'whole' nor 'needed' nor a number"):
        DatabaseSessionService("postgresql://localhost/db", run_history=wrong)


@pytest.mark.parametrize(("told", "expected"), [("needed", "needed"), ("300", 300), ("", "whole")])
def test_the_environment_may_say_it(
    monkeypatch: pytest.MonkeyPatch, told: str, expected: str | int
) -> None:
    monkeypatch.setenv("ADKPG_RUN_HISTORY", told)
    assert Settings().run_history == expected


# What runs make of it


def remember(color: str, tool_context: ToolContext) -> str:
    tool_context.state["color"] = color
    tool_context.state["set by"] = tool_context.invocation_id
    return f"noted {color}"


async def paint(color: str, tool_context: ToolContext) -> str:
    version = await tool_context.save_artifact("wall.txt", types.Part(text=color))
    return f"version {version}"


def approve(what: str) -> None:
    """Waits for somebody's approval."""


def runner_of(service: DatabaseSessionService, answers: list[Any], artifacts: Any = None) -> Runner:
    agent = Agent(
        name="root",
        model=ScriptedLlm.answering(*answers),
        tools=[remember, paint, LongRunningFunctionTool(approve)],
    )
    app = App(
        name="app",
        root_agent=agent,
        events_compaction_config=EventsCompactionConfig(
            compaction_interval=3, overlap_size=1, summarizer=Summarizer()
        ),
        resumability_config=ResumabilityConfig(is_resumable=True),
    )
    return Runner(app=app, session_service=service, artifact_service=artifacts)


async def turns(runner: Runner, *messages: str | types.Part, **options: Any) -> list[str]:
    """Returns the invocations."""
    invocations = []
    for message in messages:
        part = types.Part(text=message) if isinstance(message, str) else message
        events = [
            event
            async for event in runner.run_async(
                user_id="user",
                session_id="s",
                new_message=types.Content(role="user", parts=[part]),
                **options,
            )
        ]
        invocations.append(events[0].invocation_id)
    return invocations


def contents(runner: Runner) -> list[Any]:
    agent: Any = runner.agent
    return [request["contents"] for request in agent.model.requests]


COLORS = [f"color {number}" for number in range(12)]


def day() -> list[str | LlmResponse]:
    """Answers of twelve turns, each with a tool."""
    answers: list[str | LlmResponse] = []
    for number, color in enumerate(COLORS):
        answers += [call("paint" if number % 3 == 0 else "remember", color=color), f"did {color}"]
    return answers


async def test_runs_send_the_model_the_same_and_rewind_to_anywhere(
    database: Database, long: None
) -> None:
    """The same day with each history: prompts, summaries, and states after a rewind are equal."""
    ends = []
    for run_history in ("whole", "needed", 500):
        service = DatabaseSessionService(database, run_history=run_history)
        artifacts = InMemoryArtifactService()
        await service.delete_session(**ID)
        await service.create_session(**ID)
        runner = runner_of(service, [*day(), "and on", "and on again"], artifacts)
        invocations = await turns(runner, *COLORS)
        place: dict[str, Any] = {"user_id": "user", "session_id": "s"}
        await runner.rewind_async(**place, rewind_before_invocation_id=invocations[8])
        await turns(runner, "after a rewind")
        await runner.rewind_async(**place, rewind_before_invocation_id=invocations[2])
        await turns(runner, "after a rewind to the start")
        session = await service.get_session(**ID)
        assert session is not None
        assert session.state["set by"] == invocations[1]
        session.state["set by"] = "checked"
        wall = await artifacts.load_artifact(**ID, filename="wall.txt")
        part = len((await run(service)).events)
        ends.append((contents(runner), session.state, wall, part, len(session.events)))
    whole, needed, many = ends
    assert whole[2] == types.Part(text="color 0")
    assert whole[1] == {"color": "color 1", "set by": "checked"}
    assert plain(needed[:3]) == plain(whole[:3]) == plain(many[:3])
    assert whole[4] == needed[4]
    assert needed[3] < whole[3]


def plain(end: Any) -> str:
    """Without the ids, which are new each time."""
    return re.sub(r"(adk-)?[0-9a-f]{8}-[0-9a-f-]{27}", "id", repr(end))


async def test_a_run_that_waited_goes_on_after_all_was_summarized(
    needing: DatabaseSessionService, long: None
) -> None:
    await needing.create_session(**ID)
    answers = [*day(), call("approve", what="a loan"), *day(), "It was approved."]
    runner = runner_of(needing, answers, InMemoryArtifactService())
    await turns(runner, *COLORS)
    (waiting,) = await turns(runner, "Give me a loan.")
    whole = await needing.get_session(**ID)
    assert whole is not None
    calls = [each for event in whole.events for each in event.get_function_calls()]
    (asked,) = [each for each in calls if each.name == "approve"]
    await turns(runner, *COLORS)
    part = await run(needing)
    assert len(part.events) < len((await run(needing, GetSessionConfig())).events)
    answer = types.FunctionResponse(id=asked.id, name="approve", response={"status": "yes"})
    (resumed,) = await turns(runner, types.Part(function_response=answer))
    assert resumed == waiting
    assert "a loan" in str(contents(runner)[-1])


async def test_a_rewind_by_hand_of_what_a_run_loaded_is_refused(
    needing: DatabaseSessionService, long: None, events: list[Event]
) -> None:
    await stored(needing, events)
    rewind = Event(author="user", actions=EventActions(rewind_before_invocation_id="i1"))
    with pytest.raises(InvalidInput, match="load it again with get_session"):
        await needing.append_event(await run(needing), rewind)
    whole = await needing.get_session(**ID)
    assert whole is not None
    await needing.append_event(whole, rewind)
    assert (await run(needing)).events == []


async def test_a_run_under_row_level_security_reads_its_own(
    database_url: str, needing: DatabaseSessionService, long: None, events: list[Event]
) -> None:
    await stored(needing, events)
    async with (
        guarded_roles(database_url) as roles,
        Database(roles.url("serve"), settings=GUARDED) as guarded,
    ):
        service = DatabaseSessionService(guarded, run_history="needed")
        with adkpg.scope(**KEY):
            assert ids((await run(service)).events) == ids(part_of(events))
        with adkpg.scope(app_name="app", user_id="other"):
            assert await service.get_session(**ID, config=None) is None
