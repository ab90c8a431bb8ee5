"""What the tests remember of a person and read back."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncpg

from adkpg import PgVectorMemoryService
from adkpg.facts.extractor import Extraction, KnownFact, Turn
from adkpg.facts.service import Facts
from adkpg.memory.filters import SearchFilters
from adkpg.memory.records import Memory
from tests.fakes.conversation import USER, said, session_of, text_of

ANA: tuple[str, str] = ("app", "user")
_DAY_S = 86_400
_FIRST_DAY = 1_772_366_400  # 2026-03-01T12:00Z


async def remember(
    memory: PgVectorMemoryService, day: int, *texts: str, user_id: str = "user", session: str = ""
) -> None:
    """Remembers a session of one day, named after it, with events named after their place."""
    session_id = session or f"day{day}"
    turns = [
        said(text, f"{session_id}-{number}", timestamp=_FIRST_DAY + day * _DAY_S + number)
        for number, text in enumerate(texts)
    ]
    await memory.add_session_to_memory(session_of(*turns, session_id=session_id, user_id=user_id))


async def memories(memory: PgVectorMemoryService, kind: str, **options: Any) -> list[Memory]:
    page = await memory.list_memories(
        **{**USER, **options}, filters=SearchFilters(kinds=(kind,)), limit=100
    )
    return page.items


async def turn_id(memory: PgVectorMemoryService, text: str, **options: Any) -> str:
    """The memory id of the turn with a text."""
    turns = await memories(memory, "turn", **options)
    (found,) = (turn for turn in turns if text_of(turn) == text)
    return str(found.id)


async def known(facts: Facts, **options: Any) -> list[str]:
    """The texts of a profile."""
    profile = await facts.profile(**{**USER, **options})
    return [fact.text for fact in profile.facts]


async def waiting(connection: asyncpg.Connection, work: str = "extract") -> int:
    count: int = await connection.fetchval("SELECT count(*) FROM memory_jobs WHERE work = $1", work)
    return count


class Meanwhile:
    """An extractor during whose work something happens, and that says what it is told to say."""

    def __init__(
        self,
        happens: Callable[[], Awaitable[object]],
        says: Callable[[Sequence[Turn], Sequence[KnownFact]], Extraction],
    ) -> None:
        self._happens = happens
        self._says = says
        self.calls = 0

    async def extract(self, turns: Sequence[Turn], known: Sequence[KnownFact]) -> Extraction:
        self.calls += 1
        await self._happens()
        return self._says(turns, known)
