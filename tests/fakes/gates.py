"""What the agent of `gated` and a test in the same process tell each other."""

import asyncio
import time

begun: asyncio.Queue[str]
opened: asyncio.Event
left: list[asyncio.Task[None]]


def block() -> None:
    """Keeps the event loop from turning, for three leases of the test's."""
    time.sleep(1.5)


def reset() -> None:
    """Closes the gate, and forgets the runs of before."""
    global begun, opened, left
    begun, opened, left = asyncio.Queue(), asyncio.Event(), []


reset()
