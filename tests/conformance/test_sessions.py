"""ADK's session services and ours keep to the suite; where a built-in differs, and why."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.database_session_service import (
    DatabaseSessionService as AdkDatabaseSessionService,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

from adkpg import DatabaseSessionService
from adkpg.tooling.testing import SessionServiceConformance, said
from tests.fakes.conversation import USER

ACCEPTED = pytest.fail.Exception  # of what pytest.raises(...) waited for


def _adks(url: str) -> AdkDatabaseSessionService:
    return AdkDatabaseSessionService(url.replace("postgresql://", "postgresql+asyncpg://", 1))


class TestOurs(SessionServiceConformance):
    @pytest.fixture
    def service(self, sessions: DatabaseSessionService) -> BaseSessionService:
        return sessions

    async def test_infinity_in_a_delta_is_null(self, service: BaseSessionService) -> None:
        session = await service.create_session(**USER)
        await service.append_event(session, said("x", state={"n": float("inf")}))
        again = await service.get_session(**USER, session_id=session.id)
        assert again is not None
        assert again.state == {"n": None}


class TestAdksInMemoryService(SessionServiceConformance):
    """It never detects a stale writer, and keeps distinct events of one id."""

    @pytest.fixture
    def service(self) -> BaseSessionService:
        return InMemorySessionService()

    async def test_a_stale_writer_is_refused(self, service: BaseSessionService) -> None:
        with pytest.raises(ACCEPTED):
            await super().test_a_stale_writer_is_refused(service)

    async def test_a_stale_writer_of_the_same_timestamp_is_refused(
        self, service: BaseSessionService
    ) -> None:
        with pytest.raises(ACCEPTED):
            await super().test_a_stale_writer_of_the_same_timestamp_is_refused(service)

    async def test_a_stale_session_rebuilt_from_json_is_refused(
        self, service: BaseSessionService
    ) -> None:
        with pytest.raises(ACCEPTED):
            await super().test_a_stale_session_rebuilt_from_json_is_refused(service)

    async def test_another_event_of_a_stored_id_is_refused(
        self, service: BaseSessionService
    ) -> None:
        with pytest.raises(ACCEPTED):
            await super().test_another_event_of_a_stored_id_is_refused(service)

    async def test_half_a_character_becomes_a_mark(self, service: BaseSessionService) -> None:
        """It keeps half a character, and cannot be read over HTTP."""
        with pytest.raises(AssertionError):
            await super().test_half_a_character_becomes_a_mark(service)


@pytest.mark.server
class TestAdksDatabaseService(SessionServiceConformance):
    @pytest.fixture
    async def service(self, database_url: str) -> AsyncIterator[BaseSessionService]:
        async with _adks(database_url) as theirs:
            yield theirs

    async def test_a_padded_id_is_stripped(self, service: BaseSessionService) -> None:
        """It keeps ids verbatim; recorded upstream as a defect."""
        with pytest.raises(AssertionError):
            await super().test_a_padded_id_is_stripped(service)

    async def test_a_blank_id_generates_one(self, service: BaseSessionService) -> None:
        """It stores blank ids as they are."""
        with pytest.raises(AssertionError):
            await super().test_a_blank_id_generates_one(service)

    async def test_long_ids(self, service: BaseSessionService) -> None:
        """Its columns are VARCHAR(128)."""
        with pytest.raises(DBAPIError):
            await super().test_long_ids(service)

    async def test_events_are_in_append_order(self, service: BaseSessionService) -> None:
        """It orders by the client's clock, not by append."""
        with pytest.raises(AssertionError):
            await super().test_events_are_in_append_order(service)

    async def test_equal_timestamps_keep_append_order(self, service: BaseSessionService) -> None:
        """It orders equal timestamps by id, which is random by default."""
        with pytest.raises(AssertionError):
            await super().test_equal_timestamps_keep_append_order(service)

    async def test_a_stale_writer_of_the_same_timestamp_is_refused(
        self, service: BaseSessionService
    ) -> None:
        """Its marker is the event's timestamp."""
        with pytest.raises(ACCEPTED):
            await super().test_a_stale_writer_of_the_same_timestamp_is_refused(service)

    async def test_an_equal_event_delivered_again_changes_nothing(
        self, service: BaseSessionService
    ) -> None:
        """Every redelivery breaks its primary key."""
        with pytest.raises(IntegrityError):
            await super().test_an_equal_event_delivered_again_changes_nothing(service)

    async def test_another_event_of_a_stored_id_is_refused(
        self, service: BaseSessionService
    ) -> None:
        """It lets the driver's error through."""
        with pytest.raises(IntegrityError):
            await super().test_another_event_of_a_stored_id_is_refused(service)

    async def test_any_text_is_kept(self, service: BaseSessionService) -> None:
        """Its jsonb does not hold NUL; the event is lost."""
        with pytest.raises(DBAPIError, match="Unicode escape"):
            await super().test_any_text_is_kept(service)

    async def test_half_a_character_becomes_a_mark(self, service: BaseSessionService) -> None:
        """Its jsonb does not hold one; the event is lost."""
        with pytest.raises(Exception, match=r"surrogates|utf-8|type json"):
            await super().test_half_a_character_becomes_a_mark(service)

    async def test_infinity_in_a_delta_loses_the_event(self, service: BaseSessionService) -> None:
        session = await service.create_session(**USER)
        with pytest.raises(DBAPIError):
            await service.append_event(session, said("x", state={"n": float("inf")}))


_TYPES: dict[str, Callable[[], Any]] = {
    "set": lambda: {1},
    "bytes": lambda: b"x",
    "call": lambda: len,
}


@pytest.mark.parametrize("name", _TYPES)
async def test_ours_stores_what_adk_stores(name: str, database_url: str) -> None:
    found = []
    async with _adks(database_url) as theirs, DatabaseSessionService(database_url) as ours:
        services: tuple[BaseSessionService, ...] = (theirs, ours)
        for service in services:
            session = await service.create_session(**USER, state={"a": _TYPES[name]()})
            await service.append_event(session, said("x", state={"user:b": _TYPES[name]()}))
            again = await service.get_session(**USER, session_id=session.id)
            assert again is not None
            found.append(again.state)
    assert found[0] == found[1]
