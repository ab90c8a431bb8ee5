"""What a listing says of each session, whoever has it and on whichever node it is."""

import pytest

from adkpg import Database, DatabaseSessionService
from adkpg.sessions.listing.openings import Opening, openings
from adkpg.tooling.testing import said

pytestmark = pytest.mark.cluster


async def test_each_session_has_its_own_number_of_events_and_first_words(
    database: Database,
) -> None:
    service = DatabaseSessionService(database)
    sessions, expected = [], []
    for number in range(12):  # several of each user, and more users than nodes
        session = await service.create_session(app_name="app", user_id=f"user{number % 4}")
        for event in range(1 + number % 3):
            await service.append_event(session, said(f"{number}.{event}"))
        sessions.append(session)
        expected.append(Opening(1 + number % 3, f"{number}.0"))
    for some in (12, 8, 4, 3):
        assert await openings(database.run, "app", sessions[:some]) == expected[:some]
