"""The app-wide scope: every user finds it, and it holds nothing of any user."""

from typing import Any

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Settings
from adkpg.documents.service import Documents
from adkpg.errors import InvalidInput
from adkpg.keys import APP_WIDE
from adkpg.memory.filters import SearchFilters
from tests.fakes.conversation import entry, found, said, session_of
from tests.fakes.toys import SeededEmbedder

APP: dict[str, Any] = {"app_name": "app", "user_id": None}
ANN: dict[str, Any] = {"app_name": "app", "user_id": "ann"}
BOB: dict[str, Any] = {"app_name": "app", "user_id": "bob"}


@pytest.fixture
async def filled(memory: PgVectorMemoryService, documents: Documents) -> PgVectorMemoryService:
    """A document and a note of the app, one memory each of two users, and another app's note."""
    await documents.add(app_name="app", source="tea.md", text="Brew oolong at ninety degrees.")
    await memory.add_memory(**APP, memories=[entry("Our shop sells oolong.")])
    await memory.add_memory(**ANN, memories=[entry("Ann hates oolong.")])
    await memory.add_memory(**BOB, memories=[entry("Bob drinks oolong.")])
    await memory.add_memory(
        app_name="rival", user_id=None, memories=[entry("The rival's oolong is cheap.")]
    )
    return memory


OF_THE_APP = {"Brew oolong at ninety degrees.", "Our shop sells oolong."}


@pytest.mark.parametrize("mode", ["hybrid", "text", "vector"])
async def test_every_user_finds_it_and_nobody_finds_another(
    filled: PgVectorMemoryService, mode: str
) -> None:
    newcomer: dict[str, Any] = {"app_name": "app", "user_id": "newcomer"}
    for scope, own in (
        (ANN, {"Ann hates oolong."}),
        (BOB, {"Bob drinks oolong."}),
        (newcomer, set()),
        (APP, set()),
    ):
        assert set(await found(filled, "oolong", **scope, mode=mode)) == OF_THE_APP | own


async def test_it_can_be_left_out(filled: PgVectorMemoryService) -> None:
    assert await found(filled, "oolong", **ANN, app_wide=False) == ["Ann hates oolong."]
    own = PgVectorMemoryService(filled.database, embedder=filled.embedder, app_wide=False)
    assert await found(own, "oolong", **ANN) == ["Ann hates oolong."]
    response = await filled.search_memory(app_name="app", user_id="ann", query="oolong")
    assert len(response.memories) == 3


async def test_filters_choose_within_it(filled: PgVectorMemoryService) -> None:
    documents = SearchFilters(kinds=("document",))
    assert await found(filled, "oolong", **ANN, filters=documents) == [
        "Brew oolong at ninety degrees."
    ]
    source = SearchFilters(metadata={"source": "tea.md"})
    assert await found(filled, "oolong", **ANN, filters=source) == []  # not of the stored metadata
    assert await filled.count_memories(**APP, filters=documents) == 1
    assert await filled.count_memories(**APP) == 2
    page = await filled.list_memories(**APP, limit=1)
    rest = await filled.list_memories(**APP, limit=9, cursor=page.next_cursor)
    listed = {each.kind for each in [*page.items, *rest.items]}
    assert (listed, rest.next_cursor) == ({"note", "document"}, None)
    assert await filled.count_memories(**ANN) == 1


async def test_its_memories_are_deleted_through_it_alone(filled: PgVectorMemoryService) -> None:
    filters = SearchFilters(kinds=("note",))
    (note,) = (await filled.list_memories(**APP, filters=filters)).items
    place: dict[str, Any] = {"memory_id": note.id}
    await filled.delete_memory(**ANN, **place)
    assert await filled.get_memory(**ANN, **place) is None
    assert await filled.update_memory(**ANN, **place, text="Mine now.") is None
    assert await filled.count_memories(**APP) == 2
    await filled.delete_memory(**APP, **place)
    assert await filled.count_memories(**APP) == 1


async def test_nobody_may_have_its_id(
    filled: PgVectorMemoryService, database: Database, connection: asyncpg.Connection
) -> None:
    intruder: dict[str, Any] = {"app_name": "app", "user_id": APP_WIDE}
    before = await connection.fetchval("SELECT count(*) FROM memories")
    session = session_of(said("I am everybody.", "e"), user_id=APP_WIDE)
    with pytest.raises(InvalidInput, match="reserved"):
        await filled.add_session_to_memory(session)
    with pytest.raises(InvalidInput, match="reserved"):
        await filled.add_events_to_memory(**intruder, events=session.events)
    with pytest.raises(InvalidInput, match="reserved"):
        await filled.add_memory(**intruder, memories=[entry("I am everybody.")])
    with pytest.raises(InvalidInput, match="reserved"):
        await Documents(filled).add(**intruder, source="a.md", text="I am everybody.")
    sessions = DatabaseSessionService(database)
    with pytest.raises(InvalidInput, match="reserved"):
        await sessions.create_session(**intruder)
    assert await sessions.get_session(**intruder, session_id="s") is None
    assert (await sessions.list_sessions(**intruder)).sessions == []
    assert await found(filled, "oolong", **intruder) == []
    response = await filled.search_memory(**intruder, query="oolong")
    assert response.memories == []
    await filled.delete_memory(**intruder, memory_id="m")
    assert await connection.fetchval("SELECT count(*) FROM memories") == before


async def test_places_are_negative_in_it_alone(
    filled: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    rows = await connection.fetch("SELECT user_id, position < 0 AS negative FROM memories")
    assert all(row["negative"] == (row["user_id"] == APP_WIDE) for row in rows)


async def test_a_large_one_is_searched_through_the_index_beside_exact_users(
    database_url: str, connection: asyncpg.Connection
) -> None:
    embedder = SeededEmbedder(dimensions=32, clusters=60)
    texts = [f"page {number}" for number in range(1_500)]
    mine = [f"turn {number}" for number in range(2_000, 2_100)]
    questions = [f"question {number}" for number in range(10_000, 10_010)]
    settings = Settings(exact_limit=1_000, embedding_batch_size=2_048)
    async with Database(database_url, settings=settings) as database:
        memory = PgVectorMemoryService(database, embedder=embedder, mode="vector")
        await Documents(memory).add(
            app_name="app", source="b.md", text="\n\n".join(f"# \n\n{text}" for text in texts)
        )
        await memory.add_memory(**ANN, memories=[entry(text) for text in mine])
        await memory.add_memory(**BOB, memories=[entry("turn 7")])
        assert await memory.index_large_scopes() == 1_500
        scopes = await connection.fetch("SELECT user_id, ready FROM approximate_scopes")
        assert [tuple(row) for row in scopes] == [(APP_WIDE, True)]
        await found(memory, questions[0], **ANN)  # learns that the index is there
        truth = embedder.nearest(questions, texts + mine, 10)
        right = 0
        for question, nearest in zip(questions, truth, strict=True):
            right += len(set(await found(memory, question, **ANN, top_k=10)) & nearest)
        assert right >= 95
        own = await found(memory, questions[1], **ANN, app_wide=False, top_k=10)
        assert set(own) == embedder.nearest([questions[1]], mine, 10)[0]
        assert (await found(memory, "turn 7", **BOB))[0] in ("turn 7", "page 7")
        assert "turn 7" not in await found(memory, "turn 7", **ANN)
