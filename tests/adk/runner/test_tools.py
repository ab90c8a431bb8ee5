"""Tools: rounds, several at once, long-running ones, credentials, confirmations, artifacts."""

from typing import Any

from fastapi.openapi.models import APIKey
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes
from google.adk.auth.auth_tool import AuthConfig
from google.adk.events.event import Event
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkpg.tooling.testing.scripted_llm import call, calls, text
from tests.fakes.stage import APP, Play, Stage


def weather(city: str, tool_context: ToolContext) -> dict[str, Any]:
    """Tells the weather."""
    asked = tool_context.state.get("asked", 0) + 1
    tool_context.state.update(
        {"asked": asked, "user:city": city, "app:source": "almanac", "temp:secret": city}
    )
    return {"city": city, "sky": "clear", "asked": asked}


def agent_with(*tools: Any) -> Any:
    def build(stage: Stage) -> App:
        agent = LlmAgent(
            name="root", model=stage.llm("root"), tools=list(tools), output_key="answer"
        )
        return App(name=APP, root_agent=agent)

    return build


def function_call(events: list[Event], name: str) -> types.FunctionCall:
    [found] = [each for event in events for each in event.get_function_calls() if each.name == name]
    return found


def response_to(found: types.FunctionCall, response: dict[str, Any]) -> types.Part:
    return types.Part(
        function_response=types.FunctionResponse(id=found.id, name=found.name, response=response)
    )


async def test_tool_round_and_a_turn_after_it(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        stage.script("root", call("weather", city="Rome"), text("Clear."), text("As I said."))
        await stage.say("How is the weather in Rome?")
        await stage.say("Really?", state_delta={"doubted": True})

    record = await play(agent_with(weather), scenario)
    [session] = record["sessions"]
    assert session["state"] == {
        "asked": 1,
        "user:city": "Rome",
        "app:source": "almanac",
        "answer": "As I said.",
        "doubted": True,
    }
    last = record["requests"]["root"][-1]["contents"]
    assert [content["role"] for content in last] == ["user", "model", "user", "model", "user"]


async def test_several_calls_in_one_answer(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        stage.script(
            "root",
            calls(("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"})),
            text("Clear in both."),
            text("Yes."),
        )
        await stage.say("Rome and Oslo?")
        await stage.say("Both?")

    record = await play(agent_with(weather), scenario)
    responses = record["requests"]["root"][-1]["contents"][2]["parts"]
    assert [part["function_response"]["response"]["city"] for part in responses] == ["Rome", "Oslo"]


async def test_long_running_tool_is_answered_in_a_later_turn(play: Play) -> None:
    def order(item: str) -> dict[str, Any]:
        """Orders an item, which takes days."""
        return {"status": "pending", "item": item}

    async def scenario(stage: Stage) -> None:
        stage.script("root", call("order", item="lamp"), text("Ordered."), text("Here it is."))
        events = await stage.say("Order a lamp")
        found = function_call(events, "order")
        assert any(found.id in (event.long_running_tool_ids or ()) for event in events)
        await stage.say(response_to(found, {"status": "delivered"}))

    record = await play(agent_with(LongRunningFunctionTool(order)), scenario)
    last = record["requests"]["root"][-1]["contents"]
    assert "delivered" in repr(last)


async def test_credential_is_asked_for_and_used(play: Play) -> None:
    wanted = AuthConfig(
        auth_scheme=APIKey.model_validate({"in": "header", "name": "X-Key"}),
        raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.API_KEY, api_key="raw"),
        credential_key="almanac",
    )

    def almanac(tool_context: ToolContext) -> dict[str, Any]:
        """Reads the almanac, for those who hold a key."""
        credential = tool_context.get_auth_response(wanted)
        if credential is None:
            tool_context.request_credential(wanted)
            return {"status": "a key is needed"}
        return {"status": f"read with {credential.api_key}"}

    async def scenario(stage: Stage) -> None:
        stage.script("root", call("almanac"), text("Clear skies."))
        events = await stage.say("What does the almanac say?")
        found = function_call(events, "adk_request_credential")
        given = AuthConfig.model_validate((found.args or {})["authConfig"])
        given.exchanged_auth_credential = AuthCredential(
            auth_type=AuthCredentialTypes.API_KEY, api_key="given"
        )
        await stage.say(response_to(found, given.model_dump(mode="json", by_alias=True)))

    record = await play(agent_with(almanac), scenario)
    assert "read with given" in repr(record["requests"]["root"][-1]["contents"])


async def test_confirmation_is_asked_for_and_given(play: Play) -> None:
    def sell(item: str) -> dict[str, Any]:
        """Sells an item."""
        return {"sold": item}

    async def scenario(stage: Stage) -> None:
        stage.script("root", call("sell", item="lamp"), text("Sold."))
        events = await stage.say("Sell the lamp")
        found = function_call(events, "adk_request_confirmation")
        await stage.say(response_to(found, {"confirmed": True}))

    record = await play(agent_with(FunctionTool(sell, require_confirmation=True)), scenario)
    assert "'sold': 'lamp'" in repr(record["requests"]["root"][-1]["contents"])


async def test_artifacts_and_files_in_a_message(play: Play) -> None:
    async def draw(tool_context: ToolContext) -> dict[str, Any]:
        """Draws a picture."""
        picture = types.Part.from_bytes(data=bytes(range(256)), mime_type="image/png")
        return {"version": await tool_context.save_artifact("picture.png", picture)}

    async def scenario(stage: Stage) -> None:
        stage.script("root", text("A photograph."), call("draw"), text("Drawn."), text("Indeed."))
        await stage.say(types.Part.from_bytes(data=b"\x00\xff" * 500, mime_type="image/jpeg"))
        await stage.say("Draw me one like that")
        await stage.say("Thanks")

    record = await play(agent_with(draw), scenario)
    assert "inline_data" in record["requests"]["root"][-1]["contents"][0]["parts"][0]
    events = record["sessions"][0]["events"]
    assert [
        event["actions"]["artifact_delta"] for event in events if event["actions"]["artifact_delta"]
    ]
