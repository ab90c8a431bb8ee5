"""What was deleted, has expired or was replaced leaves no trace in any search, nor any passage."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import asyncpg
import pytest
from google.adk.events.event import Event
from hypothesis import given, settings
from hypothesis import strategies as st

from adkpg import DatabaseSessionService, PgVectorMemoryService
from adkpg.erasure import erase_expired, forget
from adkpg.memory.search.options import Mode
from adkpg.memory.vectors.passages import passages
from tests.fakes.conversation import entry, said, session_of, text_of
from tests.fakes.life import add_drawn, scope_of
from tests.fakes.toys import ToyEmbedder

WINDOW = 16
MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")
FATES = (
    "stays",
    "deleted",
    "expired",
    "erased once expired",
    "left out of the session",
    "replaced by its session",
    "replaced by its id",
    "updated",
)

fates = st.lists(st.sampled_from(FATES), min_size=1, max_size=7)


@dataclass
class Talk:
    """A conversation of long turns with a word of their own each, and what became of them.

    Attributes:
      memory: Where it is remembered.
      connection: To look behind it.
      user_id: Whose it is.
      fates: What becomes of each turn.
      alive: The words that may be found.
      gone: The words that may not.
    """

    memory: PgVectorMemoryService
    connection: asyncpg.Connection
    user_id: str
    fates: list[str]
    alive: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    @property
    def scope(self) -> dict[str, Any]:
        return scope_of(self.user_id)

    def word(self, number: int) -> str:
        return f"zword{'abcdefgh'[number]}x"

    def text(self, number: int, word: str | None = None) -> str:
        """Of several passages, the telling one neither first nor last."""
        own = word or self.word(number)
        around = [" ".join(f"{own}{side}{n}" for n in range(20)) for side in ("before", "after")]
        return f"{around[0]}. {own} shared kitten. {around[1]}."

    def turn(self, number: int, word: str | None = None) -> Event:
        return said(self.text(number, word), f"e{number}", timestamp=1_700_000_000.0 + number)

    async def begin(self) -> None:
        """Remembers the turns, and a fact drawn from each."""
        events = [self.turn(number) for number in range(len(self.fates))]
        await self.memory.add_session_to_memory(session_of(*events, user_id=self.user_id))
        for number in range(len(self.fates)):
            await add_drawn(
                self.memory,
                self.connection,
                self.scope,
                f"{self.word(number)} fact",
                await self.memory_id(number),
            )

    async def memory_id(self, number: int) -> str:
        found: str = await self.connection.fetchval(
            "SELECT memory_id FROM memories WHERE user_id = $1 AND event_id = $2",
            self.user_id,
            f"e{number}",
        )
        return found

    async def go_on(self) -> None:
        """Lets every turn have its fate; facts drawn from what is gone must be gone too."""
        events = []
        for number, fate in enumerate(self.fates):
            word, renewed = self.word(number), f"new{self.word(number)}"
            if fate == "replaced by its session":
                events.append(self.turn(number, renewed))
            elif fate != "left out of the session":
                events.append(self.turn(number))
            (self.alive if fate == "stays" else self.gone).append(word)
            if fate in ("replaced by its session", "replaced by its id", "updated"):
                self.alive.append(renewed)
        await self.memory.add_session_to_memory(session_of(*events, user_id=self.user_id))
        for number, fate in enumerate(self.fates):
            memory_id = await self.memory_id(number)
            renewed = self.text(number, f"new{self.word(number)}")
            if fate == "deleted":
                await self.memory.delete_memory(**self.scope, memory_id=memory_id)
            elif fate == "replaced by its id":
                await self.memory.add_memory(**self.scope, memories=[entry(renewed, memory_id)])
            elif fate == "updated":
                await self.memory.update_memory(**self.scope, memory_id=memory_id, text=renewed)
            elif fate == "erased once expired":
                await self.expire(number)
        await erase_expired(self.memory.database)
        for number, fate in enumerate(self.fates):
            if fate == "expired":
                await self.expire(number)

    async def expire(self, number: int) -> None:
        """Lets a turn reach its end, and the fact that says the same."""
        await self.connection.execute(
            "UPDATE memories SET expires_at = now() WHERE user_id = $1"
            " AND (event_id = $2 OR body = $3)",
            self.user_id,
            f"e{number}",
            f"{self.word(number)} fact",
        )

    async def search(self, query: str, mode: Mode) -> list[Any]:
        return await self.memory.search(
            **self.scope, query=query, mode=mode, top_k=100, neighbours=3
        )

    async def check(self) -> None:
        """Asks for each word in each mode, and for all words together."""
        for mode in MODES:
            for word in self.gone:
                assert await self.search(word, mode) == []
            everything = " ".join((*self.gone, *self.alive, "shared kitten fact"))
            for hit in await self.search(everything, mode):
                assert not {word.lower() for word in self.gone} & set(hit.reason.lexemes)
                for shown in (hit.memory, *hit.neighbours):
                    assert not set(self.gone) & set(text_of(shown).split())
                assert not set(self.gone) & set((hit.reason.passage or "").split())
        for word in self.alive:
            texts = [text_of(hit.memory) for hit in await self.search(word, "text")]
            assert any(word in text.split() for text in texts)
        stored = await self.connection.fetchval(
            "SELECT count(*) FROM memories WHERE user_id = $1 AND kind = 'fact'"
            " AND expires_at IS NULL",
            self.user_id,
        )
        assert stored == self.fates.count("stays")
        await self.check_passages()

    async def check_passages(self) -> None:
        """What has a vector is what is stored, in the passages of its present words."""
        rows = await self.connection.fetch(
            "SELECT author, body, position, array_agg(lower(span) ORDER BY passage) AS starts"
            " FROM memory_vectors LEFT JOIN memories USING (app_name, user_id, position)"
            " WHERE user_id = $1 GROUP BY author, body, position",
            self.user_id,
        )
        memories = "SELECT count(*) FROM memories WHERE user_id = $1"
        assert len(rows) == await self.connection.fetchval(memories, self.user_id)
        for row in rows:
            parts = passages(row["author"], row["body"], WINDOW)
            starts: list[int | None] = [part.start for part in parts]
            assert row["starts"] == (starts or [None])


class Narrow(ToyEmbedder):
    """Reads one sentence."""

    window = WINDOW


@dataclass
class Stage:
    """One loop, connection and service for all examples; each has a user of its own."""

    runner: asyncio.Runner
    memory: PgVectorMemoryService
    connection: asyncpg.Connection
    users: Iterator[int] = field(default_factory=count)

    def talk(self, fates: list[str]) -> Talk:
        return Talk(self.memory, self.connection, f"user{next(self.users)}", fates)


@pytest.fixture
def stage(database_url: str) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(database_url))
        runner.run(connection.execute("SET search_path = adkpg, public"))
        memory = PgVectorMemoryService(database_url, embedder=Narrow())
        yield Stage(runner, memory, connection)
        runner.run(memory.close())
        runner.run(connection.close())


def test_no_search_reveals_a_word_of_what_is_gone(stage: Stage) -> None:
    @given(fates)
    def run(chosen: list[str]) -> None:
        async def live() -> None:
            talk = stage.talk(chosen)
            await talk.begin()
            await talk.go_on()
            await talk.check()

        stage.runner.run(live())

    run()


@pytest.mark.parametrize("way", ["the session", "the person"])
def test_nothing_is_left_of_a_forgotten_conversation(stage: Stage, way: str) -> None:
    @given(fates)
    @settings(max_examples=8)
    def run(chosen: list[str]) -> None:
        async def live() -> None:
            talk, other = stage.talk(chosen), stage.talk(chosen)
            for each in (talk, other):
                await each.begin()
                await each.go_on()
            if way == "the person":
                await forget(stage.memory.database, **talk.scope)
            else:
                sessions = DatabaseSessionService(stage.memory.database)
                await sessions.delete_session(**talk.scope, session_id="s", forget=True)
            for mode in MODES:
                for word in (*talk.alive, *talk.gone, "shared kitten fact"):
                    assert await talk.search(word, mode) == []
            await other.check()

        stage.runner.run(live())

    run()
