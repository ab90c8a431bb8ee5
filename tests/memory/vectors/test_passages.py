"""Long memories: a vector for each passage, of which the nearest counts."""

import asyncio
from math import hypot
from operator import mul

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.documents import Documents
from adkpg.embedding import CallableEmbedder, LocalEmbedder
from adkpg.erasure import forget
from adkpg.tooling.models import Models
from tests.fakes.conversation import USER, entry, found, said, session_of, text_of
from tests.fakes.toys import BrokenEmbedder, SeededEmbedder, ToyEmbedder

FILLER = "Nothing of note was said about the weather in the town by the sea on that day. "
NEEDLE = "The kitten sleeps in the basket."
LONG = (FILLER * 60 + NEEDLE + " " + FILLER * 60).strip()
COUNT = "SELECT count(*) FROM memory_vectors"


class Narrow(ToyEmbedder):
    """Reads 200 tokens, as the offline embedder does."""

    window = 200


class Wide(SeededEmbedder):
    """Long vectors of texts that end with a number."""

    window = 16


@pytest.mark.parametrize("dimensions", [8, 1_100])
async def test_what_is_said_late_in_a_long_text_is_found_by_its_meaning(
    database: Database, connection: asyncpg.Connection, dimensions: int
) -> None:
    embedder = Narrow(dimensions=dimensions)
    memory = PgVectorMemoryService(database, embedder=embedder)
    await memory.add_session_to_memory(session_of(said(LONG, "long"), said("A short turn.", "e")))
    rows = await connection.fetch(
        "SELECT position, passage, lower(span) AS start, upper(span) AS end"
        " FROM memory_vectors ORDER BY position, passage"
    )
    assert [row["passage"] for row in rows] == [*range(len(rows) - 1), 0]
    assert rows[-1]["start"] is rows[-1]["end"] is None
    for row in rows[:-1]:
        assert f"user: {LONG[row['start'] : row['end']]}" in embedder.documents[0]
    for mode in ("hybrid", "vector"):
        hit, *_ = await memory.search(**USER, query="feline", mode=mode)
        assert text_of(hit.memory) == LONG
        assert hit.reason.passage is not None
        assert hit.reason.span is not None
        assert NEEDLE in hit.reason.passage
        assert LONG[slice(*hit.reason.span)] == hit.reason.passage
        assert hit.reason.cosine is not None
        assert hit.reason.cosine > 0.5
        assert not hit.cut
    hits = await memory.search(**USER, query="short", mode="text")
    (short,) = [hit for hit in hits if text_of(hit.memory) == "A short turn."]
    assert (short.reason.passage, short.reason.span) == (None, None)


