"""Two backends append to one session simultaneously, as voice and tool do; nothing is lost."""

import asyncio

from google.adk.events import Event, EventActions

from adkpg import Database, DatabaseSessionService


async def write(service: DatabaseSessionService, session_id: str, author: str) -> None:
    """Appends ten events through a Session object of its own."""
    session = await service.get_session(app_name="voice", user_id="ana", session_id=session_id)
    assert session is not None
    for number in range(10):
        actions = EventActions(state_delta={f"user:{author}": number})
        await service.append_event(session, Event(author=author, actions=actions))


async def main() -> None:
    """Lets both write simultaneously, and reads what came of it."""
    async with Database() as db:
        await db.upgrade()
        service = DatabaseSessionService(db, on_conflict="merge")
        session = await service.create_session(app_name="voice", user_id="ana")
        await asyncio.gather(
            write(service, session.id, "microphone"), write(service, session.id, "calendar")
        )
        stored = await service.get_session(app_name="voice", user_id="ana", session_id=session.id)
        assert stored is not None
        print(f"{len(stored.events)} events, state {stored.state}")


if __name__ == "__main__":
    asyncio.run(main())
