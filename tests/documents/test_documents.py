"""Documents behind a real Postgres: added, replaced piece by piece, removed, listed."""

import asyncio
from typing import Any

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.documents.service import Documents, Report, Source
from adkpg.errors import ConfigurationError, InvalidInput, ModelUnavailable
from adkpg.keys import APP_WIDE
from adkpg.memory.filters import SearchFilters
from tests.fakes.conversation import USER, text_of
from tests.fakes.toys import BrokenEmbedder, ToyEmbedder

APP: dict[str, Any] = {"app_name": "app"}
SECTIONS = ["# Cats\n\nA kitten sleeps.", "# Cars\n\nThe vehicle stands.", "# Tea\n\nBrew oolong."]
TEXT = "\n\n".join(SECTIONS)
SPRING = "2026-03-01T10:00:00+00:00"


async def rows(connection: asyncpg.Connection) -> list[dict[str, Any]]:
    """The pieces as they are stored, in the document's order."""
    return [
        dict(row)
        for row in await connection.fetch(
            "SELECT memory_id, position, m.timestamp, body, m.xmin::text, v.xmin::text AS vector"
            " FROM memories m LEFT JOIN memory_vectors v USING (app_name, user_id, position)"
            " WHERE kind = 'document' ORDER BY position"
        )
    ]


def of(stored: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in stored]


async def test_a_document_is_stored_in_pieces_that_are_neighbours(
    documents: Documents, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    report = await documents.add(
        **APP,
        source="guide/home.md",
        text=TEXT,
        topics=["home"],
        importance=0.8,
        metadata={"lang": "en"},
        modified=SPRING,
    )
    assert report == Report("guide/home.md", added=3, unchanged=0, removed=0)
    stored = await rows(connection)
    first = stored[0]["position"]
    assert first < 0
    assert of(stored, "position") == [first, first + 1, first + 2]
    (hit,) = await memory.search(**USER, query="puppy kitten", neighbours=1, top_k=1)
    found = hit.memory
    assert text_of(found) == "Cats\n\nA kitten sleeps."
    assert (found.kind, found.source, found.author) == ("document", "guide/home.md", None)
    assert (found.topics, found.importance, found.timestamp) == (["home"], 0.8, SPRING)
    assert found.custom_metadata == {"lang": "en", "source": "guide/home.md"}
    assert [text_of(each) for each in hit.neighbours] == ["Cars\n\nThe vehicle stands."]


async def test_words_of_the_next_piece_count_for_a_piece(
    documents: Documents, memory: PgVectorMemoryService
) -> None:
    await documents.add(**APP, source="a.md", text=TEXT)
    await documents.add(**APP, source="b.md", text="# Sleep\n\nNothing else.")
    hits = await memory.search(**USER, query="sleeps vehicle", mode="text")
    assert text_of(hits[0].memory) == "Cars\n\nThe vehicle stands."
    assert set(hits[0].reason.lexemes) == {"sleep", "vehicl"}


async def test_adding_it_again_changes_nothing(
    documents: Documents, connection: asyncpg.Connection, embedder: ToyEmbedder
) -> None:
    await documents.add(**APP, source="a.md", text=TEXT)
    stored = await rows(connection)
    for _ in range(20):
        report = await documents.add(**APP, source="a.md", text=TEXT)
        assert report == Report("a.md", added=0, unchanged=3, removed=0)
    assert await rows(connection) == stored
    assert len(embedder.documents) == 1


async def test_a_changed_piece_is_embedded_and_the_others_stay(
    documents: Documents, connection: asyncpg.Connection, embedder: ToyEmbedder
) -> None:
    await documents.add(**APP, source="a.md", text=TEXT, modified=SPRING)
    before = await rows(connection)
    report = await documents.add(**APP, source="a.md", text=TEXT.replace("vehicle", "hound"))
    assert report == Report("a.md", added=1, unchanged=2, removed=1)
    after = await rows(connection)
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1]["position"] == before[1]["position"]
    assert after[1]["timestamp"] > before[1]["timestamp"]
    assert embedder.documents[1:] == [["Cars\n\nThe hound stands."]]


