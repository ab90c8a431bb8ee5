"""RememberTool: the model writes a note into memory."""

from typing import Any
from uuid import NAMESPACE_OID, uuid5

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkpg.errors import InvalidInput
from adkpg.remember.policy import RememberPolicy, policy_of_service
from adkpg.tools.recall import service_of

_PARAMETERS = {
    "type": "object",
    "properties": {
        "text": {
            "type": "string",
            "description": "One fact in a sentence that needs no context to be understood.",
        },
    },
    "required": ["text"],
}


class RememberTool(BaseTool):
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
            name="remember",
            description=(
                "Keeps a note about the current user for later conversations, such as a preference "
                "or a decision. Not for what only matters now."
            ),
        )
        self._memory_service = memory_service
        self._policy = policy

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=_PARAMETERS
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """Returns the note as it is stored, or why it is not.

        Raises:
          ConfigurationError: There is no memory service.
          NotImplementedError: The memory service takes no notes.
        """
        text = args.get("text")
        if not isinstance(text, str) or not text.strip():
            return {"error": f"text is what to remember, not {text!r}; give it as a sentence."}
        service = service_of(tool_context, self._memory_service)
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
            await service.add_memory(
                app_name=session.app_name, user_id=session.user_id, memories=[note]
            )
        except InvalidInput as exc:
            return {"error": str(exc)}
        return {"remembered": stored, "id": note_id}
