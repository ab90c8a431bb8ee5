"""The replica that rankings are tried on ranks as the service does."""

import random
import re
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from adkpg import Database, Hit, PgVectorMemoryService
from adkpg.evaluation.figures import DEPTH
from adkpg.memory.search.options import MODES
from benchmarks.replica import rank, read_question, read_scope
from tests.fakes.conversation import said, session_of

USER: Any = {"app_name": "app", "user_id": "user"}
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW = START + timedelta(weeks=60)
WORDS = ["river", "boat", "harbour", "lamp", "green", "red", "house", "garden", "train", "ticket"]
WORDS += ["doctor", "dentist", "piano", "lesson", "school", "teacher", "bread", "coffee", "market"]
QUESTIONS = (
    "What did I say about the green boat?",
    "Where is the dentist of the teacher?",
    "What did you recommend for the garden?",
    "What happened in May 2026?",
    "The piano lesson in winter was at the harbour.",
    "Which river?",
    "What is the price of uranium?",
)


@dataclass
class BagEmbedder:
    """A text's vector is the sum of its words', which are drawn at random, and one of all texts."""

    languages: tuple[str, ...]
    common: float = 0.0
    model: str = "bag"
    dimensions: int = 64
    floor: float = 0.1
    window: int = 100

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.vector(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        return self.vector(text)

    def vector(self, text: str) -> list[float]:
        words = re.findall("[a-z]+", text.lower())
        drawn = [
            np.random.default_rng(zlib.crc32(word.encode())).standard_normal(self.dimensions)
            for word in words
        ]
        summed: list[float] = (np.sum(drawn, axis=0) + self.common * len(words)).tolist()
        return summed


async def remember(memory: PgVectorMemoryService) -> None:
    """Sessions of turns of few and of many words, some of them questions, one of passages."""
    draw = random.Random(7)
    for number in range(12):
        events = []
        for place in range(10):
            words = " ".join(draw.choices(WORDS, k=draw.choice((2, 5, 9, 14, 40, 90))))
            text = words + draw.choice((".", ".", "?"))
            event = said(text, f"e{number}-{place}", author=draw.choice(("user", "guide")))
            event.timestamp = (START + timedelta(weeks=number, minutes=place)).timestamp()
            events.append(event)
        await memory.add_session_to_memory(session_of(*events, session_id=f"s{number}"))
    long = ". ".join(" ".join(draw.choices(WORDS, k=12)) for _ in range(60))
    event = said(long, "long")
    event.timestamp = NOW.timestamp()
    await memory.add_session_to_memory(session_of(event, session_id="long"))


@pytest.mark.parametrize(
    ("known", "common"),
    [("en", 0), ("zh", 0), ("en", 1)],
    ids=["a language it knows", "one it does not", "all is above the floor"],
)
async def test_it_finds_the_same_in_the_same_order_with_the_same_scores(
    database: Database, known: str, common: float
) -> None:
    embedder = BagEmbedder((known,), common)
    memory = PgVectorMemoryService(database, embedder=embedder)
    await remember(memory)
    scope = await read_scope(database, **USER)
    for mode in MODES:
        found_any = 0
        for text in QUESTIONS:
            asked = await read_question(database, "app", text, NOW, embedder)
            replicated = rank(scope, asked, embedder.floor, mode)
            hits = await memory.search(**USER, query=text, mode=mode, top_k=DEPTH, now=NOW)
            assert [hit.memory.id for hit in replicated] == [hit.memory.id for hit in hits], text
            assert told(replicated) == [pytest.approx(own, abs=1e-4) for own in told(hits)]
            found_any += len(hits)
        assert found_any > DEPTH, "or nothing was compared"


def told(hits: list[Hit]) -> list[tuple[float, ...]]:
    """What the hits say of their scores."""
    return [
        (
            hit.score,
            hit.reason.lexical,
            hit.reason.date,
            hit.reason.speaker,
            hit.reason.newer,
        )
        for hit in hits
    ]
