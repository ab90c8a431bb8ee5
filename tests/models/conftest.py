"""An app with memories under one model, and what another knows of it."""

import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.tooling.models.service import Models
from tests.fakes.toys import ToyEmbedder


@pytest.fixture
def models(database: Database) -> Models:
    return Models(database)


@pytest.fixture
def old(database: Database) -> PgVectorMemoryService:
    """The service that set the app's active model."""
    return PgVectorMemoryService(database, embedder=ToyEmbedder("old"))


@pytest.fixture
def by_threes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three texts in a batch."""
    settings = database.settings.model_copy(update={"embedding_batch_size": 3})
    monkeypatch.setattr(database, "settings", settings)
