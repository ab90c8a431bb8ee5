"""A run of an agent that survives its process: DBOS and adkpg on one Postgres.

The first process is killed while it pays; the second one goes on from there. What had been answered
by the model, or done by a tool, is not asked for or done again.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator
from functools import cache
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID
from dbos_google_adk import DBOSPlugin
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types

from adkpg import Database, DatabaseSessionService, Settings

# ADK's spans end in another task than they began in (adk-python #4894).
logging.getLogger("opentelemetry.context").setLevel(logging.CRITICAL)

ORDER = "order 4711"
PLACE: dict[str, Any] = {"user_id": "ana", "session_id": "trip"}


class Offline(BaseLlm):
    """Stands in for a model: first it has the train booked, then paid, then it answers."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yields one answer."""
        parts = [part for content in llm_request.contents for part in content.parts or []]
        done = [part.function_response.name for part in parts if part.function_response]
        print(f"  model: asked after {done}")
        todo = [name for name in ("book", "pay") if name not in done]
        part = types.Part(text="Your train is booked and paid.")
        if todo:
            part = types.Part.from_function_call(name=todo[0], args={})
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


@DBOS.step()
async def book() -> str:
    """Books the train."""
    print("  book: one seat")
    return "Seat 61."


@DBOS.step()
async def pay() -> str:
    """Pays for what is booked."""
    if "killed" in sys.argv:
        print("  pay: the process is killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    print("  pay: 49 euros")
    return "Paid."


@cache
def services() -> tuple[Database, DatabaseSessionService, Runner]:
    """Returns what a process needs once, on ADKPG_DATABASE_URL."""
    # So long do others wait for the session of a process that was killed.
    database = Database(settings=Settings(invocation_lease_s=3))
    sessions = DatabaseSessionService(database)
    agent = LlmAgent(name="guide", model=Offline(model="offline"), tools=[book, pay])
    runner = Runner(app_name="trips", agent=agent, session_service=sessions, plugins=[DBOSPlugin()])
    return database, sessions, runner


@DBOS.workflow()
async def turn(text: str) -> str:
    """Answers one message, however often its process is killed."""
    _, sessions, runner = services()
    run = f"e-{DBOS.workflow_id}"
    # A process that only seemed to be dead can append nothing any more.
    async with sessions.invocation(app_name="trips", **PLACE, timeout_s=60):
        # DBOS runs this function again, from its beginning. Events of the run that was killed stay
        # in the session, but its agent and its state start from where that run did.
        session = await sessions.get_session(app_name="trips", **PLACE)
        if session and any(event.invocation_id == run for event in session.events):
            await runner.rewind_async(**PLACE, rewind_before_invocation_id=run)
        answer = ""
        async for event in runner.run_async(
            **PLACE, invocation_id=run, new_message=types.UserContent(text)
        ):
            if event.is_final_response() and event.content and event.content.parts:
                answer = event.content.parts[0].text or ""
        return answer


async def process() -> None:
    """Starts the turn, or goes on with it, and prints its answer."""
    database, sessions, _ = services()
    async with database:
        if await sessions.get_session(app_name="trips", **PLACE) is None:
            await sessions.create_session(app_name="trips", **PLACE)
        config: DBOSConfig = {
            "name": "trips",
            "system_database_url": os.environ[
                "ADKPG_DATABASE_URL"
            ],  # in the schema dbos, next to adkpg
            "log_level": "ERROR",
        }
        DBOS(config=config)
        DBOS.launch()  # goes on with what killed processes left
        with SetWorkflowID(ORDER):  # the same order is carried out once
            print(f"  guide: {await turn('Book me the train to Rome, and pay.')}")
        DBOS.destroy()


async def main() -> None:
    """Runs the turn in one process, which is killed, and in another."""
    async with Database() as database:
        await database.upgrade()
        if os.environ["ADKPG_DATABASE_URL"] == "embedded":  # it runs while this process uses it
            told = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "adkpg", "db", "url"), stdout=asyncio.subprocess.PIPE
            )
            os.environ["ADKPG_DATABASE_URL"] = (await told.communicate())[0].decode().strip()
        for number, argument in enumerate(("killed", "whole"), 1):
            print(f"Process {number}", flush=True)
            child = await asyncio.create_subprocess_exec(sys.executable, __file__, argument)
            print(f"  ended with {await child.wait()}", flush=True)


if __name__ == "__main__":
    asyncio.run(process() if sys.argv[1:] else main())
