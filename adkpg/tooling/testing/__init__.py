"""What tests of agents need: databases of their own, a model and an embedder that are predictable.

pytest finds the fixtures by itself once adkpg is installed (`adkpg.tooling.testing.plugin`):
``adkpg_database``, ``adkpg_sessions``, ``adkpg_memory`` and ``adkpg_artifacts``, all on a fresh,
migrated database of the test's own. The classes here are used with them or alone.

Each name is imported at its first use, so that a run of pytest without them pays nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "ArtifactServiceConformance",
    "DeterministicEmbedder",
    "MemoryDeletionConformance",
    "MemoryServiceConformance",
    "Pause",
    "ScriptedLlm",
    "SessionServiceConformance",
    "call",
    "calls",
    "said",
    "text",
    "texts",
]

if TYPE_CHECKING:
    from adkpg.tooling.testing.conformance.artifacts import ArtifactServiceConformance
    from adkpg.tooling.testing.conformance.memories import (
        MemoryDeletionConformance,
        MemoryServiceConformance,
    )
    from adkpg.tooling.testing.conformance.sessions import SessionServiceConformance
    from adkpg.tooling.testing.embedder import DeterministicEmbedder
    from adkpg.tooling.testing.events import said, texts
    from adkpg.tooling.testing.scripted_llm import Pause, ScriptedLlm, call, calls, text
else:
    _MODULES = {
        "ArtifactServiceConformance": "conformance.artifacts",
        "DeterministicEmbedder": "embedder",
        "MemoryDeletionConformance": "conformance.memories",
        "MemoryServiceConformance": "conformance.memories",
        "Pause": "scripted_llm",
        "ScriptedLlm": "scripted_llm",
        "SessionServiceConformance": "conformance.sessions",
        "call": "scripted_llm",
        "calls": "scripted_llm",
        "said": "events",
        "text": "scripted_llm",
        "texts": "events",
    }

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module 'adkpg.tooling.testing' has no attribute {name!r}")
        globals()[name] = found = getattr(
            import_module(f"adkpg.tooling.testing.{_MODULES[name]}"), name
        )
        return found

    def __dir__():
        return list(__all__)
