"""What an app knows for all its users."""

from typing import Any

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.errors import InvalidInput
from adkpg.keys import APP_WIDE
from adkpg.memory.filters import SearchFilters
from adkpg.memory.search.options import Mode
from tests.fakes.conversation import USER, conversation, entry, found, remember_apart, text_of
from tests.fakes.toys import ToyEmbedder

APP: dict[str, Any] = {"app_name": "app", "user_id": None}


@pytest.fixture
async def known(memory: PgVectorMemoryService) -> PgVectorMemoryService:
    """A service whose app knows of a kitten, as does one of its users."""
    await memory.add_memory(
        **APP,
        memories=[entry("the kitten's manual", "manual", author="handbook")],
    )
    await remember_apart(memory, "my kitten sleeps")
    return memory


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
async def test_every_user_of_the_app_finds_it_and_nobody_else(
    known: PgVectorMemoryService, mode: Mode
) -> None:
    both = {"the kitten's manual", "my kitten sleeps"}
    assert set(await found(known, "kitten", mode=mode)) == both
    assert await found(known, "kitten", user_id="new", mode=mode) == ["the kitten's manual"]
    assert await found(known, "kitten", app_name="other", mode=mode) == []
    assert await found(known, "kitten", user_id=None, mode=mode) == ["the kitten's manual"]


async def test_a_search_may_leave_it_out(known: PgVectorMemoryService, database: Database) -> None:
    assert await found(known, "kitten", app_wide=False) == ["my kitten sleeps"]
    private = PgVectorMemoryService(database, embedder=ToyEmbedder(), app_wide=False)
    assert await found(private, "kitten") == ["my kitten sleeps"]
    assert len(await found(private, "kitten", app_wide=True)) == 2
    assert await found(private, "kitten", user_id=None) == ["the kitten's manual"]


async def test_searches_of_adk_find_it_too(known: PgVectorMemoryService) -> None:
    response = await known.search_memory(app_name="app", user_id="new", query="kitten")
    assert [text_of(each) for each in response.memories] == ["the kitten's manual"]


async def test_filters_hold_in_both_scopes(known: PgVectorMemoryService) -> None:
    filters = SearchFilters(authors=["handbook"])
    assert await found(known, "kitten", filters=filters) == ["the kitten's manual"]


async def test_it_is_read_listed_counted_changed_and_deleted_on_its_own(
    known: PgVectorMemoryService,
) -> None:
    own = {**APP, "memory_id": "manual"}
    assert await known.count_memories(app_name="app", user_id=None) == 1
    page = await known.list_memories(app_name="app", user_id=None)
    assert [memory.id for memory in page.items] == ["manual"]
    assert await known.get_memory(**USER, memory_id="manual") is None
    assert await known.get_memory(**own) == page.items[0]
    changed = await known.update_memory(**own, text="the hound's manual")
    assert changed is not None
    assert await found(known, "puppy") == ["the hound's manual"]
    await known.delete_memory(**USER, memory_id="manual")
    assert await known.count_memories(app_name="app", user_id=None) == 1
    await known.delete_memory(**own)
    assert await found(known, "puppy") == []
    assert await known.count_memories(**USER) == 1


async def test_no_user_may_have_its_id(memory: PgVectorMemoryService) -> None:
    mine: dict[str, Any] = {"app_name": "app", "user_id": APP_WIDE}
    with pytest.raises(InvalidInput, match="reserved"):
        await memory.add_memory(**mine, memories=[entry("x")])
    with pytest.raises(InvalidInput, match="reserved"):
        await memory.add_events_to_memory(**mine, events=[])
    session = conversation("x")
    session.user_id = APP_WIDE
    with pytest.raises(InvalidInput, match="reserved"):
        await memory.add_session_to_memory(session)
    await memory.add_memory(app_name="app", user_id=None, memories=[entry("kitten", "k")])
    assert await memory.search(**mine, query="kitten") == []
    assert (await memory.search_memory(**mine, query="kitten")).memories == []
    assert await memory.get_memory(**mine, memory_id="k") is None
    assert await memory.count_memories(**mine) == 0
    await memory.delete_memory(**mine, memory_id="k")
    assert await memory.count_memories(app_name="app", user_id=None) == 1


async def test_its_words_are_as_rare_as_in_both_scopes_together(
    memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """Places of the two scopes are told apart, so one search counts both and mixes neither up."""
    await memory.add_memory(
        app_name="app", user_id=None, memories=[entry(f"quince {n}") for n in range(30)]
    )
    await memory.add_session_to_memory(conversation("an oolong", "a quince and an oolong"))
    assert await connection.fetchval(
        "SELECT bool_and((position < 0) = (user_id = $1)) FROM memories", APP_WIDE
    )
    assert (await found(memory, "quince oolong", top_k=2))[0] == "a quince and an oolong"


async def test_what_the_app_knows_hides_nothing_of_a_person_with_few_memories(
    memory: PgVectorMemoryService,
) -> None:
    """Among a thousand documents that have as many of the question's words."""
    words = PgVectorMemoryService(memory.database, mode="text")
    await remember_apart(words, "my report is late", "the kitten sleeps")
    pages = [entry(f"report {number}") for number in range(1_000)]
    question = "report of xyzzy and plugh?"
    assert await found(words, question) == ["my report is late"]
    await words.add_memory(app_name="app", user_id=None, memories=pages)
    assert (await found(words, question))[0] == "my report is late"
