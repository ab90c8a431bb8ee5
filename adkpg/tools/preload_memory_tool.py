"""PreloadMemoryTool: memory is searched before the model is asked."""

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Literal

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkpg.errors import ConfigurationError
from adkpg.tools.block import block_of
from adkpg.tools.recall import recall

logger = logging.getLogger(__name__)

_TURNS_KEPT = 256


@dataclass
class _Turn:
    """What one turn recalled; its lock makes agents that run in parallel search once."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    searched: bool = False
    block: str | None = None


class PreloadMemoryTool(BaseTool):
    """Gives the model what memory has about the user's message; the model does not call it.

    In place of ADK's ``preload_memory``. It searches once per turn, however many requests the turn
    sends to models and however many agents share the tool, and adds a block to each of them:
    the heading ``Relevant prior context:``, a notice that what follows is data, and one bullet per
    memory between tags that no remembered text can close. The block is in no session.

    Adds nothing without a memory service, without text of the user, or without hits. If the search
    fails, a warning is logged and the turn goes on without.

    Args:
      max_entries: Most memories, at least 1.
      max_tokens: About as many tokens the bullets have at most, at least 1.
      memory_service: Where to search; None is the runner's. With a service of its own the tool
        finds the user's memories also in an agent that runs inside ADK's ``AgentTool``, whose
        runner has an empty memory.
      place: ``turn`` puts the block before the user's message, where ADK's own tool does and where
        it leaves a provider's prompt cache intact; ``system`` puts it into the system text.

    Raises:
      ConfigurationError: An argument cannot work.
    """

    def __init__(
        self,
        *,
        max_entries: int = 5,
        max_tokens: int = 1000,
        memory_service: BaseMemoryService | None = None,
        place: Literal["turn", "system"] = "turn",
    ) -> None:
        for name, limit in (("max_entries", max_entries), ("max_tokens", max_tokens)):
            if limit < 1:
                raise ConfigurationError(f"{name}={limit} is below 1; leave the tool out instead.")
        if place not in ("turn", "system"):
            raise ConfigurationError(f"place is 'turn' or 'system', not {place!r}.")
        super().__init__(name="preload_memory", description="preload_memory")
        self._max_entries = max_entries
        self._max_tokens = max_tokens
        self._memory_service = memory_service
        self._place = place
        self._turns: OrderedDict[tuple[str, ...], _Turn] = OrderedDict()

    def __call__(self, **options: Any) -> "PreloadMemoryTool":
        """Returns the tool with other options: ``preload_memory(max_entries=3)``.

        Args:
          **options: As for the class; this tool's own are not kept.
        """
        return type(self)(**options)

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """Adds the turn's block to a request."""
        parts = (tool_context.user_content and tool_context.user_content.parts) or []
        query = " ".join(part.text for part in parts if part.text and not part.thought)
        if not query.strip():
            return
        turn = self._turn(tool_context, query)
        async with turn.lock:
            if not turn.searched:
                turn.block = await self._recalled(tool_context, query)
                turn.searched = True
        if turn.block is None:
            return
        # ADK's own way to the place of preloaded text is private: without it, the system text.
        insert = getattr(llm_request, "_insert_transient_user_content", None)
        if self._place == "system" or insert is None:
            llm_request.append_instructions([turn.block])
        else:
            insert([types.Content(role="user", parts=[types.Part(text=turn.block)])])

    def _turn(self, tool_context: ToolContext, query: str) -> _Turn:
        session = tool_context.session
        key = (session.app_name, session.user_id, session.id, tool_context.invocation_id, query)
        turn = self._turns.setdefault(key, _Turn())
        self._turns.move_to_end(key)
        # A turn that is pushed out by many others searches again, no more.
        while len(self._turns) > _TURNS_KEPT:
            self._turns.popitem(last=False)
        return turn

    async def _recalled(self, tool_context: ToolContext, query: str) -> str | None:
        service = self._memory_service
        if service is None:
            service = tool_context.get_invocation_context().memory_service
        if service is None:
            return None
        try:
            memories = await recall(tool_context, service, query, max_entries=self._max_entries)
        except (
            Exception
        ):  # as ADK's own preload: any service may stand here, and recall is an extra
            logger.warning("The turn goes on without its memories.", exc_info=True)
            return None
        return block_of(memories, max_entries=self._max_entries, max_tokens=self._max_tokens)
