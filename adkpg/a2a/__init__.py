"""Tasks of A2A in Postgres, with the sessions, memory and files of the people they are about.

Needs ``adkpg[a2a]``. `DatabaseTaskStore` keeps the tasks; `lifespan` has an app of ADK's serve them
across processes.
"""

try:
    from a2a.server.cluster import VersionedTaskStore as _needed  # noqa: F401
except ImportError as exc:
    raise ImportError(
        "Tasks of A2A need a2a-sdk 1.2 or later, with its server; pip install 'adkpg[a2a]'."
    ) from exc

from adkpg.a2a.serving import lifespan
from adkpg.a2a.store import DatabaseTaskStore

__all__ = ["DatabaseTaskStore", "lifespan"]
