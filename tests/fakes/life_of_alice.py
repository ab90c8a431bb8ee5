"""Writes a session of `alice` with `my_agent`, in ADKPG_DATABASE_URL, for pages that export one."""

import asyncio

from adkpg import Database, DatabaseSessionService
from adkpg.testing import said


async def _main() -> None:
    async with Database(remember=True) as database:
        sessions = DatabaseSessionService(database)
        app_name, user_id, session_id = "my_agent", "alice", "s1"
        if not await sessions.get_session(
            app_name=app_name, user_id=user_id, session_id=session_id
        ):
            session = await sessions.create_session(
                app_name=app_name, user_id=user_id, session_id=session_id
            )
            await sessions.append_event(session, said("My bike is in the shed."))


if __name__ == "__main__":
    asyncio.run(_main())
