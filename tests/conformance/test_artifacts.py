"""ADK's artifact services and ours keep to the suite; where one differs, and why."""

from pathlib import Path

import pytest
from google.adk.artifacts import FileArtifactService, InMemoryArtifactService
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from pydantic import SecretStr

from adkpg import Database, DatabaseArtifactService, Settings
from adkpg.tooling.testing import ArtifactServiceConformance


class TestOurs(ArtifactServiceConformance):
    @pytest.fixture
    def service(self, database: Database) -> BaseArtifactService:
        return DatabaseArtifactService(database)


class TestOursOnAnObjectStore(ArtifactServiceConformance):
    @pytest.fixture
    def service(self, database_url: str, tmp_path: Path) -> BaseArtifactService:
        settings = Settings(
            artifact_store=SecretStr(f"file://{tmp_path}"), artifact_store_above_kb=0
        )
        return DatabaseArtifactService(Database(database_url, settings=settings))


class TestInMemory(ArtifactServiceConformance):
    @pytest.fixture
    def service(self) -> BaseArtifactService:
        return InMemoryArtifactService()

    async def test_a_blob_without_bytes_is_refused(self, service: BaseArtifactService) -> None:
        """It is kept, and loads as none."""
        with pytest.raises(pytest.fail.Exception):
            await super().test_a_blob_without_bytes_is_refused(service)


class TestFiles(ArtifactServiceConformance):
    @pytest.fixture
    def service(self, tmp_path: Path) -> BaseArtifactService:
        return FileArtifactService(tmp_path)

    async def test_a_text_keeps_its_ends_of_lines(self, service: BaseArtifactService) -> None:
        """Python reads its files with the ends of lines that are usual here."""
        with pytest.raises(AssertionError):
            await super().test_a_text_keeps_its_ends_of_lines(service)

    async def test_a_reference_leads_to_the_file(self, service: BaseArtifactService) -> None:
        """It keeps no references."""
        with pytest.raises(InputValidationError):
            await super().test_a_reference_leads_to_the_file(service)
