"""Memory without a line of code in the agent: a plugin remembers, a tool recalls."""

import asyncio
import os
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, RememberPolicy
from adkpg.adk import MemoryPlugin
from adkpg.tools import preload_memory


class Offline(BaseLlm):
    """Stands in for a model where there is no key: it repeats what memory answers."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yields one answer."""
        texts = [part.text for content in llm_request.contents for part in content.parts or []]
        recalled = [text for text in texts if text and "<recalled_memory>" in text]
        part = types.Part(text=recalled[0] if recalled else "I shall remember that.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def without_card_numbers(text: str) -> str:
    """Returns a text without runs of 16 digits: what memory never gets to see."""
    words = text.split(" ")
    return " ".join("[card]" if len(word) == 16 and word.isdigit() else word for word in words)


async def say(runner: Runner, session_id: str, text: str) -> None:
    """Runs one turn and prints it."""
    print(f"     ana  {text}")
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async for event in runner.run_async(user_id="ana", session_id=session_id, new_message=message):
        if event.is_final_response() and event.content and event.content.parts:
            print(f"companion {event.content.parts[0].text}")


async def main() -> None:
    """Talks in two sessions; prints what the second knows, and what memory holds."""
    async with Database() as db:
        await db.upgrade()
        memory = PgVectorMemoryService(db)
        agent = LlmAgent(
            name="companion",
            model="gemini-3.5-flash"
            if "GOOGLE_API_KEY" in os.environ
            else Offline(model="offline"),
            instruction="Answer from this conversation and your memory only.",
            tools=[preload_memory(max_entries=3, max_tokens=300)],
        )
        plugin = MemoryPlugin(RememberPolicy(authors=["user"], redact=without_card_numbers))
        runner = Runner(
            app=App(name="companion", root_agent=agent, plugins=[plugin]),
            session_service=DatabaseSessionService(db),
            memory_service=memory,
            auto_create_session=True,
        )
        first, second = os.urandom(4).hex(), os.urandom(4).hex()
        await say(runner, first, "My bike is in the shed.")
        await say(runner, first, "My card is 4111111111111111 by the way.")
        await say(runner, second, "Where did I leave my bicycle?")
        await runner.close()
        found = await memory.search_memory(app_name="companion", user_id="ana", query="card")
        for entry in found.memories:
            print(f"   memory {entry.content.parts[0].text if entry.content.parts else ''}")


if __name__ == "__main__":
    asyncio.run(main())
