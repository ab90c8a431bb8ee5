"""Files that agents save, on the same Postgres."""

from adkpg.artifacts.service import DatabaseArtifactService, StoredArtifact
from adkpg.artifacts.stream import ArtifactStream
from adkpg.artifacts.sweep import SweptObjects, sweep_objects

__all__ = [
    "ArtifactStream",
    "DatabaseArtifactService",
    "StoredArtifact",
    "SweptObjects",
    "sweep_objects",
]
