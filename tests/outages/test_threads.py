"""Threads of their own for calls that block."""

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from adkpg.outages.threads import Threads

ASKED = contextvars.ContextVar[str]("ASKED")


async def test_a_call_answers_from_a_thread_with_the_callers_context() -> None:
    threads = Threads()
    ASKED.set("why?")
    answer = await threads.run(
        lambda number: (number, ASKED.get(), threading.current_thread().name), 7
    )
    assert answer == (7, "why?", "adkpg-call")
    assert threads.left == 0


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("no")])
async def test_a_call_that_fails_fails_its_caller(error: Exception) -> None:
    def fails(_argument: None) -> None:
        raise error

    with pytest.raises((ValueError, RuntimeError), match=r"no|StopIteration"):
        await Threads().run(fails, None)


async def test_calls_left_behind_are_counted_until_they_end() -> None:
    threads, started, release = Threads(), threading.Event(), threading.Event()

    def hangs(_argument: None) -> None:
        started.set()
        release.wait()

    caller = asyncio.create_task(threads.run(hangs, None))
    assert await asyncio.to_thread(started.wait, 30)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert threads.left == 1
    release.set()
    async with asyncio.timeout(30):
        while threads.left:
            await asyncio.sleep(0.001)


@pytest.mark.program
def test_a_process_ends_though_a_call_hangs() -> None:
    program = """
import asyncio, threading
from adkpg.outages.threads import Threads

async def main():
    async with asyncio.timeout(0.01):
        await Threads().run(lambda _: threading.Event().wait(), None)

asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.rstrip().endswith("TimeoutError")
