"""MemoryTool: a tool that a model calls, on a memory service."""

from collections.abc import Mapping
from typing import Any

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adkpg.errors import ConfigurationError


class MemoryTool(BaseTool):
    """A tool whose arguments are texts, the first of which the model must give.

    Args:
      name: The model calls it by this.
      description: When to call it.
      texts: Descriptions of the arguments, by their names.
      memory_service: None is the runner's.
    """

    def __init__(
        self,
        name: str,
        *,
        description: str,
        texts: Mapping[str, str],
        memory_service: BaseMemoryService | None,
    ) -> None:
        super().__init__(name=name, description=description)
        self._texts = texts
        self._memory_service = memory_service

    def __repr__(self) -> str:
        return f"{type(self).__name__}(memory_service={self._memory_service!r})"

    def _get_declaration(self) -> types.FunctionDeclaration:
        parameters: dict[str, Any] = {
            "type": "object",
            "properties": {
                name: {"type": "string", "description": text} for name, text in self._texts.items()
            },
            "required": list(self._texts)[:1],
        }
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=parameters
        )

    def _service(self, tool_context: ToolContext) -> BaseMemoryService:
        """Returns the tool's own memory service, or else the runner's.

        Raises:
          ConfigurationError: There is none; a ValueError in ADK's words, as ADK's own tools raise.
        """
        service = service_of(tool_context, self._memory_service)
        if service is None:
            raise ConfigurationError(
                "Memory service is not available; give the Runner a memory_service, or the tool "
                "one of its own."
            )
        return service


def service_of(
    tool_context: ToolContext, own: BaseMemoryService | None
) -> BaseMemoryService | None:
    """Returns a tool's own memory service, or else the runner's, if it has one."""
    return own if own is not None else tool_context.get_invocation_context().memory_service
