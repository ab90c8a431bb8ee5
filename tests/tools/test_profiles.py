"""ADK's own tool for profiles, over the facts of a user."""

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.adk.tools.vertex_ai_load_profiles_tool import VertexAiLoadProfilesTool
from google.genai import types

from adkpg import DatabaseSessionService, PgVectorMemoryService
from adkpg.memory.records import Memory
from adkpg.tooling.testing.scripted_llm import ScriptedLlm, call
from tests.fakes.conversation import USER, entry


async def add_fact(
    memory: PgVectorMemoryService, said: str, importance: float, user_id: str = "user"
) -> None:
    fact = Memory(content=entry(said).content, kind="fact", importance=importance, topics=["pets"])
    await memory.add_memory(app_name="app", user_id=user_id, memories=[fact])


async def test_a_profile_is_the_live_facts_of_one_user_the_most_important_first(
    memory: PgVectorMemoryService,
) -> None:
    assert await memory.retrieve_profiles(**USER) == []
    await memory.add_memory(**USER, memories=[entry("It rains.")])
    assert await memory.retrieve_profiles(**USER) == []
    await add_fact(memory, "Has a cat.", 0.4)
    await add_fact(memory, "Is allergic to nuts.", 0.9)
    await add_fact(memory, "Has a boat.", 1.0, user_id="other")
    (profile,) = await memory.retrieve_profiles(**USER)
    assert profile.scope == USER
    assert [fact["fact"] for fact in profile.profile["facts"]] == [
        "Is allergic to nuts.",
        "Has a cat.",
    ]
    assert profile.profile["facts"][0]["topics"] == ["pets"]
    assert await memory.retrieve_profiles(app_name="app", user_id="\0") == []


async def test_the_tool_of_adk_shows_the_agent_its_users_profile(
    memory: PgVectorMemoryService, sessions: DatabaseSessionService
) -> None:
    await add_fact(memory, "Has a cat.", 0.4)
    await add_fact(memory, "Has a boat.", 1.0, user_id="other")
    tool: Any = VertexAiLoadProfilesTool(memory)  # type: ignore[arg-type] # it names Vertex's class
    model = ScriptedLlm.answering(call(tool.name), "Done.")
    runner = Runner(
        app_name="app",
        agent=LlmAgent(name="guide", model=model, tools=[tool]),
        session_service=sessions,
    )
    session = await sessions.create_session(**USER)
    responses = [
        response.response
        async for event in runner.run_async(
            user_id=session.user_id,
            session_id=session.id,
            new_message=types.UserContent("What do you know of me?"),
        )
        for response in event.get_function_responses()
    ]
    (answer,) = responses
    assert answer is not None
    assert [fact["fact"] for fact in answer["profiles"][0]["facts"]] == ["Has a cat."]