async def test_words_alone_tell_the_passage_too(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await memory.add_memory(**USER, memories=[entry(LONG)])
    (hit,) = await memory.search(**USER, query="who sleeps in the basket?")
    assert hit.reason.passage is not None
    assert NEEDLE in hit.reason.passage


@pytest.mark.parametrize("importance", [0.5, 1.0])
async def test_the_nearest_passage_of_each_memory_counts(
    database: Database, importance: float
) -> None:
    """As many memories as are wanted come, however many passages of one are nearer."""
    embedder = SeededEmbedder(clusters=3)
    vectors = {f"w{n}": embedder.vector(f"turn {n}") for n in range(500)}

    def documents(texts: list[str]) -> list[list[float]]:
        return [vectors[text.split()[0]] for text in texts]

    other = CallableEmbedder(
        documents,
        query=embedder.vector,
        model="words",
        dimensions=embedder.dimensions,
        window=16,
    )
    memory = PgVectorMemoryService(database, embedder=other, mode="vector")
    texts = ["".join(f"w{n} {'x ' * 10}.\n" for n in range(440))]
    texts += [f"w{n} short" for n in range(440, 500)]
    rated = {"importance": importance}
    await memory.add_memory(**USER, memories=[entry(text, custom_metadata=rated) for text in texts])
    for question in ("question 1", "question 2"):
        hits = await memory.search(**USER, query=question, top_k=61, min_relevance=-1)
        assert len(hits) == 61
        cosines = [hit.reason.cosine or 0.0 for hit in hits]
        assert cosines == sorted(cosines, reverse=True)
        asked = embedder.vector(question)
        best = max(
            sum(map(mul, vectors[f"w{n}"], asked)) / hypot(*vectors[f"w{n}"]) for n in range(440)
        )
        (whole,) = [hit for hit in hits if text_of(hit.memory).startswith("w0 ")]
        assert whole.reason.cosine == pytest.approx(best / hypot(*asked), abs=0.01)


async def test_passages_go_with_their_memory(
    database: Database, connection: asyncpg.Connection
) -> None:
    memory = PgVectorMemoryService(database, embedder=Narrow())
    session = session_of(said("Before.", "a"), said(LONG, "b"), said("After.", "c"))
    await memory.add_session_to_memory(session)
    many = await connection.fetchval(COUNT)
    assert many > 10
    await memory.add_session_to_memory(session)
    assert await connection.fetchval(COUNT) == many
    # An event that arrives late moves its neighbours, with their passages.
    await memory.add_session_to_memory(session_of(said("New.", "n"), *session.events))
    assert await connection.fetchval(COUNT) == many + 1
    hit, *_ = await memory.search(**USER, query="feline")
    assert hit.reason.passage is not None
    await memory.update_memory(**USER, memory_id=str(hit.memory.id), text="A hound barks.")
    assert await connection.fetchval(COUNT) == 4
    assert await found(memory, "puppy", top_k=1) == ["A hound barks."]
    await memory.add_memory(**USER, memories=[entry(LONG, "note")])
    await memory.delete_memory(**USER, memory_id="note")
    assert await connection.fetchval(COUNT) == 4
    await memory.add_memory(**USER, memories=[entry(LONG)])
    stored = await connection.fetchval(COUNT)
    assert stored > 10
    erased = await forget(database, **USER)
    assert erased.rows["memory_vectors"] == stored
    assert await connection.fetchval(COUNT) == 0


async def test_a_text_refused_in_one_passage_spoils_no_other(
    database: Database, connection: asyncpg.Connection
) -> None:
    async def refuse(texts: list[str]) -> list[list[float]]:
        if any(NEEDLE in text for text in texts):
            raise ValueError("not this one")
        return [ToyEmbedder().vector(text, nothing=7) for text in texts]

    embedder = BrokenEmbedder(failure=refuse)
    embedder.window = 200  # type: ignore[attr-defined] # any embedder may have one
    memory = PgVectorMemoryService(database, embedder=embedder)
    await memory.add_memory(
        **USER, memories=[entry(FILLER * 40, "fine"), entry(LONG, "bad"), entry("short", "short")]
    )
    stored = await connection.fetch(
        "SELECT DISTINCT memory_id FROM memories JOIN memory_vectors"
        " USING (app_name, user_id, position)"
    )
    assert {row["memory_id"] for row in stored} == {"fine", "short"}
    embedder.failure = None
    assert await memory.embed_pending() == 1
    assert await connection.fetchval("SELECT count(*) FROM memory_jobs") == 0


class Counting(ToyEmbedder):
    """Has a tokenizer, and reads so many words of a text; what is longer it refuses or cuts off."""

    window = 100
    most = 20
    strict = True

    def fits(self, text: str) -> bool:
        return len(text.split()) <= self.most

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.strict and not all(map(Counting.fits, [self] * len(texts), texts)):
            raise ValueError("too long")
        return await super().embed_documents([" ".join(t.split()[: self.most]) for t in texts])

    async def embed_query(self, text: str) -> list[float]:
        return (await self.embed_documents([text]))[0]


class Refusing(Counting):
    """Knows no limit, and has one."""

    fits = None  # type: ignore[assignment] # as without the method


@pytest.mark.parametrize("embedder", [Counting, Refusing])
@pytest.mark.parametrize(
    "text", [FILLER * 3 + NEEDLE, LONG], ids=["within the window", "in passages"]
)
async def test_a_text_that_is_too_long_for_the_model_is_halved(
    database: Database, connection: asyncpg.Connection, embedder: type[Counting], text: str
) -> None:
    """Whether the embedder counts, or is only heard to refuse."""
    memory = PgVectorMemoryService(database, embedder=embedder())
    await memory.add_memory(**USER, memories=[entry(text, "long"), entry("A hound barks.", "a")])
    assert await connection.fetchval("SELECT count(*) FROM memory_jobs") == 0
    rows = await connection.fetch(
        "SELECT lower(span) AS start, upper(span) AS end FROM memory_vectors"
        " JOIN memories USING (app_name, user_id, position) WHERE memory_id = 'long'"
    )
    assert all(len(text[row["start"] : row["end"]].split()) <= Counting.most for row in rows)
    kept = {place for row in rows for place in range(row["start"], row["end"])}
    assert all(place in kept or text[place].isspace() for place in range(len(text)))
    hit, *_ = await memory.search(**USER, query="feline", mode="vector")
    assert hit.reason.passage is not None
    assert NEEDLE in hit.reason.passage
    assert hit.reason.cosine == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("embedder", "strict"), [(Counting, True), (Counting, False), (Refusing, True)]
)
async def test_of_a_question_that_is_too_long_both_ends_are_asked(
    database: Database, embedder: type[Counting], strict: bool
) -> None:
    model = embedder()
    model.strict = strict
    memory = PgVectorMemoryService(database, embedder=model)
    await memory.add_memory(**USER, memories=[entry("The kitten sleeps.")])
    (hit,) = await memory.search(
        **USER, query=f"Read my log: {'lorem ipsum dolor ' * 90} where is the feline?"
    )
    assert hit.reason.words_alone is None
    assert hit.reason.cosine == pytest.approx(1.0, abs=0.1)


