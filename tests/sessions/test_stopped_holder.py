"""A process that is stopped for longer than its lease finds out before it writes anything."""

import asyncio
import os
import signal
import sys
from typing import Any

import pytest

from adkpg import DatabaseSessionService
from tests.fakes.conversation import USER

PLACE: dict[str, Any] = {**USER, "session_id": "s"}
HOLDER = """
import asyncio, os, sys
from google.genai import types
from adkpg import *
from adkpg.errors import InvocationLost

PLACE = {place!r}

async def main():
    async with Database(sys.argv[1], settings=Settings(invocation_lease_s=1)) as db:
        sessions, files = DatabaseSessionService(db), DatabaseArtifactService(db)
        async with sessions.invocation(**PLACE):
            print("held", flush=True)
            sys.stdin.readline()  # the loop stands still, and the process is stopped here
            for write in (
                sessions.update_state(
                    app_name="app", user_id="user", state_delta={{"user:a": 1}}
                ),
                files.save_artifact(**PLACE, filename="f", artifact=types.Part(text="x")),
            ):
                try:
                    await write
                    print("written", flush=True)
                except InvocationLost as exc:
                    print(type(exc).__name__, flush=True)

asyncio.run(main())
"""


@pytest.mark.program
async def test_a_stopped_process_writes_nothing_after_its_lease(
    database_url: str, sessions: DatabaseSessionService
) -> None:
    await sessions.create_session(**PLACE)
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HOLDER.format(place=PLACE),
        database_url,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    os.kill(holder.pid, signal.SIGSTOP)
    try:
        async with sessions.invocation(**PLACE, timeout_s=60):
            os.kill(holder.pid, signal.SIGCONT)
            holder.stdin.write(b"\n")
            answer = await holder.stdout.read()
        assert answer == b"InvocationLost\nInvocationLost\n"
        assert await holder.wait() == 0
    finally:
        if holder.returncode is None:
            holder.kill()
            await holder.wait()
    assert await sessions.get_user_state(app_name=USER["app_name"], user_id=USER["user_id"]) == {}
