"""Deadlines that hold, whatever is waited for."""

import asyncio
import gc

import pytest

from adkpg.outages.deadline import Overdue, answer_within

LONG_S = 60.0


async def test_an_answer_in_time_is_returned() -> None:
    async def answers() -> str:
        return "yes"

    assert await answer_within(answers(), LONG_S) == "yes"


async def test_an_error_in_time_is_raised_as_it_is() -> None:
    error = TimeoutError("of its own")

    async def fails() -> None:
        raise error

    with pytest.raises(TimeoutError) as caught:
        await answer_within(fails(), LONG_S)
    assert caught.value is error


async def test_a_call_that_is_late_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(Overdue):
        await answer_within(hangs(), 0.01)
    assert cancelled.is_set()


async def test_a_call_that_swallows_its_cancellation_is_left_behind() -> None:
    release, ended = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await release.wait()
        ended.set()
        raise RuntimeError("that nobody hears")

    with pytest.raises(Overdue):
        await answer_within(stubborn(), 0.01)
    assert not ended.is_set()
    gc.collect()  # nor does it take the call away while it runs
    release.set()
    await ended.wait()
    gc.collect()


async def test_a_cancelled_caller_waits_for_what_its_call_has_to_clean_up() -> None:
    started, clean = asyncio.Event(), asyncio.Event()

    async def hangs() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            clean.set()

    caller = asyncio.create_task(answer_within(hangs(), LONG_S))
    await started.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert clean.is_set()


async def test_a_cancelled_caller_leaves_a_stubborn_call_behind() -> None:
    started, release, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await release.wait()
        ended.set()

    caller = asyncio.create_task(answer_within(stubborn(), LONG_S))
    await started.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not ended.is_set()
    release.set()
    await ended.wait()


async def test_a_call_that_cancels_itself_cancels_nobody_else() -> None:
    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ConnectionAbortedError):
        await answer_within(cancels_itself(), LONG_S)
