"""The programs by which ADK's documentation explains sessions, state, memory and artifacts.

They are written for ADK's own services and know nothing of adkpg; only the constructors in `main`
differ. A scripted model answers, so they need neither key nor network.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.artifacts import BaseArtifactService
from google.adk.events import Event, EventActions
from google.adk.memory import BaseMemoryService
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService
from google.adk.tools.load_memory_tool import load_memory_tool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkpg import Database, DatabaseArtifactService, DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.testing import ScriptedLlm, call


@dataclass(frozen=True)
class Services:
    """ADK's three services, whoever implements them, and whose conversations these are."""

    sessions: BaseSessionService
    memory: BaseMemoryService
    artifacts: BaseArtifactService
    user_id: str

    def place(self, app_name: str, session_id: str = "one") -> dict[str, Any]:
        """Returns how ADK's calls name a session."""
        return {"app_name": app_name, "user_id": self.user_id, "session_id": session_id}

    async def ask(self, runner: Runner, text: str, *, session_id: str = "one") -> str:
        """Runs one turn and returns its last answer."""
        answer = ""
        async for event in runner.run_async(
            user_id=self.user_id, session_id=session_id, new_message=types.UserContent(text)
        ):
            if event.is_final_response() and event.content and event.content.parts:
                answer = event.content.parts[0].text or ""
        return answer

    def runner(self, app_name: str, agent: LlmAgent | SequentialAgent) -> Runner:
        """Returns a Runner of them."""
        return Runner(
            app_name=app_name,
            agent=agent,
            session_service=self.sessions,
            memory_service=self.memory,
            artifact_service=self.artifacts,
        )


async def session_properties(services: Services) -> None:
    """Sessions: "Examining Session Properties"."""
    session = await services.sessions.create_session(
        app_name="my_app", user_id=services.user_id, state={"initial_key": "initial_value"}
    )
    print(f"id: {len(session.id)} characters")
    print(f"app_name: {session.app_name}, ours: {session.user_id == services.user_id}")
    print(f"state: {session.state}")
    print(f"events: {session.events}")
    print(f"last_update_time is now: {abs(session.last_update_time - time.time()) < 60}")
    place = services.place("my_app", session.id)
    deleted: Any = services.sessions.delete_session(**place)
    print(f"delete_session: {await deleted}")
    print(f"get_session: {await services.sessions.get_session(**place)}")


async def output_key(services: Services) -> None:
    """State, the easy way: an agent's answer becomes a key of the state."""
    agent = LlmAgent(
        name="greeter",
        model=ScriptedLlm.answering("Hello there! How can I help you today?"),
        instruction="Greet the user in one friendly sentence.",
        output_key="last_greeting",
    )
    runner = services.runner("greeting_app", agent)
    place = services.place("greeting_app")
    session = await services.sessions.create_session(**place)
    print(f"Initial state: {session.state}")

    def run() -> None:  # ADK's synchronous way, which runs an event loop of its own
        for event in runner.run(
            user_id=services.user_id, session_id="one", new_message=types.UserContent("Hello")
        ):
            if event.is_final_response():
                print("Agent responded.")

    await asyncio.to_thread(run)
    updated = await services.sessions.get_session(**place)
    print(f"State after agent run: {updated and updated.state}")


async def state_delta(services: Services) -> None:
    """State, the standard way: an event's actions change keys of several scopes."""
    place = services.place("login_app")
    session = await services.sessions.create_session(
        **place, state={"user:login_count": 0, "task_status": "idle"}
    )
    print(f"Initial state: {sorted(session.state.items())}")
    delta = {
        "task_status": "active",
        "user:login_count": session.state["user:login_count"] + 1,
        "user:last_login_ts": 1_767_225_600.25,
        "temp:validation_needed": True,
    }
    event = Event(invocation_id="login", author="system", actions=EventActions(state_delta=delta))
    await services.sessions.append_event(session, event)
    updated = await services.sessions.get_session(**place)
    print(f"State after event: {updated and sorted(updated.state.items())}")
    other = await services.sessions.create_session(app_name="login_app", user_id=services.user_id)
    print(f"State of her next session: {sorted(other.state.items())}")


async def context_state(services: Services) -> None:
    """State, through the context: a callback and a tool change it, and their event keeps it."""

    def count(callback_context: CallbackContext) -> None:
        callback_context.state["turns"] = callback_context.state.get("turns", 0) + 1

    def set_theme(theme: str, tool_context: ToolContext) -> dict[str, str]:
        """Sets the user's theme."""
        tool_context.state["user:theme"] = theme
        tool_context.state["temp:raw"] = theme.encode().hex()
        return {"status": "done"}

    agent = LlmAgent(
        name="settings",
        model=ScriptedLlm.answering(
            call("set_theme", theme="dark"), "Dark it is.", "You are welcome."
        ),
        tools=[set_theme],
        before_agent_callback=count,
    )
    runner = services.runner("settings_app", agent)
    place = services.place("settings_app")
    await services.sessions.create_session(**place)
    print(f"Agent: {await services.ask(runner, 'A dark theme, please.')}")
    print(f"Agent: {await services.ask(runner, 'Thank you.')}")
    updated = await services.sessions.get_session(**place)
    print(f"State: {updated and sorted(updated.state.items())}")


