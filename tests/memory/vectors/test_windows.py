"""A document of a hundred pages, and memories as long, for embedders that read more or less."""

from typing import Any

import asyncpg
import pytest
from google.adk.tools.load_memory_tool import load_memory as adks_load_memory
from google.adk.tools.preload_memory_tool import preload_memory_tool as adks_preload_memory

from adkpg import Database, Hit, PgVectorMemoryService
from adkpg.documents import Documents
from adkpg.memory.vectors.passages import PASSAGE_TOKENS, passages, tokens
from adkpg.tooling.testing.scripted_llm import call, text
from adkpg.tools import load_memory, preload_memory
from tests.fakes.conversation import USER, entry, text_of
from tests.fakes.stage import Stage
from tests.fakes.tool_stage import stage_on, told
from tests.fakes.toys import ToyEmbedder

PAGES = 100
_FILLER = "People walk about, look at what there is, and talk of the weather and of the sea. "


def page(number: int) -> str:
    """Three thousand characters, with one thing on it that no other page has."""
    return f"{_FILLER * 18}\nStall {number} sells ware{number} alone.\n{_FILLER * 17}".strip()


def book(pages: int = PAGES) -> str:
    return "\n\n".join(map(page, range(pages)))


def windowed(window: int) -> ToyEmbedder:
    """Knows what each page tells, under another word, and says how much it reads at once."""
    embedder = ToyEmbedder(
        dimensions=PAGES + 2, meanings=[f"ware{n} goods{n}" for n in range(PAGES)]
    )
    embedder.window = window  # type: ignore[attr-defined] # any embedder may have one
    return embedder


def told_by(hit: Hit) -> str:
    """What tells the answer: the passage that matched, or a memory that is no longer than one."""
    whole = text_of(hit.memory)
    if hit.reason.passage is None:
        assert hit.reason.span is None
        return whole
    assert hit.reason.span is not None
    assert whole[slice(*hit.reason.span)] == hit.reason.passage
    assert tokens(hit.reason.passage) <= PASSAGE_TOKENS
    return hit.reason.passage


@pytest.mark.parametrize(
    ("window", "piece"), [(200, 200), (200, 1_500), (512, 1_500), (8_192, 1_500)]
)
async def test_each_page_of_a_book_is_found_and_told_apart(
    database: Database, connection: asyncpg.Connection, window: int, piece: int
) -> None:
    memory = PgVectorMemoryService(database, embedder=windowed(window))
    documents = Documents(memory, chunk_tokens=piece)
    report = await documents.add(app_name="app", source="book.txt", text=book())
    rows = await connection.fetch(
        "SELECT author, body, count(*) AS vectors, count(span) AS spans FROM memories"
        " JOIN memory_vectors USING (app_name, user_id, position)"
        " GROUP BY app_name, user_id, position"
    )
    assert len(rows) == report.added
    for row in rows:
        parts = passages(row["author"], row["body"], window)
        assert (row["vectors"], row["spans"]) == (len(parts) or 1, len(parts))
    apart = piece == PASSAGE_TOKENS or window < piece
    for number in range(PAGES):
        (meant,) = await memory.search(**USER, query=f"goods{number}", mode="vector", top_k=1)
        assert f"Stall {number} sells" in text_of(meant.memory)
        question = f"What does stall {number} sell?"
        (worded,) = await memory.search(**USER, query=question, mode="text", top_k=1)
        (both,) = await memory.search(**USER, query=f"{question} goods{number}", top_k=1)
        for hit in (worded, both, *([meant] if apart else [])):
            assert f"Stall {number} sells ware{number} alone." in told_by(hit)


@pytest.mark.parametrize("window", [200, 512, 8_192, 50_000])
async def test_each_part_of_one_long_memory_is_found(
    database: Database, connection: asyncpg.Connection, window: int
) -> None:
    """Of a window that holds all of it there is one vector, and words tell the passage."""
    memory = PgVectorMemoryService(database, embedder=windowed(window))
    await memory.add_memory(**USER, memories=[entry(book(30), "book"), entry("Nothing.")])
    vectors = await connection.fetchval("SELECT count(*) FROM memory_vectors")
    assert vectors == 1 + (len(passages(None, book(30), window)) or 1)
    for number in range(30):
        question = f"goods{number}: what does stall {number} sell?"
        hit, *_ = await memory.search(**USER, query=question)
        assert hit.memory.id == "book"
        assert f"Stall {number} sells ware{number} alone." in told_by(hit)


TOOLS = {
    "ADK's load_memory": (adks_load_memory, {"query": "goods17"}),
    "load_memory": (load_memory, {"query": "goods17"}),
    "ADK's preload_memory": (adks_preload_memory, None),
    "preload_memory": (preload_memory, None),
}


def request_of(stage: Stage) -> str:
    """All that the model was sent last."""
    sent: dict[str, Any] = stage.parts["root"].requests[-1]
    return repr(sent)


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("options", [{"passages": True}, {"max_tokens": 1_000}, {}])
async def test_agents_are_sent_the_passage(
    database: Database, name: str, options: dict[str, Any]
) -> None:
    memory = PgVectorMemoryService(database, embedder=windowed(512), **options)
    await told(memory, book(30))
    tool, asked = TOOLS[name]
    stage = stage_on(memory, tool)
    stage.script("root", *([call("load_memory", **asked)] if asked else []), text("ware17."))
    await stage.say("Who has goods17?")
    sent = request_of(stage)
    assert "Stall 17 sells ware17 alone." in sent
    whole = name.startswith("ADK") and not options
    assert ("Stall 16 sells" in sent) == whole
    assert (len(sent) > 80_000) == whole
