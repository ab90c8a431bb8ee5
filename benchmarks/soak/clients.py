"""Clients of a soak, each a process: writers with live sessions, readers, a worker, upkeep.

    python -m benchmarks.soak.clients KIND NUMBER URL FOLDER

Each writes what it did to FOLDER/KIND-NUMBER.jsonl and goes on until SIGTERM. A writer that was
killed is started again, and takes up the sessions that its file says it had.
"""

import asyncio
import hashlib
import json
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.erasure import forget, prune, tidy
from adkpg.errors import RetryableError, SessionExists, StaleSession
from benchmarks.soak.history import Log

T = TypeVar("T")

APP = "soak"
WRITERS = 4  # processes
SLOTS = 3  # live Session objects in each
SHARED = 2  # sessions that all writers append to
GENERATION_S = 45.0  # after which writers go on in another shared session
LENGTH = 40  # events, then a session is deleted and the next one begins
PACE_S = 0.25  # between the appends of one live Session, however long each takes
PRUNED_AFTER_S = 40.0
TIDIED_EVERY_S = 5.0
GUESTS = 6
WORDS = ("kitten", "oolong", "bicycle", "harbour", "violin", "lantern", "meadow", "pepper")


class Flaky:
    """An embedder that sometimes fails and sometimes hangs for a while."""

    model = "flaky"
    dimensions = 32

    def __init__(self, random_: random.Random) -> None:
        self._random = random_

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        chance = self._random.random()
        if chance < 0.05:
            raise ConnectionError("the embedder is down")
        if chance < 0.07:
            await asyncio.sleep(3)
        return [self._vector(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        return (await self.embed_documents([text]))[0]

    def _vector(self, text: str) -> list[float]:
        return [byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()]


class Client:
    """What all kinds have: a log, a way to go on after errors, and an end.

    Args:
      kind: Which.
      number: Tells processes of a kind apart.
      url: The database.
      folder: Where the logs are.
    """

    def __init__(self, kind: str, number: int, url: str, folder: Path) -> None:
        self.number = number
        self.path = folder / f"{kind}-{number}.jsonl"
        known = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        self.past = [record for record in map(_json, known) if record is not None]
        self.log = Log(self.path)
        self.random = random.Random(f"{kind} {number} {len(self.past)}")
        self.stop = asyncio.Event()
        self.database = Database(url, remember=True)
        self.sessions = DatabaseSessionService(self.database)
        self.memory = PgVectorMemoryService(self.database, embedder=Flaky(self.random))

    async def insist(self, call: Callable[..., Awaitable[T]], *arguments: Any, **named: Any) -> T:
        """Calls until it is answered; what is raised meanwhile reached a caller."""
        while True:
            try:
                return await call(*arguments, **named)
            except RetryableError as exc:
                self.log("error", type=type(exc).__name__, message=str(exc)[:300])
            await asyncio.sleep(self.random.uniform(0.05, 0.5))

    async def pause(self, seconds: float) -> None:
        """Waits for so long, or for the end."""
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self.stop.wait()
        except TimeoutError:
            return

    async def beats(self, seconds: float) -> AsyncIterator[None]:
        """Yields at a steady pace until the end, so that what is stored depends on no speed."""
        at = time.monotonic() + self.random.uniform(0, seconds)
        while not self.stop.is_set():
            await self.pause(at - time.monotonic())
            yield
            at = max(at + seconds, time.monotonic())

    async def read(self, session_id: str, user_id: str) -> Session | None:
        """Reads a session and logs what it held."""
        began = time.monotonic()
        session = await self.insist(
            self.sessions.get_session, app_name=APP, user_id=user_id, session_id=session_id
        )
        if session is not None:
            self.log("read", session=session_id, values=values_of(session), began=began)
        return session

    async def run(self) -> None:
        """Does what its kind does until the end."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop.set)
        loop.add_signal_handler(signal.SIGINT, lambda: None)  # for the parent to handle
        print("ready", flush=True)
        async with self.database:
            await self.work()
        self.log.close()

    async def work(self) -> None:
        raise NotImplementedError


class Writer(Client):
    """Appends through live Session objects, each to sessions of its own, and to shared ones."""

    async def work(self) -> None:
        self.merging = DatabaseSessionService(self.database, on_conflict="merge")
        self.count = sum(record["kind"] == "invoke" for record in self.past)
        await asyncio.gather(
            *(self.write(slot) for slot in range(SLOTS)),
            *(self.share(slot) for slot in range(SHARED)),
        )

    async def write(self, slot: int) -> None:
        user_id = f"writer{self.number}-{slot}"
        generation, session = await self.taken_up(user_id)
        async for _ in self.beats(PACE_S):
            if session is None:
                generation += 1
                session = await self.created(user_id, f"{user_id}-{generation}")
            session = await self.append(self.sessions, session)
            if self.random.random() < 0.1:
                await self.read(session.id, user_id)
            if len(session.events) >= LENGTH:
                await self.compare(session)
                await self.delete(session)
                session = None
        if session is not None:
            await self.compare(session)

    async def taken_up(self, user_id: str) -> tuple[int, Session | None]:
        """The session that a killed writer had, and its number."""
        numbers = [
            int(record["session"].rpartition("-")[2])
            for record in self.past
            if record["kind"] == "invoke" and record["session"].startswith(f"{user_id}-")
        ]
        if not numbers:
            return 0, None
        last = f"{user_id}-{max(numbers)}"
        final = any(record["kind"] == "final" and record["session"] == last for record in self.past)
        session = await self.read(last, user_id)
        if final and session is not None:
            await self.delete(session)
            session = None
        return max(numbers), session

    async def created(self, user_id: str, session_id: str) -> Session:
        try:
            return await self.insist(
                self.sessions.create_session, app_name=APP, user_id=user_id, session_id=session_id
            )
        except SessionExists:  # an answer was lost
            session = await self.read(session_id, user_id)
            assert session is not None
            return session

    async def append(self, service: DatabaseSessionService, session: Session) -> Session:
        """Appends one event, the same one until it is acknowledged; returns the live object."""
        self.count += 1
        value = f"{self.number}.{self.count}"
        words = " ".join(self.random.sample(WORDS, 3))
        content = types.Content(
            role="user", parts=[types.Part(text=f"{value} of {session.user_id}: {words}")]
        )
        delta = {"last": value, "user:last": value} if self.random.random() < 0.5 else {}
        event = Event(
            author="user",
            content=content,
            actions=EventActions(state_delta=delta),
            custom_metadata={"value": value},
        )
        self.log("invoke", session=session.id, value=value)
        while True:
            try:
                await self.insist(service.append_event, session, event)
            except StaleSession:
                # What the killed process had sent may have arrived after this one had loaded.
                self.log("stale", session=session.id)
                loaded = await self.read(session.id, session.user_id)
                assert loaded is not None
                session = loaded
                continue
            self.log("ok", session=session.id, value=value)
            return session

    async def compare(self, session: Session) -> None:
        """Logs what the live object holds and what is stored; nobody appends any more."""
        self.log("live", session=session.id, values=values_of(session))
        stored = await self.read(session.id, session.user_id)
        assert stored is not None
        self.log("final", session=session.id, values=values_of(stored))

    async def delete(self, session: Session) -> None:
        forgets = self.random.random() < 0.5
        await self.insist(
            self.sessions.delete_session,
            app_name=APP,
            user_id=session.user_id,
            session_id=session.id,
            forget=forgets,
        )

    async def share(self, slot: int) -> None:
        session: Session | None = None
        async for _ in self.beats(8 * PACE_S):
            session_id = f"shared{slot}-{int(time.monotonic() / GENERATION_S)}"
            if session is None or session.id != session_id:
                session = await self.created("shared", session_id)
            await self.append(self.merging, session)
            session = await self.read(session_id, "shared")


class Reader(Client):
    """Reads and searches what others write; ingests what another service stores."""

    async def work(self) -> None:
        await asyncio.gather(self.reading(), self.searching(), self.ingesting())

    def user(self) -> str:
        return f"writer{self.random.randrange(WRITERS)}-{self.random.randrange(SLOTS)}"

    async def reading(self) -> None:
        async for _ in self.beats(PACE_S):
            user_id = self.user()
            listed = await self.insist(self.sessions.list_sessions, app_name=APP, user_id=user_id)
            for session in listed.sessions:
                await self.read(session.id, user_id)

    async def searching(self) -> None:
        async for _ in self.beats(PACE_S):
            user_id, began = self.user(), time.monotonic()
            word = self.random.choice(WORDS)
            hits = await self.insist(self.memory.search, app_name=APP, user_id=user_id, query=word)
            self.log("search", began=began, hits=len(hits))
            for hit in hits:
                text = (hit.memory.content.parts or [types.Part()])[0].text or ""
                if f"of {user_id}:" not in text:
                    self.log("violation", what=f"{user_id} was shown {text!r}")

    async def ingesting(self) -> None:
        """Sessions that are stored elsewhere: one turn is deleted, and must not come back.

        Their users are forgotten now and then.
        """
        number = 0
        async for _ in self.beats(8 * PACE_S):
            number += 1
            guest = f"guest{number % GUESTS}"
            session = Session(
                id=f"elsewhere{number}",
                app_name=APP,
                user_id=guest,
                events=[self.said(f"{number}.{turn} of {guest}: oolong") for turn in range(8)],
            )
            scope: dict[str, Any] = {"app_name": APP, "user_id": guest}
            await self.insist(self.memory.add_session_to_memory, session)
            page = await self.insist(self.memory.list_memories, **scope, limit=1)
            if page.items:
                gone = page.items[0]
                await self.insist(self.memory.delete_memory, **scope, memory_id=gone.id)
                await self.insist(self.memory.add_session_to_memory, session)
                after = await self.insist(self.memory.list_memories, **scope)
                if gone.content in [each.content for each in after.items]:
                    self.log("violation", what=f"a deleted memory of {guest} came back")
            self.log("ingest")
            if number % (5 * GUESTS) < GUESTS:
                await self.insist(forget, self.database, **scope)

    def said(self, text: str) -> Event:
        content = types.Content(role="user", parts=[types.Part(text=text)])
        return Event(author="user", content=content)


class Worker(Client):
    """Embeds what waits, and tidies."""

    async def work(self) -> None:
        await self.memory.run_worker(self.stop, poll_interval_s=0.2)


class Upkeep(Client):
    """Prunes, tidies, and ends shared sessions that nobody appends to any more."""

    async def work(self) -> None:
        async for _ in self.beats(TIDIED_EVERY_S):
            age = timedelta(seconds=PRUNED_AFTER_S)
            await self.insist(prune, self.database, app_name=APP, older_than=age)
            await self.insist(tidy, self.database)
            await self.end_shared()

    async def end_shared(self) -> None:
        newest = int(time.monotonic() / GENERATION_S)
        listed = await self.insist(self.sessions.list_sessions, app_name=APP, user_id="shared")
        for session in listed.sessions:
            if int(session.id.rpartition("-")[2]) <= newest - 3:
                stored = await self.read(session.id, "shared")
                if stored is not None:
                    self.log("final", session=session.id, values=values_of(stored))
                await self.insist(
                    self.sessions.delete_session,
                    app_name=APP,
                    user_id="shared",
                    session_id=session.id,
                )


KINDS: dict[str, type[Client]] = {
    "writer": Writer,
    "reader": Reader,
    "worker": Worker,
    "upkeep": Upkeep,
}


def values_of(session: Session) -> list[str]:
    """Returns what was appended to a session, in its order."""
    return [str((event.custom_metadata or {})["value"]) for event in session.events]


def _json(line: str) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(line)
    except ValueError:  # cut by a kill
        return None
    return record


if __name__ == "__main__":
    kind_, number_, url_, folder_ = sys.argv[1:]
    asyncio.run(KINDS[kind_](kind_, int(number_), url_, Path(folder_)).run())
