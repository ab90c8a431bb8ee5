"""RememberTool and ForgetTool: the model keeps a note, and deletes a memory."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkpg.errors import InvalidInput, in_public
from adkpg.remember.policy import RememberPolicy, policy_of_service
from adkpg.tools.tool import MemoryTool


class RememberTool(MemoryTool):
    """The tool ``remember(text)``: the model keeps a note about the current user.

    The note's author is the agent; its id is made from user and text, so the same text twice is
    one memory, of the later time. The answer is ``{"remembered": text, "id": ...}``, or
    ``{"error": ...}`` for a text that cannot be stored.

    Without a memory service the call raises a ValueError; with one that has no ``add_memory``, such
    as ADK's in-memory service, NotImplementedError.

    Args:
      memory_service: Where to write; None is the runner's.
      policy: Its ``redact`` is applied to notes; a text that it refuses is answered with an error.
        None is the policy of the memory service's `Database`, which holds in any case.
    """

    def __init__(
        self,
        *,
        memory_service: BaseMemoryService | None = None,
        policy: RememberPolicy | None = None,
    ) -> None:
        super().__init__(
            "remember",
            description=(
                "Keeps a note about the current user for later conversations, such as a preference "
                "or a decision. Not for what only matters now."
            ),
            texts={"text": "One fact in a sentence that needs no context to be understood."},
            memory_service=memory_service,
        )
        self._policy = policy

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """Returns the note as it is stored, or why it is not.

        Raises:
          ConfigurationError: There is no memory service.
          NotImplementedError: The memory service takes no notes.
        """
        text = args.get("text")
        if not isinstance(text, str) or not text.strip():
            return {"error": f"text is what to remember, not {text!r}; give it as a sentence."}
        service = self._service(tool_context)
        stored: str | None = text
        for policy in (self._policy, policy_of_service(service)):
            if policy is not None and stored is not None:
                stored = policy.redacted(stored, name="a note")
        if stored is None or not stored.strip():
            return {"error": "This text may not be remembered."}
        session = tool_context.session
        note_id = str(
            uuid5(NAMESPACE_OID, "\x00".join((session.app_name, session.user_id, stored)))
        )
        note = MemoryEntry(
            id=note_id,
            author=tool_context.agent_name,
            content=types.Content(role="model", parts=[types.Part(text=stored)]),
        )
        try:
            with in_public():
                await service.add_memory(
                    app_name=session.app_name, user_id=session.user_id, memories=[note]
                )
        except InvalidInput as exc:
            return {"error": exc.public}
        return {"remembered": stored, "id": note_id}


class ForgetTool(MemoryTool):
    """The tool ``forget(memory_id)``: the model deletes one memory of the current user.

    Its repetitions, which a search shows as one hit with it, go too. The tool cannot reach memories
    of other users, and there is no way to delete all. The answer is ``{"forgotten": [...]}`` with
    the ids of all that went, or ``{"error": ...}`` if no id is given or the user has no memory with
    it. A service that does not return what it deleted is answered for by the given id.

    Without a memory service the call raises a ValueError; with one that deletes nothing,
    NotImplementedError.

    Args:
      memory_service: Where to delete; None is the runner's.
    """

    def __init__(self, *, memory_service: BaseMemoryService | None = None) -> None:
        super().__init__(
            "forget",
            description=(
                "Deletes a memory of the current user, and what says the same, when the user asks "
                "for it or it is wrong."
            ),
            texts={"memory_id": "The id of one memory, as load_memory or remember gave it."},
            memory_service=memory_service,
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """Returns the ids of what is forgotten, or why nothing is.

        Raises:
          ConfigurationError: There is no memory service.
          NotImplementedError: The memory service deletes nothing.
        """
        memory_id = args.get("memory_id")
        if not isinstance(memory_id, str) or not memory_id.strip():
            return {
                "error": f"memory_id is a memory's id, not {memory_id!r}; look it up with "
                "load_memory."
            }
        service = self._service(tool_context)
        session = tool_context.session
        delete: Callable[..., Awaitable[Any]] = service.delete_memory
        with in_public():
            forgotten = await delete(
                app_name=session.app_name, user_id=session.user_id, memory_id=memory_id
            )
        if forgotten is None:  # ADK's own services do not say
            forgotten = [memory_id]
        if not forgotten:
            return {
                "error": f"This user has no memory {memory_id!r}; look ids up with load_memory."
            }
        return {"forgotten": forgotten}