async def test_a_memory_that_is_refused_at_any_length_costs_few_calls(
    database: Database, connection: asyncpg.Connection
) -> None:
    asked: list[int] = []

    async def refuse(texts: list[str]) -> list[list[float]]:
        asked.append(len(texts))
        if any("train" in text for text in texts):  # which nobody said
            return await ToyEmbedder().embed_documents(texts)
        raise ValueError("nothing")

    memory = PgVectorMemoryService(database, embedder=BrokenEmbedder(failure=refuse))
    await memory.add_memory(**USER, memories=[entry(FILLER * 1_000)])
    assert await connection.fetchval(COUNT) == 0
    assert await connection.fetchval("SELECT attempts FROM memory_jobs") == 1
    assert len(asked) < 20


async def test_the_end_of_what_the_offline_model_reads_is_in_a_vector(database: Database) -> None:
    """Of abbreviations it has twice the tokens that are estimated."""
    memory = PgVectorMemoryService(database, embedder=LocalEmbedder(), mode="vector")
    end = "By the way, grandmother's violin is kept at the repair shop on Elm Street."
    text = "xkcd qwrtz pfhgt zxcvbnm brrr hmm tsk pssst mgmt cfg tmp usr lcl dst src ptr cntr " * 8
    await memory.add_memory(**USER, memories=[entry(text + end)])
    (hit,) = await memory.search(**USER, query="which instrument is being mended, and where?")
    assert hit.reason.passage is not None
    assert end in hit.reason.passage


async def test_a_tokenizer_that_fails_lets_memories_wait(
    database: Database, connection: asyncpg.Connection
) -> None:
    def broken(text: str) -> bool:
        raise ValueError(text)

    embedder = ToyEmbedder()
    embedder.fits = broken  # type: ignore[attr-defined] # any embedder may have one
    memory = PgVectorMemoryService(database, embedder=embedder)
    await memory.add_memory(**USER, memories=[entry("The kitten sleeps.")])
    assert await connection.fetchval(COUNT) == 0
    assert await connection.fetchval("SELECT attempts FROM memory_jobs") == 0
    del embedder.fits  # type: ignore[attr-defined]
    assert await memory.embed_pending() == 1


async def test_a_call_asks_for_no_more_texts_than_a_batch(database: Database) -> None:
    embedder = Narrow()
    memory = PgVectorMemoryService(database, embedder=embedder)
    most = database.settings.embedding_batch_size
    entries = [entry(f"{FILLER * 100} {n}") for n in range(12)] + [entry(FILLER * 1_200)]
    await memory.add_memory(**USER, memories=entries)
    assert len(embedder.documents) > 2
    assert max(map(len, embedder.documents)) <= most


async def test_a_cancelled_ingest_leaves_no_memory_with_some_of_its_passages(
    database: Database, connection: asyncpg.Connection
) -> None:
    answered = asyncio.Event()
    first = True

    async def halt(texts: list[str]) -> list[list[float]]:
        nonlocal first
        if not first:
            answered.set()
            await asyncio.Event().wait()
        first = False
        return [ToyEmbedder().vector(text, nothing=7) for text in texts]

    embedder = BrokenEmbedder(failure=halt)
    embedder.window = 16  # type: ignore[attr-defined] # any embedder may have one
    memory = PgVectorMemoryService(database, embedder=embedder)
    adding = asyncio.create_task(memory.add_memory(**USER, memories=[entry(LONG)]))
    await answered.wait()
    adding.cancel()
    await asyncio.gather(adding, return_exceptions=True)
    assert await connection.fetchval(COUNT) == 0
    embedder.failure = None
    assert await memory.embed_pending() == 1
    passage = "SELECT max(passage) + 1 FROM memory_vectors"
    assert await connection.fetchval(passage) == await connection.fetchval(COUNT)


