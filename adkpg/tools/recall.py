"""Recall: one search for an agent, in whatever memory service there is."""

import inspect
from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.tools.tool_context import ToolContext

from adkpg.errors import ConfigurationError
from adkpg.memory.filters import SearchFilters

_OPTIONS = frozenset({"filters", "top_k"})


class Found(Protocol):
    """A hit of a search with options."""

    @property
    def memory(self) -> MemoryEntry:
        """The memory that was found."""
        ...


class SearchWithOptions(Protocol):
    """A memory service whose ``search`` takes filters and a limit, as adkpg's do."""

    async def search(
        self, *, app_name: str, user_id: str, query: str, **options: Any
    ) -> Sequence[Found]:
        """Returns the hits, best first."""
        ...


def takes_options(service: object) -> TypeGuard[SearchWithOptions]:
    """Whether a memory service has a ``search`` with filters and a limit."""
    search = getattr(service, "search", None)
    if not callable(search):
        return False
    parameters = inspect.signature(search).parameters
    any_option = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return any_option or parameters.keys() >= _OPTIONS


def service_of(tool_context: ToolContext, own: BaseMemoryService | None) -> BaseMemoryService:
    """Returns the tool's own memory service, or else the runner's.

    Raises:
      ConfigurationError: There is none; a ValueError in ADK's words, as ADK's own tools raise.
    """
    service = own if own is not None else tool_context.get_invocation_context().memory_service
    if service is None:
        raise ConfigurationError(
            "Memory service is not available; give the Runner a memory_service, or the tool one of "
            "its own."
        )
    return service


async def recall(
    tool_context: ToolContext,
    service: BaseMemoryService,
    query: str,
    *,
    filters: SearchFilters | None = None,
    max_entries: int | None = None,
) -> list[MemoryEntry]:
    """Returns what the turn's user has in memory about a query, best first.

    Turns of the running invocation are left out, also of services other than adkpg's own, which
    leave them out themselves.

    Args:
      tool_context: Of the turn.
      service: Where to search.
      query: Words or a question.
      filters: For services that `takes_options`; others ignore it.
      max_entries: Most memories, at least 1; None is the service's own limit.

    Raises:
      InvalidInput: A filter cannot be read.
    """
    session = tool_context.session
    scope = {"app_name": session.app_name, "user_id": session.user_id}
    now = {
        event.id for event in session.events if event.invocation_id == tool_context.invocation_id
    }
    memories: Sequence[MemoryEntry]
    if takes_options(service):
        options: dict[str, Any] = {} if filters is None else {"filters": filters}
        if max_entries is not None:
            options["top_k"] = max_entries + len(now)
        memories = [hit.memory for hit in await service.search(**scope, query=query, **options)]
    else:
        memories = (await service.search_memory(**scope, query=query)).memories
    # ADK's own services give a memory its event's id.
    earlier = [each for each in memories if (getattr(each, "event_id", None) or each.id) not in now]
    return earlier[:max_entries]
