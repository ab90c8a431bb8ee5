"""One service used by a process and its forked child: python -m tests.fakes.fork URL."""

import asyncio
import os
import signal
import sys

from adkpg import DatabaseSessionService
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER


async def _in_the_child(service: DatabaseSessionService) -> None:
    session = await service.create_session(**USER, session_id="child")
    await service.append_event(session, said("x"))
    await service.close()


async def _main(url: str) -> None:
    service = DatabaseSessionService(url)
    session = await service.create_session(**USER, session_id="parent")
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a child that hangs ends too, and not well
        asyncio.run(_in_the_child(service))
        os._exit(0)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert status == 0, "the child failed"
    await service.append_event(session, said("y"))
    assert await service.get_session(**USER, session_id="parent") == session
    await service.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
