"""ADK's memory services and ours keep to the suites; where one differs, and why."""

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest
from google.adk.memory import InMemoryMemoryService
from google.adk.memory._sqlite_memory_service import SqliteMemoryService
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import Database, InMemoryVectorMemoryService, PgVectorMemoryService
from adkpg.tooling.testing import MemoryDeletionConformance, MemoryServiceConformance, said
from adkpg.tooling.testing.conformance.memories import USER, found, session_of


class EveryTextAlike:
    """An embedder to which all texts mean the same, and no question means any of them.

    So the search by vectors runs, and what is found is found by its words.
    """

    model = "alike"
    dimensions = 3
    floor = 0.5

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0, 0.0] for _ in texts]

    async def embed_query(self, _text: str) -> list[float]:
        return [0.0, 1.0, 0.0]


class _Ours(MemoryServiceConformance, MemoryDeletionConformance):
    async def test_a_timestamp_has_an_offset(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session_of(said("oolong")))
        (entry,) = (await service.search_memory(**USER, query="oolong")).memories
        assert datetime.fromisoformat(str(entry.timestamp)).tzinfo is not None

    async def test_entries_are_remembered_once_each(self, service: BaseMemoryService) -> None:
        entry = MemoryEntry(id="m", content=types.Content(parts=[types.Part(text="oolong")]))
        for _ in range(3):
            await service.add_memory(**USER, memories=[entry])
        (memory,) = (await service.search_memory(**USER, query="oolong")).memories
        assert memory.id == "m"


async def _oolongs(service: BaseMemoryService) -> int:
    await service.add_session_to_memory(
        session_of(*(said(f"oolong {number}") for number in range(30)))
    )
    return len(await found(service, "oolong"))


class TestOurs(_Ours):
    @pytest.fixture
    def service(self, database: Database) -> BaseMemoryService:
        return PgVectorMemoryService(database, embedder=EveryTextAlike())

    async def test_a_search_is_limited(self, service: BaseMemoryService) -> None:
        assert await _oolongs(service) == 20

    async def test_an_author_is_searched(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session_of(said("I like oolong", author="Alice")))
        assert await found(service, "What does Alice eat?") == ["I like oolong"]

    async def test_the_turn_beside_a_match_is_found_after_it(
        self, service: BaseMemoryService
    ) -> None:
        await service.add_session_to_memory(session_of(said("I like oolong"), said("Noted")))
        assert await found(service, "oolong") == ["I like oolong", "Noted"]


class TestOursInMemory(_Ours):
    @pytest.fixture
    def service(self) -> BaseMemoryService:
        return InMemoryVectorMemoryService(embedder=EveryTextAlike())

    async def test_a_search_is_limited_to_few(self, service: BaseMemoryService) -> None:
        assert await _oolongs(service) == 5

    async def test_each_event_is_looked_at_by_itself(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session_of(said("I like oolong"), said("Noted")))
        assert await found(service, "oolong") == ["I like oolong"]


class TestAdksInMemoryService(MemoryServiceConformance, MemoryDeletionConformance):
    @pytest.fixture
    def service(self) -> BaseMemoryService:
        return InMemoryMemoryService()

    async def test_entries_of_equal_event_ids_have_ids_of_their_own(
        self, service: BaseMemoryService
    ) -> None:
        """An entry's id is its event's, which is unique within a session only."""
        with pytest.raises(AssertionError):
            await super().test_entries_of_equal_event_ids_have_ids_of_their_own(service)

    async def test_thoughts_are_not_found(self, service: BaseMemoryService) -> None:
        """It matches thoughts too."""
        with pytest.raises(AssertionError):
            await super().test_thoughts_are_not_found(service)

    async def test_a_tombstone_belongs_to_its_session(self, service: BaseMemoryService) -> None:
        """An event id is deleted in all of the user's sessions."""
        with pytest.raises(AssertionError):
            await super().test_a_tombstone_belongs_to_its_session(service)


class TestAdksSqliteService(MemoryServiceConformance):
    """It updates each event where it stands and removes none."""

    @pytest.fixture
    async def service(self, tmp_path: Path) -> AsyncIterator[BaseMemoryService]:
        theirs = SqliteMemoryService(tmp_path / "memories.db")
        yield theirs
        await theirs.close()

    async def test_a_session_added_again_replaces_itself(self, service: BaseMemoryService) -> None:
        with pytest.raises(AssertionError):
            await super().test_a_session_added_again_replaces_itself(service)

    async def test_an_empty_session_forgets_itself(self, service: BaseMemoryService) -> None:
        with pytest.raises(AssertionError):
            await super().test_an_empty_session_forgets_itself(service)

    async def test_the_first_version_of_an_added_event_wins(
        self, service: BaseMemoryService
    ) -> None:
        with pytest.raises(AssertionError):
            await super().test_the_first_version_of_an_added_event_wins(service)

    async def test_the_first_of_equal_events_in_one_call_wins(
        self, service: BaseMemoryService
    ) -> None:
        with pytest.raises(AssertionError):
            await super().test_the_first_of_equal_events_in_one_call_wins(service)

    async def test_it_cannot_forget(self, service: BaseMemoryService) -> None:
        with pytest.raises(NotImplementedError):
            await service.delete_memory(**USER, memory_id="1")