async def test_models_count_memories_not_passages(
    database: Database, connection: asyncpg.Connection
) -> None:
    memory = PgVectorMemoryService(database, embedder=Narrow())
    await memory.add_memory(**USER, memories=[entry(LONG), entry("short")])
    models = Models(database)
    (outcome,) = await models.reembed(Narrow(model="other"))
    assert (outcome.embedded, outcome.queued) == (2, 0)
    for model in await models.list_models():
        assert [(app.vectors, app.memories) for app in model.apps] == [(2, 2)]
    vectors = await connection.fetchval(COUNT)
    assert await models.drop("toy") == vectors / 2
    hit, *_ = await PgVectorMemoryService(database, embedder=Narrow(model="other")).search(
        **USER, query="feline"
    )
    assert hit.reason.passage is not None
    assert NEEDLE in hit.reason.passage


async def test_vectors_of_every_model_go_with_the_text(
    database: Database, connection: asyncpg.Connection
) -> None:
    """While an app has those of the model before, too, which read less at once."""
    memory = PgVectorMemoryService(database, embedder=Narrow())
    await memory.add_memory(**USER, memories=[entry(LONG, "long"), entry(LONG + " Bye.", "other")])
    wide = Narrow(model="wide")
    wide.window = 8_192
    await Models(database).reembed(wide)
    of_model = (
        "SELECT name, count(*) FROM memory_vectors JOIN embedding_models USING (model_id)"
        " JOIN memories USING (app_name, user_id, position) WHERE memory_id = $1 GROUP BY name"
    )
    counts = dict(await connection.fetch(of_model, "long"))
    assert counts["wide"] == 1
    assert counts["toy"] > 10
    memory = PgVectorMemoryService(database, embedder=wide)
    await memory.update_memory(**USER, memory_id="long", text="A hound barks.")
    assert dict(await connection.fetch(of_model, "long")) == {"wide": 1}
    assert await found(memory, "puppy", top_k=1) == ["A hound barks."]
    for memory_id in ("long", "other"):
        await memory.delete_memory(**USER, memory_id=memory_id)
    assert await connection.fetchval(COUNT) == 0


async def test_code_of_a_document_is_read_whole(database: Database) -> None:
    memory = PgVectorMemoryService(database, embedder=Narrow())
    lines = [f"step_{n}(weather)  # {FILLER}" for n in range(15)]
    code = "\n".join([*lines, "feed(kitten)", *lines])
    guide = f"# Guide\n\n```\n{code}\n```\n"
    await Documents(memory).add(app_name="app", source="guide.md", text=guide)
    hit, *_ = await memory.search(**USER, query="feline", mode="vector")
    assert hit.reason.passage is not None
    assert "feed(kitten)" in hit.reason.passage


async def test_a_budget_takes_the_passage_of_what_does_not_fit(database: Database) -> None:
    memory = PgVectorMemoryService(database, embedder=Narrow())
    await memory.add_memory(**USER, memories=[entry(LONG, "long"), entry("A kitten.", "short")])
    whole = await memory.search(**USER, query="feline")
    assert {hit.memory.id: hit.cut for hit in whole} == {"long": False, "short": False}
    budget = await memory.search(**USER, query="feline", max_tokens=300)
    assert {hit.memory.id: hit.cut for hit in budget} == {"long": True, "short": False}
    (hit,) = [hit for hit in budget if hit.cut]
    assert text_of(hit.memory) == hit.reason.passage
    stored = await memory.get_memory(**USER, memory_id="long")
    assert stored is not None
    assert text_of(stored) == LONG
    (tiny,) = await memory.search(**USER, query="feline", max_tokens=10)
    assert tiny.memory.id == "short"
    passages = await memory.search(**USER, query="feline", passages=True)
    assert sorted(hit.cut for hit in passages) == [False, True]


async def test_an_index_of_a_large_user_has_every_passage(
    database: Database, connection: asyncpg.Connection
) -> None:
    """The nearest passages may be of few memories; each memory is still one hit."""
    memory = PgVectorMemoryService(database, embedder=Narrow())
    await memory.add_memory(**USER, memories=[entry(f"{LONG} {n}") for n in range(60)])
    await connection.execute("INSERT INTO approximate_scopes VALUES ('app', 'user', 1, false)")
    assert await memory.index_large_scopes() == await connection.fetchval(COUNT)
    for _ in range(2):  # the first search learns that the index is there
        hits = await memory.search(**USER, query="feline", mode="vector", top_k=10)
    assert len({hit.memory.id for hit in hits}) == len(hits)
    assert all(NEEDLE in str(hit.reason.passage) for hit in hits)
