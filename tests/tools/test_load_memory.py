"""`load_memory`, called by a model in the real Runner."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.load_memory_tool import load_memory_tool as adk_load_memory
from google.genai import types

from adkpg import Database, PgVectorMemoryService
from adkpg.errors import ConfigurationError
from adkpg.memory.filters import SearchFilters
from adkpg.tooling.testing.scripted_llm import call, text
from adkpg.tools import LoadMemoryTool, PreloadMemoryTool, load_memory
from tests.fakes.recording_memories import OptionsMemory
from tests.fakes.stage import APP, USER, Stage
from tests.fakes.tool_stage import answers, stage_on, told


async def asked(stage: Stage, **arguments: Any) -> dict[str, Any]:
    """What the tool answers a model in one turn."""
    stage.script("root", call("load_memory", **arguments), text("Done."))
    [answer] = answers(await stage.say("Where is it?"), "load_memory")
    return answer


async def test_the_model_gets_what_it_can_read_and_no_more() -> None:
    memory = InMemoryMemoryService()
    [bike] = await told(memory, "My bike is in the shed.")
    answer = await asked(stage_on(memory, load_memory), query="bike")
    [found] = answer["memories"]
    assert found.pop("timestamp").startswith("2023-11-1")
    assert found == {"id": bike, "author": "user", "text": "My bike is in the shed."}
    assert await asked(stage_on(memory, load_memory), query="zeppelin") == {"memories": []}


async def test_only_query_is_required_and_the_model_is_told_of_its_memory() -> None:
    requests: list[LlmRequest] = []

    def look(callback_context: Any, llm_request: LlmRequest) -> None:
        requests.append(llm_request)

    stage = stage_on(OptionsMemory(), load_memory, before_model_callback=look)
    stage.script("root", text("Hello."))
    await stage.say("Hi")
    [request] = requests
    [declared] = [
        declaration
        for tool in request.config.tools or []
        for declaration in getattr(tool, "function_declarations", None) or []
    ]
    schema = declared.parameters_json_schema
    assert declared.name == load_memory.name == adk_load_memory.name
    assert schema["required"] == ["query"]
    filters = ["after", "before", "author", "session_id"]
    assert list(schema["properties"]) == ["query", *filters, "gather"]
    assert "call load_memory" in stage.parts["root"].requests[0]["instruction"]


async def test_arguments_become_filters() -> None:
    memory = OptionsMemory()
    stage = stage_on(memory, LoadMemoryTool(max_entries=3))
    await asked(
        stage,
        query="bike",
        after="2026-01-01",
        before="2026-02-01T00:00:00+00:00",
        author="user",
        session_id="before",
    )
    await asked(stage, query="bike", after="", before=None, author="")
    first, second = memory.asked
    # Three, and as many as the turn's own events, which are left out.
    assert first == {
        "query": "bike",
        "top_k": 5,
        "filters": SearchFilters(
            after=datetime(2026, 1, 1, tzinfo=UTC),
            before=datetime(2026, 2, 1, tzinfo=UTC),
            authors=["user"],
            session_ids=["before"],
        ),
    }
    assert second["filters"] == SearchFilters()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": "bike", "after": "yesterday"}, "'yesterday' is not ISO 8601"),
        ({"query": "bike", "before": 5}, "before is a text, not 5"),
        ({"query": "bike", "author": ["user"]}, "author is a text"),
        ({"query": ""}, "query is a text, not ''"),
        ({"query": None}, "query is a text, not None"),
        ({}, "query is a text, not None"),
        ({"query": {"text": "bike"}}, "query is a text"),
    ],
)
async def test_bad_arguments_are_answered_so_that_the_model_can_mend_them(
    arguments: dict[str, Any], message: str
) -> None:
    memory = OptionsMemory()
    answer = await asked(stage_on(memory, load_memory), **arguments)
    assert message in answer["error"]
    assert memory.asked == []


async def test_a_memory_without_filters_says_so() -> None:
    memory = InMemoryMemoryService()
    await told(memory, "My bike is in the shed.")
    answer = await asked(stage_on(memory, load_memory), query="bike", author="user")
    assert answer == {"error": "This memory cannot filter by author; give query alone."}


@pytest.mark.parametrize(
    ("of_service", "of_tool", "found"),
    [
        ("UTC", None, []),
        ("Asia/Tokyo", None, ["Good morning"]),
        ("UTC", "Asia/Tokyo", ["Good morning"]),
        ("UTC", timezone(timedelta(hours=9)), ["Good morning"]),
        ("Asia/Tokyo", lambda context: context.state.get("zone", "UTC"), []),
        ("Asia/Tokyo", lambda context: None, ["Good morning"]),
    ],
)
async def test_a_date_is_a_day_of_the_user(
    database: Database, of_service: str, of_tool: Any, found: list[str]
) -> None:
    memory = PgVectorMemoryService(database, mode="text", time_zone=of_service)
    morning = "2026-01-31T22:00:00+00:00"  # seven o'clock on the first of February, in Tokyo
    note = MemoryEntry(
        content=types.Content(parts=[types.Part(text="Good morning")]), timestamp=morning
    )
    await memory.add_memory(app_name=APP, user_id=USER, memories=[note])
    stage = stage_on(memory, LoadMemoryTool(time_zone=of_tool))
    answer = await asked(stage, query="morning", after="2026-02-01")
    assert [each["text"] for each in answer["memories"]] == found


async def test_yesterday_is_the_users(database: Database) -> None:
    now = datetime.now(UTC)
    one_o_clock = timezone(timedelta(hours=1) - timedelta(hours=now.hour, minutes=now.minute))
    memory = PgVectorMemoryService(database, mode="text")
    notes = [
        MemoryEntry(
            content=types.Content(parts=[types.Part(text=text)]),
            timestamp=(now - timedelta(hours=hours)).isoformat(),
        )
        for text, hours in (("rode home", 30), ("saw a heron", 20), ("lost keys", 3), ("woke", 0.2))
    ]
    await memory.add_memory(app_name=APP, user_id=USER, memories=notes)
    tool = LoadMemoryTool(time_zone=lambda context: one_o_clock)
    answer = await asked(stage_on(memory, tool), query="What happened yesterday?")
    assert {each["text"] for each in answer["memories"]} == {"saw a heron", "lost keys"}


async def test_a_time_zone_that_is_none_is_named() -> None:
    for tool in (LoadMemoryTool, PreloadMemoryTool):
        with pytest.raises(ConfigurationError, match="'Nowhere' is not a time zone"):
            tool(time_zone="Nowhere")
    stage = stage_on(OptionsMemory(), LoadMemoryTool(time_zone=lambda context: "Nowhere"))
    with pytest.raises(ConfigurationError, match="'Nowhere' is not a time zone"):
        await asked(stage, query="bike")


async def test_limit_holds_for_any_service() -> None:
    memory = InMemoryMemoryService()
    await told(memory, "bike one", "bike two", "bike three")
    answer = await asked(stage_on(memory, LoadMemoryTool(max_entries=2)), query="bike")
    assert [found["text"] for found in answer["memories"]] == ["bike one", "bike two"]
    with pytest.raises(ConfigurationError, match="max_entries=0"):
        LoadMemoryTool(max_entries=0)


async def test_a_turn_does_not_find_itself() -> None:
    memory = InMemoryMemoryService()
    await told(memory, "Where is my bike?")

    async def remember(callback_context: Any, llm_request: LlmRequest) -> None:
        await callback_context.add_session_to_memory()

    stage = stage_on(memory, load_memory, before_model_callback=remember)
    answer = await asked(stage, query="where")
    assert [found["text"] for found in answer["memories"]] == ["Where is my bike?"]


async def test_without_a_service_it_raises_what_adk_raises() -> None:
    messages = []
    for tool in (adk_load_memory, load_memory):
        with pytest.raises(ValueError, match="Memory service is not available") as caught:
            await asked(stage_on(None, tool), query="bike")
        messages.append(str(caught.value))
    assert messages[1].startswith(messages[0].rstrip("."))


async def test_it_finds_the_users_memories_inside_an_agent_tool() -> None:
    memory = InMemoryMemoryService()
    await told(memory, "My bike is in the shed.")
    found = []
    for tool in (LoadMemoryTool(memory_service=memory), load_memory):

        def build(stage: Stage, tool: LoadMemoryTool = tool) -> App:
            helper = LlmAgent(name="helper", model=stage.llm("helper"), tools=[tool])
            return App(
                name=APP,
                root_agent=LlmAgent(
                    name="root", model=stage.llm("root"), tools=[AgentTool(helper)]
                ),
            )

        stage = stage_on(memory, build=build)
        stage.script("root", call("helper", request="Find the bike"), text("There."))
        stage.script("helper", call("load_memory", query="bike"), text("Found."))
        await stage.say("Where is my bike?")
        found.append("in the shed" in repr(stage.parts["helper"].requests[-1]["contents"]))
    assert found == [True, False]


async def test_on_postgres_the_model_narrows_by_time_author_and_session(
    memory: PgVectorMemoryService,
) -> None:
    stage = stage_on(memory, load_memory)
    await told(memory, "cat one", "cat two", "cat three")
    await told(memory, "cat four", author="helper")
    moment = datetime.fromtimestamp(1_700_000_060.0, UTC).isoformat()

    async def texts(**arguments: Any) -> list[str]:
        answer = await asked(stage, query="kitten", **arguments)
        return sorted(found["text"] for found in answer["memories"])

    assert await texts() == ["cat four", "cat one", "cat three", "cat two"]
    assert await texts(after=moment) == ["cat three", "cat two"]
    assert await texts(before=moment, author="user") == ["cat one"]
    assert await texts(author="helper") == ["cat four"]
    assert await texts(session_id="other") == []
    [found] = (await asked(stage, query="kitten", author="helper"))["memories"]
    assert found["session_id"] == "before"


async def test_a_model_can_gather_all_about_a_thing_in_order_of_time(
    memory: PgVectorMemoryService,
) -> None:
    lines = [f"The boat trip number {n} went to island {n}." for n in range(25)]
    await told(memory, *lines)
    found = await asked(stage_on(memory, load_memory), query="boat trip", gather="all")
    times = [each["timestamp"] for each in found["memories"]]
    assert len(times) == 25
    assert times == sorted(times)
