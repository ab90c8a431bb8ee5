"""What a ``services.py`` calls."""

from google.adk.cli.service_registry import get_service_registry

from adkpg.adk.services import MemoryService, SessionService

SCHEME = "adkpg"


def register() -> None:
    """Makes ``adkpg://`` URIs known to ADK's commands, for sessions and for memory.

    Does no I/O and opens no connection. Idempotent. Tables are migrated at first use for
    ``adkpg://embedded``, elsewhere with ``ADKPG_AUTO_UPGRADE=true`` only: a database that lacks
    them answers with the sentence that names ``adkpg db upgrade``.
    """
    registry = get_service_registry()
    registry.register_session_service(SCHEME, SessionService)
    registry.register_memory_service(SCHEME, MemoryService)
