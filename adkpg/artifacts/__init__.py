"""Files that agents save, on the same Postgres."""

from adkpg.artifacts.service import ArtifactsPage, DatabaseArtifactService, StoredArtifact
from adkpg.artifacts.stream import ArtifactStream

__all__ = ["ArtifactStream", "ArtifactsPage", "DatabaseArtifactService", "StoredArtifact"]
