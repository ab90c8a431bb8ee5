"""An agent that waits when it is told to: copied into an agents folder, for tests in one process.

It does what the user says, word by word: ``wait`` until the test opens the gate, ``block`` the
event loop for a second, ``fail``, say ``much``, ``leave`` a job that runs on its own, ``ask`` for
something that takes long.
"""

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.genai import types

from tests.fakes import gates


class Gated(BaseAgent):
    """Says that it has begun, does what it is told, and says that it is done."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        said = (ctx.user_content.parts or []) if ctx.user_content else []
        told = " ".join(part.text or "" for part in said)
        yield self._says(ctx, "begun")
        gates.begun.put_nowait(told)
        if "wait" in told:
            await gates.opened.wait()
        if "block" in told:
            gates.block()
        if "ask" in told:
            call = types.FunctionCall(id="call", name="ask", args={})
            asking = Event(
                author=self.name,
                invocation_id=ctx.invocation_id,
                content=types.ModelContent([types.Part(function_call=call)]),
            )
            asking.long_running_tool_ids = {"call"}
            yield asking
            return
        if "fail" in told:
            raise ValueError("The agent was told to fail.")
        if "leave" in told:
            gates.left.append(asyncio.create_task(self._later(ctx)))
        yield self._says(ctx, "x" * 600_000 if "much" in told else "done")

    async def _run_live_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self._run_async_impl(ctx):
            yield event

    async def _later(self, ctx: InvocationContext) -> None:
        """What the run leaves behind: an answer that comes after it."""
        await gates.opened.wait()
        session = await ctx.session_service.get_session(
            app_name=ctx.app_name, user_id=ctx.user_id, session_id=ctx.session.id
        )
        assert session is not None
        await ctx.session_service.append_event(session, self._says(ctx, "later"))

    def _says(self, ctx: InvocationContext, text: str) -> Event:
        return Event(
            author=self.name, invocation_id=ctx.invocation_id, content=types.ModelContent(text)
        )


root_agent = Gated(name="gated")
