"""The service on the database of a test; modules say what that database has."""

import pytest

from adkpg import Database, DatabaseArtifactService


@pytest.fixture
def files(database: Database) -> DatabaseArtifactService:
    return DatabaseArtifactService(database)
