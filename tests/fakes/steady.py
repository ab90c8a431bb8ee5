"""An agent that goes on talking: copied into an agents folder, for tests that end its process."""

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.genai import types


class Steady(BaseAgent):
    """Says as many parts as it is told, or goes on for ever."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        said = (ctx.user_content.parts or []) if ctx.user_content else []
        told = " ".join(part.text or "" for part in said)
        number = 0
        while number < (int(told) if told.isdigit() else 10_000):
            number += 1
            yield Event(
                author=self.name,
                invocation_id=ctx.invocation_id,
                content=types.ModelContent(f"part {number}"),
            )
            await asyncio.sleep(0.1)


root_agent = Steady(name="steady")
