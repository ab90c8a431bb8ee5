"""What a turn sees of the turns before it: rewinds, summaries, windows, interruptions."""

import asyncio
from typing import Any

import pytest
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App, ResumabilityConfig
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkpg.tooling.testing.scripted_llm import Pause, call, text
from tests.fakes import stage as stages
from tests.fakes.stage import APP, USER, Play, Stage


async def paint(color: str, tool_context: ToolContext) -> dict[str, Any]:
    """Paints the wall."""
    tool_context.state["color"] = color
    tool_context.state[f"used {color}"] = True
    tool_context.state["user:last"] = color
    await tool_context.save_artifact("wall.txt", types.Part(text=color))
    return {"wall": color}


def build(stage: Stage, **options: Any) -> App:
    root = LlmAgent(name="root", model=stage.llm("root"), tools=[paint], output_key="answer")
    return App(name=APP, root_agent=root, **options)


def contents(record: dict[str, Any], request: int) -> str:
    return repr(record["requests"]["root"][request]["contents"])


async def test_rewound_turns_are_forgotten_with_their_state(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        for color in ("red", "green", "blue"):
            stage.script("root", call("paint", color=color), text(f"It is {color}."))
            turn = await stage.say(f"Paint it {color}")
            if color == "green":
                second = turn[0].invocation_id
        async with stage.runner() as runner:
            await runner.rewind_async(
                user_id=USER, session_id=stage.session_id, rewind_before_invocation_id=second
            )
        stage.script("root", text("It is red."), text("Still red."))
        await stage.say("Which color is it?")
        await stage.say("Sure?")

    record = await play(build, scenario)
    for request in (-2, -1):
        assert "Paint it red" in contents(record, request)
        assert "green" not in contents(record, request)
    assert record["sessions"][0]["state"] == {
        "color": "red",
        "used red": True,
        "used green": None,
        "used blue": None,
        "user:last": "blue",
        "answer": "Still red.",
    }


async def test_sliding_window_of_turns_is_summarized(play: Play) -> None:
    def compacting(stage: Stage) -> App:
        config = EventsCompactionConfig(
            summarizer=LlmEventSummarizer(llm=stage.llm("summarizer")),
            compaction_interval=2,
            overlap_size=1,
        )
        return build(stage, events_compaction_config=config)

    async def scenario(stage: Stage) -> None:
        stage.script("summarizer", text("Summary one."), text("Summary two."))
        for turn in range(1, 6):
            stage.script("root", text(f"Answer {turn}."))
            await stage.say(f"Question {turn}")

    record = await play(compacting, scenario)
    assert len(record["requests"]["summarizer"]) == 2
    assert "Summary one." in contents(record, 2)
    assert "Question 1" not in contents(record, 2)
    assert "Summary two." in contents(record, 4)
    compactions = [
        event["actions"]["compaction"]
        for event in record["sessions"][0]["events"]
        if "compaction" in event["actions"]
    ]
    assert len(compactions) == 2


async def test_long_prompts_are_summarized(play: Play) -> None:
    def compacting(stage: Stage) -> App:
        config = EventsCompactionConfig(
            summarizer=LlmEventSummarizer(llm=stage.llm("summarizer")),
            token_threshold=100,
            event_retention_size=2,
        )
        return build(stage, events_compaction_config=config)

    async def scenario(stage: Stage) -> None:
        stage.script("summarizer", text("All that was said."))
        for turn, tokens in enumerate((10, 50, 150, 20), start=1):
            stage.script("root", text(f"Answer {turn}.", tokens=tokens))
            await stage.say(f"Question {turn}")

    record = await play(compacting, scenario)
    assert "All that was said." in contents(record, 3)
    assert "Question 1" not in contents(record, 3)
    assert "Question 3" in contents(record, 3)


async def test_paused_invocation_is_resumed(play: Play) -> None:
    def approve(item: str) -> None:
        """Asks a person to approve."""

    def resumable(stage: Stage) -> App:
        first = LlmAgent(
            name="first", model=stage.llm("first"), tools=[LongRunningFunctionTool(approve)]
        )
        second = LlmAgent(name="second", model=stage.llm("second"))
        return App(
            name=APP,
            root_agent=SequentialAgent(name="root", sub_agents=[first, second]),
            resumability_config=ResumabilityConfig(is_resumable=True),
        )

    async def scenario(stage: Stage) -> None:
        stage.script("first", call("approve", item="lamp"), text("Approved."))
        events = await stage.say("May I have a lamp?")
        assert not stage.parts["second"].requests
        [asked] = [each for event in events for each in event.get_function_calls()]
        answer = types.FunctionResponse(id=asked.id, name=asked.name, response={"approved": True})
        stage.script("second", text("Bought."), text("A nice lamp."))
        await stage.say(types.Part(function_response=answer), invocation_id=events[0].invocation_id)
        stage.script("first", text("You have it."))
        await stage.say("Where is it?")

    record = await play(resumable, scenario)
    events = record["sessions"][0]["events"]
    assert len({event["invocation_id"] for event in events}) == 2
    assert any(event["actions"].get("end_of_agent") for event in events)


async def test_session_is_created_by_the_runner(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        stage.script("root", text("Hello."), text("Again."))
        await stage.say("Hello", state_delta={"greeted": True})
        await stage.say("Hello again")

    record = await play(build, scenario, create=False)
    assert record["sessions"][0]["state"] == {"greeted": True, "answer": "Again."}


async def test_streamed_pieces_are_yielded_and_only_the_whole_is_stored(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        stage.script(
            "root",
            [text("Good ", partial=True), text("day.", partial=True), text("Good day.")],
            [text("Bye", partial=True), text("Bye.")],
        )
        streaming = RunConfig.model_validate({"streaming_mode": "sse"})
        for message in ("Hello", "Goodbye"):
            await stage.say(message, run_config=streaming)

    record = await play(build, scenario)
    assert [event.get("partial") for event in record["yielded"]] == [True, True, None, True, None]
    assert [event["author"] for event in record["sessions"][0]["events"]] == ["user", "root"] * 2


async def test_windowed_session_sees_its_last_events_and_all_of_its_state(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        stage.script("root", call("paint", color="red"))
        windows = (None, 2, 1, 0)
        for turn, recent in enumerate(windows, start=1):
            stage.script("root", text(f"Answer {turn}."))
            config = GetSessionConfig(num_recent_events=recent) if recent is not None else None
            await stage.say(f"Question {turn}", run_config=RunConfig(get_session_config=config))

    record = await play(build, scenario)
    assert "Question 1" not in contents(record, 2)
    assert "Answer 1." in contents(record, 2)
    assert "Answer 3." not in contents(record, 4)
    assert record["sessions"][0]["state"]["color"] == "red"
    assert len(record["sessions"][0]["events"]) == 10


async def interrupt(stage: Stage, *, abort: bool = False) -> None:
    """Begins a turn, and cancels it while the model is asked for the second time."""
    pause, signal = Pause(), asyncio.Event()
    stage.script("root", call("paint", color="red"), pause)
    turn = asyncio.create_task(stage.say("Paint it red", abort_signal=signal))
    await pause.reached.wait()
    if abort:
        signal.set()
    turn.cancel()
    await asyncio.wait([turn])


@pytest.mark.parametrize("abort", [False, True])
async def test_conversation_goes_on_after_an_interrupted_turn(play: Play, abort: bool) -> None:
    async def scenario(stage: Stage) -> None:
        await interrupt(stage, abort=abort)
        stage.script("root", text("Red, as far as I know."), text("Yes."))
        await stage.say("What happened?")
        await stage.say("Sure?")

    record = await play(build, scenario)
    assert "Paint it red" in contents(record, -1)
    assert "Red, as far as I know." in contents(record, -1)
    [session] = record["sessions"]
    assert session["state"]["color"] == "red"
    sealed = ["error_code" in event for event in session["events"]]
    assert any(sealed) == abort


async def test_interrupted_invocation_is_resumed_where_it_was(play: Play) -> None:
    def resumable(stage: Stage) -> App:
        return build(stage, resumability_config=ResumabilityConfig(is_resumable=True))

    async def scenario(stage: Stage) -> None:
        await interrupt(stage)
        [invocation_id] = {event.invocation_id for event in (await stage.session()).events}
        stage.script("root", text("It is red."), text("Red."))
        await stage.say(None, invocation_id=invocation_id)
        await stage.say("Which color?")

    record = await play(resumable, scenario)
    [session] = record["sessions"]
    said = [event for event in session["events"] if event["author"] == "user"]
    assert len(said) == 2
    assert len(record["requests"]["root"]) == 4
    assert session["state"]["answer"] == "Red."


async def test_synchronous_run_works_twice_with_the_same_services(database_url: str) -> None:
    records = []
    for rebuild in (stages.in_memory(), stages.on_postgres(database_url)):
        stage = Stage(rebuild, build)
        await stage.create()
        stage.script("root", text("One."), text("Two."), text("Three."))

        def say_twice(runner: Any, stage: Stage) -> None:
            for message in ("First", "Second"):
                content = types.Content(role="user", parts=[types.Part(text=message)])
                stage.yielded += list(
                    runner.run(user_id=USER, session_id=stage.session_id, new_message=content)
                )

        async with stage.runner() as runner:
            await asyncio.to_thread(say_twice, runner, stage)
        await stage.say("Third")
        records.append(await stage.record())
    expected, found = records
    assert found == expected
    assert len(found["sessions"][0]["events"]) == 6
