"""ForgetTool: the model deletes a memory."""

from typing import Any

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkpg.tools.recall import service_of

_PARAMETERS = {
    "type": "object",
    "properties": {
        "memory_id": {
            "type": "string",
            "description": "The id of one memory, as load_memory or remember gave it.",
        },
    },
    "required": ["memory_id"],
}


class ForgetTool(BaseTool):
    """The tool ``forget(memory_id)``: the model deletes one memory of the current user.

    It cannot reach memories of other users, and there is no way to delete all. The answer is
    ``{"forgotten": memory_id}``, or ``{"error": ...}`` if no id is given or, where the service can
    look memories up (``get_memory``), the user has no memory with it.

    Without a memory service the call raises a ValueError; with one that deletes nothing,
    NotImplementedError.

    Args:
      memory_service: Where to delete; None is the runner's.
    """

    def __init__(self, *, memory_service: BaseMemoryService | None = None) -> None:
        super().__init__(
            name="forget",
            description=(
                "Deletes one memory of the current user, when the user asks for it or it is wrong."
            ),
        )
        self._memory_service = memory_service

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=_PARAMETERS
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """Returns the id of what is forgotten, or why nothing is.

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
        service = service_of(tool_context, self._memory_service)
        session = tool_context.session
        memory = {
            "app_name": session.app_name,
            "user_id": session.user_id,
            "memory_id": memory_id,
        }
        get_memory = getattr(service, "get_memory", None)
        if get_memory is not None and await get_memory(**memory) is None:
            return {
                "error": f"This user has no memory {memory_id!r}; look ids up with load_memory."
            }
        await service.delete_memory(**memory)
        return {"forgotten": memory_id}
