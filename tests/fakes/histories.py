"""Callers that write to sessions and read them, and what they were told, in Jepsen's manner."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from adkpg import Database, DatabaseSessionService
from adkpg.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.replication import until
from tests.fakes.telemetry import Watched

WRITERS, READERS = 3, 3


@dataclass
class History:
    """What callers were told of one session.

    Attributes:
      acknowledged: Texts of appends that returned, in order.
      reads: By caller, each read as a list of texts with the count that ``user:`` state had.
    """

    acknowledged: list[str] = field(default_factory=list)
    reads: dict[str, list[tuple[list[str | None], int]]] = field(default_factory=dict)

    def check(self, final: list[str | None]) -> None:
        for caller, reads in self.reads.items():
            before, count_before = 0, 0
            for read, count in reads:
                assert read == final[: len(read)], f"{caller} read what is no prefix"
                assert len(read) >= before, f"{caller} went back from {before} to {len(read)}"
                assert count >= count_before, f"{caller} saw an older state"
                before, count_before = len(read), count


class Load:
    """Writers, each with a session of its own, and readers of all of them.

    Args:
      database: Theirs.
      elsewhere: The writers' own, if they are of another process, of which readers know nothing.
    """

    def __init__(self, database: Database, elsewhere: Database | None = None) -> None:
        self.service = DatabaseSessionService(database)
        self.writing = DatabaseSessionService(elsewhere or database)
        self._here = elsewhere is None
        self.histories = [History() for _ in range(WRITERS)]
        self.ended = asyncio.Event()
        self.state_written = 0
        self._counting = asyncio.Lock()

    @property
    def acknowledged(self) -> list[list[str]]:
        """The texts of appends that returned, of each session."""
        return [history.acknowledged for history in self.histories]

    async def write(self, number: int) -> None:
        history = self.histories[number]
        live = await self.writing.create_session(**USER, session_id=f"s{number}")
        while not self.ended.is_set():
            text = str(len(history.acknowledged))
            # One more than any writer has sent, so the state that was written last is the largest.
            async with self._counting:
                count = self.state_written + 1
                await self.writing.append_event(live, said(text, state={"user:n": count}))
                self.state_written = count
            history.acknowledged.append(text)
            if self._here:  # what this process has written is in what it reads next
                acknowledged = len(history.acknowledged)
                read = await self._read(f"writer {number}", number)
                assert len(read) >= acknowledged, "one's own write was missing"
            await asyncio.sleep(random.uniform(0, 0.1))

    async def read(self, caller: int) -> None:
        while not self.ended.is_set():
            number = random.randrange(WRITERS)
            sent = len(self.histories[number].acknowledged) if self._here else 0
            read = await self._read(f"reader {caller}", number)
            assert len(read) >= sent, "what was acknowledged in this process was missing"
            await asyncio.sleep(0.002)

    async def _read(self, caller: str, number: int) -> list[str | None]:
        sent = self.state_written if self._here else 0
        session = await self.service.get_session(**USER, session_id=f"s{number}")
        if session is None:
            return []
        read = texts(session)
        count = session.state.get("user:n", 0)
        assert count >= sent, "a state that was written through another session was missing"
        self.histories[number].reads.setdefault(caller, []).append((read, count))
        return read


@asynccontextmanager
async def running(load: Load) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        for number in range(WRITERS):
            group.create_task(load.write(number))
        for caller in range(READERS):
            group.create_task(load.read(caller))
        try:
            yield
        finally:
            load.ended.set()


async def more(load: Load, appends: int) -> None:
    goal = [len(history.acknowledged) + appends for history in load.histories]

    async def written() -> bool:
        return all(
            len(history.acknowledged) >= wanted
            for history, wanted in zip(load.histories, goal, strict=True)
        )

    await until(written)


async def read_at(url: str, watched: Watched) -> None:
    """Returns when the server with this URL has answered a call that ended after this one began."""
    watched.clear()

    async def answered() -> int:
        return watched.answered_at(url)

    await until(answered)


async def checked(load: Load, url: str) -> list[list[str | None]]:
    """Returns the texts of each session as they are in the end, of which every read is a prefix."""
    finals = []
    async with DatabaseSessionService(url) as service:
        for number, history in enumerate(load.histories):
            session = await service.get_session(**USER, session_id=f"s{number}")
            assert session is not None
            history.check(texts(session))
            finals.append(texts(session))
    return finals