@pytest.mark.parametrize(
    ("order", "added", "removed"),
    [
        ([1, 2], 0, 1),
        ([0, 1], 0, 1),
        ([0, 2], 0, 1),
        ([2, 0, 1], 0, 0),
        ([0, 1, 1, 2], 1, 0),
        ([], 0, 3),
    ],
)
async def test_pieces_move_with_their_vectors(
    documents: Documents,
    connection: asyncpg.Connection,
    embedder: ToyEmbedder,
    order: list[int],
    added: int,
    removed: int,
) -> None:
    await documents.add(**APP, source="a.md", text=TEXT)
    before = await rows(connection)
    text = "\n\n".join(SECTIONS[number] for number in order)
    report = await documents.add(**APP, source="a.md", text=text)
    assert (report.added, report.removed) == (added, removed)
    after = await rows(connection)
    assert of(after, "body") == [before[number]["body"] for number in order]
    ids = of(before, "memory_id")
    assert [ids.index(each) for each in of(after, "memory_id") if each in ids] == list(
        dict.fromkeys(order)
    )
    positions = of(after, "position")
    assert positions == list(range(positions[0], positions[0] + len(order))) if order else True
    assert None not in of(after, "vector")
    assert sum(map(len, embedder.documents)) == 3 + added
    words = "SELECT count(DISTINCT position) FROM memory_lexemes WHERE position = ANY($1)"
    assert await connection.fetchval(words, positions) == len(order)
    assert await connection.fetchval("SELECT count(*) FROM memory_lexemes") == (
        await connection.fetchval(
            "SELECT count(*) FROM memory_lexemes WHERE position = ANY($1)", positions
        )
    )


async def test_what_is_said_of_a_document_changes_without_new_vectors(
    documents: Documents,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    embedder: ToyEmbedder,
) -> None:
    await documents.add(**APP, source="a.md", text=TEXT, metadata={"v": 1})
    before = await rows(connection)
    report = await documents.add(
        **APP, source="a.md", text=TEXT, topics=["x"], importance=0.1, metadata={"v": 2}
    )
    assert report.unchanged == 3
    after = await rows(connection)
    assert of(after, "vector") == of(before, "vector")
    assert len(embedder.documents) == 1
    (page,) = [await memory.list_memories(**APP, user_id=None)]
    assert {(each.importance, *each.topics, each.custom_metadata["v"]) for each in page.items} == {
        (0.1, "x", 2)
    }


async def test_a_document_that_expired_is_found_again_once_it_is_added(
    documents: Documents, memory: PgVectorMemoryService
) -> None:
    past = {"expires_at": "2020-01-01T00:00:00Z"}
    await documents.add(**APP, source="a.md", text=TEXT, metadata=past)
    assert await memory.search(**USER, query="oolong") == []
    assert (await documents.list_sources(**APP)).items == []
    assert (await documents.add(**APP, source="a.md", text=TEXT)).unchanged == 3
    assert len(await memory.search(**USER, query="oolong", mode="vector")) == 1


async def test_a_piece_changed_by_hand_is_replaced_by_the_file(
    documents: Documents, memory: PgVectorMemoryService
) -> None:
    await documents.add(**APP, source="a.md", text=TEXT)
    (hit,) = await memory.search(**USER, query="oolong", mode="vector")
    memory_id = str(hit.memory.id)
    await memory.update_memory(**APP, user_id=None, memory_id=memory_id, text="By hand.")
    report = await documents.add(**APP, source="a.md", text=TEXT)
    assert report == Report("a.md", added=1, unchanged=2, removed=1)
    assert await memory.get_memory(**APP, user_id=None, memory_id=memory_id) is None