async def pipeline(services: Services) -> None:
    """Workflow agents: one agent's output_key is part of the next one's instruction."""
    reviewer = ScriptedLlm.answering("The name tells nothing.")
    agent = SequentialAgent(
        name="pipeline",
        sub_agents=[
            LlmAgent(
                name="writer",
                model=ScriptedLlm.answering("def f(): return 42"),
                instruction="Write the function that is asked for.",
                output_key="generated_code",
            ),
            LlmAgent(
                name="reviewer",
                model=reviewer,
                instruction="Review this code: {generated_code}",
                output_key="review_comments",
            ),
        ],
    )
    runner = services.runner("pipeline_app", agent)
    place = services.place("pipeline_app")
    await services.sessions.create_session(**place)
    print(f"Agent: {await services.ask(runner, 'A function that returns the answer.')}")
    print(f"Told: {reviewer.requests[0]['instruction'].splitlines()[0]}")
    updated = await services.sessions.get_session(**place)
    print(f"State: {updated and sorted(updated.state.items())}")
    print(f"Authors: {[event.author for event in updated.events] if updated else None}")


async def memory_recall(services: Services) -> None:
    """Memory: what one agent was told in one session, another one recalls in the next."""
    capture = LlmAgent(
        name="InfoCaptureAgent",
        model=ScriptedLlm.answering("Noted."),
        instruction="Acknowledge what the user says.",
    )
    model = ScriptedLlm.answering(
        call("load_memory", query="favorite project"), "Your favorite project is Project Alpha."
    )
    recall = LlmAgent(
        name="MemoryRecallAgent",
        model=model,
        instruction="Answer. Past conversations are found with load_memory.",
        tools=[load_memory_tool],
    )
    for session_id in ("session_info", "session_recall"):
        await services.sessions.create_session(**services.place("memory_app", session_id))
    first = services.runner("memory_app", capture)
    text = "My favorite project is Project Alpha."
    print(f"Agent 1: {await services.ask(first, text, session_id='session_info')}")
    completed = await services.sessions.get_session(**services.place("memory_app", "session_info"))
    if completed is not None:
        await services.memory.add_session_to_memory(completed)
    second = services.runner("memory_app", recall)
    answer = await services.ask(second, "What is my favorite project?", session_id="session_recall")
    print(f"Agent 2: {answer}")
    print(f"It was told by memory: {text in str(model.requests[-1]['contents'])}")


async def artifacts(services: Services) -> None:
    """Artifacts: versions of a file of the session, and one of the user for all sessions."""
    place = services.place("report_app")
    service = services.artifacts
    for text in (b"first", b"second"):
        part = types.Part.from_bytes(data=text, mime_type="application/pdf")
        version = await service.save_artifact(**place, filename="report.pdf", artifact=part)
        print(f"Saved report.pdf as version {version}")
    picture = types.Part.from_bytes(data=b"pixels", mime_type="image/png")
    await service.save_artifact(**place, filename="user:profile.png", artifact=picture)
    latest = await service.load_artifact(**place, filename="report.pdf")
    first = await service.load_artifact(**place, filename="report.pdf", version=0)
    for loaded in (latest, first):
        print(f"Loaded: {loaded and loaded.inline_data and loaded.inline_data.data!r}")
    print(f"Files: {await service.list_artifact_keys(**place)}")
    elsewhere = place | {"session_id": "two"}
    print(f"Files of another session: {await service.list_artifact_keys(**elsewhere)}")
    print(f"Versions: {await service.list_versions(**place, filename='report.pdf')}")
    await service.delete_artifact(**place, filename="report.pdf")
    print(f"After delete_artifact: {await service.load_artifact(**place, filename='report.pdf')}")


async def weather_agent(services: Services) -> None:
    """Quickstart: an agent with a tool that succeeds for one city only."""

    def get_weather(city: str) -> dict[str, str]:
        """Tells the weather in a city."""
        if city.lower() == "new york":
            return {"status": "success", "report": "It is sunny in New York, 25 degrees Celsius."}
        return {"status": "error", "error_message": f"Nothing is known of '{city}'."}

    model = ScriptedLlm.answering(
        call("get_weather", city="New York"),
        "It is sunny in New York, 25 degrees Celsius.",
        call("get_weather", city="Paris"),
        "I know nothing of Paris.",
    )
    runner = services.runner(
        "weather_app", LlmAgent(name="weather", model=model, tools=[get_weather])
    )
    place = services.place("weather_app")
    await services.sessions.create_session(**place)
    for city in ("New York", "Paris"):
        print(f"Agent: {await services.ask(runner, f'What is the weather in {city}?')}")
    session = await services.sessions.get_session(**place)
    for event in session.events if session else []:
        for response in event.get_function_responses():
            print(f"Tool: {response.response}")


PROGRAMS: list[Callable[[Services], Awaitable[None]]] = [
    session_properties,
    output_key,
    state_delta,
    context_state,
    pipeline,
    memory_recall,
    artifacts,
    weather_agent,
]


async def main() -> None:
    """Runs them all on Postgres."""
    async with Database() as db:
        await db.upgrade()
        services = Services(
            sessions=DatabaseSessionService(db),  # ADK: InMemorySessionService()
            memory=PgVectorMemoryService(db),  # ADK: InMemoryMemoryService()
            artifacts=DatabaseArtifactService(db),  # ADK: InMemoryArtifactService()
            user_id=f"ada {uuid4()}",  # so that it can be run again
        )
        for program in PROGRAMS:
            print(f"--- {program.__name__} ---")
            await program(services)


if __name__ == "__main__":
    asyncio.run(main())
