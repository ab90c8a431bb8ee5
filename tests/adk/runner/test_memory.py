"""ADK's own ways to remember and recall."""

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.tools.load_memory_tool import load_memory
from google.adk.tools.preload_memory_tool import preload_memory_tool

from adkpg.tooling.testing.scripted_llm import call, text
from tests.fakes.stage import APP, Play, Stage


async def remember(callback_context: CallbackContext) -> None:
    await callback_context.add_session_to_memory()


def remembering(*tools: Any) -> Any:
    def build(stage: Stage) -> App:
        agent = LlmAgent(
            name="root",
            model=stage.llm("root"),
            tools=list(tools),
            after_agent_callback=remember,
        )
        return App(name=APP, root_agent=agent)

    return build


async def tell(stage: Stage) -> None:
    """Two sessions that are remembered turn by turn; the stage is left in a third.

    What is said beside a hit speaks of the same, since adkpg finds a turn by its neighbours too.
    """
    stage.script(
        "root",
        text("A quince tree is a fine tree."),
        text("Every quince tree needs it."),
        text("Trams are slow."),
    )
    await stage.say("I planted a quince tree")
    await stage.say("Does the quince need water?")
    stage.session_id = "two"
    await stage.create()
    await stage.say("Trams are late")
    stage.session_id = "three"
    await stage.create()


async def test_session_is_recalled_from_another_through_load_memory(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        await tell(stage)
        stage.script("root", call("load_memory", query="quince"), text("A quince tree."))
        await stage.say("What did I plant?")
        stage.script("root", call("load_memory", query="zeppelin"), text("I do not know."))
        await stage.say("Do I own a zeppelin?")

    record = await play(remembering(load_memory), scenario)
    requests = record["requests"]["root"]
    assert "I planted a quince tree" in repr(requests[4]["contents"])
    assert "Trams" not in repr(requests[4]["contents"])
    [*_, last] = requests[-1]["contents"]
    assert last["parts"][0]["function_response"]["response"]["result"]["memories"] == []


async def test_memory_is_preloaded_into_the_request_only(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        await tell(stage)
        stage.script("root", text("You did."), text("Hello."))
        await stage.say("quince")
        await stage.say("zzz")

    record = await play(remembering(preload_memory_tool), scenario)
    recalled, unrelated = (repr(request["contents"]) for request in record["requests"]["root"][3:])
    assert "PAST_CONVERSATIONS" in recalled
    assert "user: I planted a quince tree" in recalled
    assert "PAST_CONVERSATIONS" not in unrelated
    assert "PAST_CONVERSATIONS" not in repr(record["sessions"])