async def test_removing_and_listing(
    documents: Documents, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    for source in ("b.md", "a.md", "ä.md"):
        await documents.add(**APP, source=source, text=TEXT, modified=SPRING)
    await documents.add(**USER, source="own.md", text="Mine.", modified=0)
    listed = [Source(source, 3, SPRING) for source in ("a.md", "b.md", "ä.md")]
    assert (await documents.list_sources(**APP)).items == listed
    cursor, pages = None, []
    for _ in listed:
        page = await documents.list_sources(**APP, limit=1, cursor=cursor)
        cursor = page.next_cursor
        pages += page.items
    assert (pages, cursor) == (listed, None)
    own = (await documents.list_sources(**USER)).items
    assert [each.time for each in own] == ["1970-01-01T00:00:00+00:00"]
    assert await documents.delete(**APP, source="a.md") == 3
    assert await documents.delete(**APP, source="a.md") == 0
    assert await documents.delete(**APP, source="own.md") == 0
    assert (await documents.list_sources(**APP)).items == listed[1:]
    assert await memory.count_memories(**APP, user_id=None) == 6
    left = "SELECT count(DISTINCT position) FROM memory_{}"
    for table in ("lexemes", "vectors"):
        assert await connection.fetchval(left.format(table)) == 7


async def test_many_writers_of_one_source_leave_one_of_their_versions(
    database: Database, connection: asyncpg.Connection
) -> None:
    versions = ["\n\n".join(f"# {n}\n\nText {n} of {v}." for n in range(v, 20)) for v in range(8)]
    services = [
        Documents(PgVectorMemoryService(database, embedder=ToyEmbedder())) for _ in range(4)
    ]
    await asyncio.gather(
        *(
            services[number % 4].add(**APP, source="a.md", text=versions[number])
            for number in range(8)
        )
    )
    stored = await rows(connection)
    version = int(stored[0]["body"].split()[-1].rstrip("."))
    assert of(stored, "body") == [f"{n}\n\nText {n} of {version}." for n in range(version, 20)]
    positions = of(stored, "position")
    assert positions == list(range(positions[0], positions[0] + 20 - version))
    assert None not in of(stored, "vector")


async def test_a_failing_embedder_loses_nothing(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async def down(texts: list[str]) -> list[list[float]]:
        raise ModelUnavailable("It is down.")

    embedder = BrokenEmbedder(failure=down)
    memory = PgVectorMemoryService(database, embedder=embedder)
    assert (await Documents(memory).add(**APP, source="a.md", text=TEXT)).added == 3
    assert "It is down." in caplog.text
    assert len(await memory.search(**USER, query="oolong", mode="text")) >= 1
    embedder.failure = None
    assert await memory.embed_pending(app_name="app") == 3


async def test_without_an_embedder_documents_are_found_by_their_words(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await Documents(memory).add(**APP, source="a.txt", text="One # paragraph\n\nand oolong.")
    (hit,) = await memory.search(**USER, query="oolong")
    assert text_of(hit.memory) == "One # paragraph\n\nand oolong."


async def test_hundreds_of_pieces_move(
    documents: Documents, connection: asyncpg.Connection
) -> None:
    sections = [f"# Part {number}\n\nText." for number in range(1_100)]
    await documents.add(**APP, source="a.md", text="\n\n".join(sections))
    del sections[500]
    report = await documents.add(**APP, source="a.md", text="\n\n".join(sections))
    assert report == Report("a.md", added=0, unchanged=1_099, removed=1)
    positions = of(await rows(connection), "position")
    assert positions == list(range(positions[0], positions[0] + 1_099))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"source": " "}, "without a name"),
        ({"source": "a\x00"}, "NUL"),
        ({"user_id": APP_WIDE}, "reserved"),
        ({"importance": 2}, "importance"),
        ({"topics": "tea"}, "topics"),
        ({"modified": "soon"}, "modified"),
        ({"metadata": {"ttl": -1}}, "ttl"),
    ],
)
async def test_what_cannot_be_stored_writes_nothing(
    documents: Documents, connection: asyncpg.Connection, wrong: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        await documents.add(**(APP | {"source": "a.md", "text": TEXT} | wrong))
    assert await connection.fetchval("SELECT count(*) FROM memories") == 0


async def test_a_limit_below_one_is_refused(documents: Documents) -> None:
    with pytest.raises(InvalidInput, match="limit=0"):
        await documents.list_sources(**APP, limit=0)


async def test_names_that_nothing_is_stored_under_are_nothing(documents: Documents) -> None:
    assert (await documents.list_sources(**APP, user_id=APP_WIDE)).items == []
    assert await documents.delete(**APP, source="\x00") == 0
    assert await documents.delete(**APP, source="") == 0


async def test_odd_characters_are_stored(
    documents: Documents, memory: PgVectorMemoryService
) -> None:
    odd = APP | {"source": "a b/ü'.md", "text": "Oolong\x00 \ud800 tea"}
    assert (await documents.add(**odd)).added == 1
    assert (await documents.add(**odd)).unchanged == 1
    kinds = SearchFilters(kinds=("document",))
    assert len(await memory.search(**USER, query="oolong", filters=kinds)) == 1


async def test_the_size_of_pieces_can_be_chosen(memory: PgVectorMemoryService) -> None:
    text = "One two three four. " * 30
    assert (await Documents(memory).add(**APP, source="a.txt", text=text)).added == 1
    small = Documents(memory, chunk_tokens=20)
    assert (await small.add(**APP, source="a.txt", text=text)).added == 8
    with pytest.raises(ConfigurationError, match="chunk_tokens=19"):
        Documents(memory, chunk_tokens=19)
