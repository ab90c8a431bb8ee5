"""Several agents in one session: transfers, branches, loops, workflows, hidden histories."""

from typing import Any

from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.base_agent import BaseAgent
from google.adk.apps import App
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import START, JoinNode, Workflow

from adkpg.tooling.testing.scripted_llm import call, text
from tests.fakes.stage import APP, Play, Stage


def agent(stage: Stage, name: str, **options: Any) -> LlmAgent:
    return LlmAgent(name=name, model=stage.llm(name), **options)


def app(root: BaseAgent | Workflow) -> App:
    return App(name=APP, root_agent=root)


def note(line: str, tool_context: ToolContext) -> dict[str, Any]:
    """Notes a line."""
    lines = [*tool_context.state.get("lines", []), line]
    tool_context.state["lines"] = lines
    return {"lines": len(lines)}


async def test_transfer_to_another_agent_lasts_beyond_the_turn(play: Play) -> None:
    def build(stage: Stage) -> App:
        helper = agent(stage, "helper", description="Helps.")
        return app(agent(stage, "root", sub_agents=[helper]))

    async def scenario(stage: Stage) -> None:
        stage.script("root", call("transfer_to_agent", agent_name="helper"))
        stage.script(
            "helper", text("At your service."), call("transfer_to_agent", agent_name="root")
        )
        await stage.say("I need help")
        stage.script("root", text("Back again."), text("Still here."))
        await stage.say("Enough of you")
        await stage.say("Are you there?")

    record = await play(build, scenario)
    authors = [event["author"] for event in record["sessions"][0]["events"]]
    assert authors == [
        *("user", "root", "root", "helper"),
        *("user", "helper", "helper", "root"),
        *("user", "root"),
    ]


def keep(line: str, tool_context: ToolContext) -> str:
    """Keeps a line under a key of its own: one that branches share, they overwrite."""
    tool_context.state[line] = True
    return line


async def test_parallel_agents_keep_to_their_branches(play: Play) -> None:
    def build(stage: Stage) -> App:
        names = ("north", "south", "east")
        branches: list[BaseAgent] = [
            agent(stage, name, tools=[keep], output_key=f"said_{name}") for name in names
        ]
        around = ParallelAgent(name="around", sub_agents=branches)
        merger = agent(stage, "merger", instruction="{said_north} {said_south} {said_east}")
        return app(SequentialAgent(name="root", sub_agents=[around, merger]))

    async def scenario(stage: Stage) -> None:
        for turn in ("first", "second"):
            for name in ("north", "south", "east"):
                stage.script(name, call("keep", line=f"{turn} {name}"), text(f"{turn} from {name}"))
            stage.script("merger", text(f"All of the {turn} turn."))
            await stage.say(f"The {turn} turn")

    record = await play(build, scenario)
    merged = record["requests"]["merger"]
    assert "second from north second from south second from east" in merged[1]["instruction"]
    assert "south" not in repr(record["requests"]["north"][1]["contents"])
    branches = {event.get("branch") for event in record["sessions"][0]["events"]}
    assert len(branches) > 3
    kept = {f"{turn} {name}" for turn in ("first", "second") for name in ("north", "south", "east")}
    assert kept <= record["sessions"][0]["state"].keys()


async def test_temporary_output_reaches_the_next_agent_and_no_later_turn(play: Play) -> None:
    def build(stage: Stage) -> App:
        writer = agent(stage, "writer", output_key="temp:draft")
        editor = agent(stage, "editor", instruction="Improve: {temp:draft}", output_key="final")
        return app(SequentialAgent(name="root", sub_agents=[writer, editor]))

    async def scenario(stage: Stage) -> None:
        stage.script("writer", text("a ruff draft"), text("another draft"))
        stage.script("editor", text("a rough draft"), text("one more draft"))
        await stage.say("Write")
        assert (await stage.session()).state == {"final": "a rough draft"}
        await stage.say("Again")

    record = await play(build, scenario)
    assert "Improve: another draft" in record["requests"]["editor"][1]["instruction"]
    assert record["sessions"][0]["state"] == {"final": "one more draft"}


async def test_loop_goes_on_until_a_tool_ends_it(play: Play) -> None:
    def build(stage: Stage) -> App:
        worker = agent(stage, "worker", tools=[note])
        critic = agent(stage, "critic", tools=[exit_loop], instruction="Of {lines?}")
        return app(LoopAgent(name="root", sub_agents=[worker, critic], max_iterations=5))

    async def scenario(stage: Stage) -> None:
        for line in ("one", "two"):
            stage.script("worker", call("note", line=line), text(f"Wrote {line}."))
        stage.script("critic", text("More."), call("exit_loop"))
        await stage.say("Write two lines")
        stage.script("worker", text("Nothing to add."))
        stage.script("critic", call("exit_loop"))
        await stage.say("More?")

    record = await play(build, scenario)
    assert record["sessions"][0]["state"] == {"lines": ["one", "two"]}
    assert len(record["requests"]["critic"]) == 3


async def test_workflow_joins_what_ran_beside_each_other(play: Play) -> None:
    def greet(node_input: Any) -> str:
        return "greeted"

    def build(stage: Stage) -> App:
        left, right = agent(stage, "left"), agent(stage, "right")
        join = JoinNode(name="join")
        merger = agent(stage, "merger", output_key="merged")
        edges: list[Any] = [
            (START, greet),
            (greet, (left, right)),
            ((left, right), join),
            (join, merger),
        ]
        return app(Workflow(name="root", edges=edges))

    async def scenario(stage: Stage) -> None:
        for turn in ("first", "second"):
            for name in ("left", "right", "merger"):
                stage.script(name, text(f"{turn} {name}"))
            await stage.say(f"The {turn} turn")

    record = await play(build, scenario)
    assert record["sessions"][0]["state"] == {"merged": "second merger"}


async def test_agent_that_sees_only_its_own_turn(play: Play) -> None:
    def build(stage: Stage) -> App:
        return app(agent(stage, "root", include_contents="none", tools=[note]))

    async def scenario(stage: Stage) -> None:
        stage.script("root", text("Yes."), call("note", line="two"), text("Noted."))
        await stage.say("The first question")
        await stage.say("The second question")

    record = await play(build, scenario)
    assert "first" not in repr(record["requests"]["root"][1:])
    assert len(record["sessions"][0]["events"]) == 6
