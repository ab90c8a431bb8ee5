"""Files that agents save, on the same Postgres."""

from adkpg.artifacts.service import ArtifactsPage, DatabaseArtifactService, StoredArtifact
from adkpg.artifacts.store import SweptObjects, sweep_objects
from adkpg.artifacts.stream import ArtifactStream

__all__ = [
    "ArtifactStream",
    "ArtifactsPage",
    "DatabaseArtifactService",
    "StoredArtifact",
    "SweptObjects",
    "sweep_objects",
]
