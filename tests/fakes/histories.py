"""Callers that write to sessions and read them, and what they were told, in Jepsen's manner."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

from google.adk.sessions.session import Session

from adkpg import Database, DatabaseSessionService
from adkpg.errors import StaleSession
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER
from tests.fakes.replication import until
from tests.fakes.telemetry import Watched

WRITERS, READERS = 3, 3


@dataclass
class History:
    """What callers were told of one session.

    Attributes:
      acknowledged: Texts of appends that returned, in order; without those that a failover lost,
        once its writer has been told.
      lost: What there was until then, and what was under way; None if nothing was lost.
      reads: By caller, each read as a list of texts with the count that ``user:`` state had.
    """

    acknowledged: list[str] = field(default_factory=list)
    lost: list[str] | None = None
    reads: dict[str, list[tuple[list[str | None], int]]] = field(default_factory=dict)

    def kept(self, final: Sequence[str | None]) -> int:
        """Returns how much of what there was is left after a failover."""
        pairs = takewhile(
            lambda pair: pair[0] == pair[1], zip(self.lost or (), final, strict=False)
        )
        return sum(1 for _ in pairs)

    def taken_back(self, final: Sequence[str | None]) -> set[str]:
        """Returns the callers who read what was lost, and after that what is left."""
        kept = self.kept(final)
        return {
            caller
            for caller, reads in self.reads.items()
            for place, (read, _) in enumerate(reads)
            if read != [*final[: len(read)]]
            and len(read) > kept
            and any(later == [*final[: len(later)]] for later, _ in reads[place:])
        }

    def violation(self, final: list[str | None]) -> str | None:
        """Says who read what is no prefix of the final list, or went back; None if nobody did.

        Where a failover lost something, reads may be of what there was, and then of the final list,
        from what is left of the other on.
        """
        for caller, reads in self.reads.items():
            lost, before = self.lost is not None, (0, 0)
            line: Sequence[str | None] = final if self.lost is None else self.lost
            for read, count in reads:
                wrong = _wrong(read, count, line, before)
                if wrong and lost:
                    lost, line = False, final
                    wrong = _wrong(read, count, line, (min(before[0], self.kept(final)), 0))
                if wrong:
                    return f"{caller} {wrong}"
                before = len(read), count
        return None


def _wrong(
    read: list[str | None], count: int, line: Sequence[str | None], before: tuple[int, int]
) -> str | None:
    if read != [*line[: len(read)]]:
        return "read what is no prefix"
    if len(read) < before[0]:
        return f"went back from {before[0]} to {len(read)}"
    return "saw an older state" if count < before[1] else None


def falls(counts: Sequence[int]) -> int:
    """Returns how often a count was less than the one before."""
    return sum(later < before for before, later in pairwise(counts))


class Load:
    """Writers, each with a session of its own, and readers of all of them.

    Args:
      database: Theirs.
      elsewhere: The writers' own, if they are of another process, of which readers know nothing.
      longest_pause_s: Between two appends of a writer; it is random.

    Attributes:
      loses: Whether a failover may be losing what was acknowledged; then writers who are told go on
        from what is left.
      states: By caller, the ``user:`` state's count of each read, whichever the session.
    """

    def __init__(
        self,
        database: Database,
        elsewhere: Database | None = None,
        *,
        longest_pause_s: float = 0.1,
    ) -> None:
        self._longest_pause_s = longest_pause_s
        self.service = DatabaseSessionService(database)
        self.writing = DatabaseSessionService(elsewhere or database)
        self._here = elsewhere is None
        self.histories = [History() for _ in range(WRITERS)]
        self.ended = asyncio.Event()
        self.loses = False
        self.state_written = 0
        self.states: dict[str, list[int]] = {}
        self._counting = asyncio.Lock()

    @property
    def acknowledged(self) -> list[list[str]]:
        """The texts of appends that returned, of each session."""
        return [history.acknowledged for history in self.histories]

    async def write(self, number: int) -> None:
        history = self.histories[number]
        live = await self.writing.create_session(**USER, session_id=f"s{number}")
        while not self.ended.is_set():
            text = str(len(history.acknowledged) + len(history.lost or ()))
            # One more than any writer has sent, so the state that was written last is the largest.
            async with self._counting:
                count = self.state_written + 1
                try:
                    await self.writing.append_event(live, said(text, state={"user:n": count}))
                except StaleSession:
                    live = await self._left(history, text, number)
                    continue
                self.state_written = count
            history.acknowledged.append(text)
            if self._here:  # what this process has written is in what it reads next
                acknowledged = self._owed(number)
                read = await self._read(f"writer {number}", number)
                assert len(read) >= acknowledged or self.loses, "one's own write was missing"
            await asyncio.sleep(random.uniform(0, self._longest_pause_s))

    async def _left(self, history: History, text: str, number: int) -> Session:
        assert self.loses, "an only writer was told that there are others"
        assert history.lost is None, "one failover loses once"
        history.lost = [*history.acknowledged, text]
        live = await self.writing.get_session(**USER, session_id=f"s{number}")
        assert live is not None
        history.acknowledged[:] = [each or "" for each in texts(live)]
        return live

    def _owed(self, number: int) -> int:
        return 0 if self.loses else len(self.histories[number].acknowledged)

    async def read(self, caller: int) -> None:
        while not self.ended.is_set():
            number = random.randrange(WRITERS)
            sent = self._owed(number) if self._here else 0
            read = await self._read(f"reader {caller}", number)
            assert len(read) >= sent or self.loses, "what this process acknowledged was missing"
            await asyncio.sleep(0.002)

    async def _read(self, caller: str, number: int) -> list[str | None]:
        sent = self.state_written if self._here and not self.loses else 0
        session = await self.service.get_session(**USER, session_id=f"s{number}")
        reads = self.histories[number].reads.setdefault(caller, [])
        if session is None:  # as before it was made, or a violation after that was seen
            reads.append(([], 0))
            return []
        read = texts(session)
        count = session.state.get("user:n", 0)
        assert count >= sent or self.loses, "another session's write of the state was missing"
        reads.append((read, count))
        self.states.setdefault(caller, []).append(count)
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


async def read_beyond(load: Load, counts: list[int]) -> None:
    """Returns when a reader has read more of each session than so many events."""

    async def read() -> bool:
        return all(
            any(
                len(texts) > count
                for caller, reads in history.reads.items()
                if caller.startswith("reader")
                for texts, _ in reads[-1:]
            )
            for history, count in zip(load.histories, counts, strict=True)
        )

    await until(read)


async def readers_taken_back(load: Load) -> None:
    """Returns when of each session a reader has read what was lost, and then what is left."""

    async def read() -> bool:
        return all(
            any(caller.startswith("reader") for caller in history.taken_back(history.acknowledged))
            for history in load.histories
        )

    await until(read)


async def told_of_losses(load: Load) -> None:
    """Returns when each writer knows that a failover lost what it had appended."""

    async def told() -> bool:
        return all(history.lost is not None for history in load.histories)

    await until(told)


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
            found = history.violation(texts(session))
            assert found is None, found
            finals.append(texts(session))
    lost = any(history.lost is not None for history in load.histories)
    for caller, counts in load.states.items():
        assert falls(counts) <= lost, f"{caller} saw an older state of the user"
    return finals
