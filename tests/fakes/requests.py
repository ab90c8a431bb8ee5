"""Requests of web processes: ``python -m tests.fakes.requests URL JOB ...`` forks the processes.

Each runs ADK's Runner with a model that takes a moment, as in a web app.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types

from adkpg import DatabaseSessionService, Settings
from tests.fakes.conversation import USER

PLACE: dict[str, Any] = {**USER, "session_id": "shared"}


class Echo(BaseLlm):
    """Answers with what was said last; in between, other tasks and processes have their turn."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = llm_request.contents[-1].parts or []
        await asyncio.sleep(0.005)
        said = " ".join(part.text or "" for part in parts)
        if said == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        yield LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text=f"answer to {said}")])
        )


def runner_on(sessions: DatabaseSessionService) -> Runner:
    agent = LlmAgent(name="echo", model=Echo(model="echo"))
    return Runner(app_name=USER["app_name"], agent=agent, session_service=sessions)


async def ask(sessions: DatabaseSessionService, runner: Runner, text: str, key: str | None) -> str:
    """Serves one request; returns the answer, or what was answered before."""
    async with sessions.invocation(**PLACE, timeout_s=100, key=key) as run:
        if run.done:
            return f"again: {run.result}"
        async for event in runner.run_async(
            user_id=USER["user_id"],
            session_id=PLACE["session_id"],
            new_message=types.UserContent(text),
        ):
            if event.is_final_response() and event.content and event.content.parts:
                run.finish(event.content.parts[0].text)
        return str(run.result)


async def serve(url: str, texts: list[str], lease_s: float, key: str | None) -> None:
    """Serves requests that come at the same time, and prints the answers."""
    settings = Settings(invocation_lease_s=lease_s)
    async with DatabaseSessionService(url, settings=settings) as sessions:
        runner = runner_on(sessions)
        answers = await asyncio.gather(*(ask(sessions, runner, text, key) for text in texts))
    os.write(1, (json.dumps(answers) + "\n").encode())


def main() -> int:
    url, jobs = sys.argv[1], json.loads(sys.argv[2])
    children = []
    for texts, lease_s, key in jobs:
        child = os.fork()
        if child == 0:
            asyncio.run(serve(url, texts, lease_s, key))
            return 0
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return 0 if set(codes) <= {0, -signal.SIGKILL} else 1


if __name__ == "__main__":
    sys.exit(main())
