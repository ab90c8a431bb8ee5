"""Sessions and memory for ADK's Runner: what is said in one session is known in the next."""

import asyncio
import os
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.load_memory_tool import load_memory_tool
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService


class Offline(BaseLlm):
    """Stands in for a model where there is no key: it repeats what memory answers."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yields one answer."""
        last = (llm_request.contents[-1].parts or [types.Part(text="")])[-1]
        part = types.Part(text="I shall remember that.")
        if last.function_response is not None:
            (found, *_) = (last.function_response.response or {})["result"].memories
            part = types.Part(text=f'You told me: "{found.content.parts[0].text}"')
        elif (last.text or "").endswith("?"):
            part = types.Part.from_function_call(name="load_memory", args={"query": last.text})
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def remember(callback_context: CallbackContext) -> None:
    """Remembers the session after each turn; adding it again changes nothing."""
    await callback_context.add_session_to_memory()


async def say(runner: Runner, session_id: str, text: str) -> None:
    """Runs one turn and prints it."""
    print(f"     ana  {text}")
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async for event in runner.run_async(user_id="ana", session_id=session_id, new_message=message):
        if event.is_final_response() and event.content and event.content.parts:
            print(f"companion {event.content.parts[0].text}")


async def main() -> None:
    """Talks in two sessions; the second knows what the first was told."""
    async with Database() as db:
        await db.upgrade()
        memory = PgVectorMemoryService(db)
        runner = Runner(
            app_name="companion",
            agent=LlmAgent(
                name="companion",
                model="gemini-3.5-flash"
                if "GOOGLE_API_KEY" in os.environ
                else Offline(model="offline"),
                instruction="Answer from this conversation and your memory only.",
                tools=[load_memory_tool],
                after_agent_callback=remember,
            ),
            session_service=DatabaseSessionService(db),
            memory_service=memory,
            auto_create_session=True,
        )
        first, second = os.urandom(4).hex(), os.urandom(4).hex()
        await say(runner, first, "My bike is in the shed.")
        await say(runner, second, "Where did I leave my bicycle?")


if __name__ == "__main__":
    asyncio.run(main())
