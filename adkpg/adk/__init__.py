"""adkpg in ADK's own commands: ``adk web``, ``adk api_server`` and ``adk run``.

``adkpg web``, ``adkpg api-server`` and ``adkpg run`` need none of this.

Make ``adkpg://`` known with a ``services.py``, in the folder of agents that ``adk web`` and
``adk api_server`` are given, or in the agent's own folder for ``adk run``::

    from adkpg.adk import register

    register()

or, without code, with a ``services.yaml`` in the same place::

    services:
      - {scheme: adkpg, type: session, class: adkpg.adk.SessionService}
      - {scheme: adkpg, type: memory, class: adkpg.adk.MemoryService}
      - {scheme: adkpg, type: artifact, class: adkpg.adk.ArtifactService}
      - {scheme: adkpg, type: task_store, class: adkpg.adk.task_store}

Then ``adk web --session_service_uri=adkpg:// --memory_service_uri=adkpg://
--artifact_service_uri=adkpg:// agents`` keeps sessions, memories and files in
``ADKPG_DATABASE_URL``; ``adkpg://embedded`` is the server that comes with
``adkpg[embedded]``, ``adkpg://user:password@host/database?options`` any other.

`MemoryPlugin` remembers every turn of a Runner or App by itself. `QueuedRuns` lets the runs of a
session take turns in the app of ``get_fast_api_app``. `Probes` answers
``/livez`` and ``/readyz`` there.
"""

from adkpg.adk.plugin import MemoryPlugin
from adkpg.adk.probes import Probes
from adkpg.adk.queued_runs import QueuedRuns
from adkpg.adk.services import (
    ArtifactService,
    MemoryService,
    SessionService,
    register,
    task_store,
)

__all__ = [
    "ArtifactService",
    "MemoryPlugin",
    "MemoryService",
    "Probes",
    "QueuedRuns",
    "SessionService",
    "register",
    "task_store",
]
