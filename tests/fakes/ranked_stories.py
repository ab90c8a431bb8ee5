"""Stories whose search has much to rank: few and many words, questions, passages, times."""

import random
import re
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from adkpg import PgVectorMemoryService
from tests.fakes.conversation import said, session_of

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW = START + timedelta(weeks=60)
WORDS = ["river", "boat", "harbour", "lamp", "green", "red", "house", "garden", "train", "ticket"]
WORDS += ["doctor", "dentist", "piano", "lesson", "school", "teacher", "bread", "coffee", "market"]
QUESTIONS = (
    "What did I say about the green boat?",
    "Where is the dentist of the teacher?",
    "What did you recommend for the garden?",
    "What happened in May 2026?",
    "Which lesson on March 29 of 2026 was at school?",
    "The piano lesson in winter was at the harbour.",
    "Which river?",
    "What is the price of uranium?",
    "Who has been there?",  # no word that is searched
)


@dataclass
class BagEmbedder:
    """A text's vector is the sum of its words', which are drawn at random, and one of all texts."""

    languages: tuple[str, ...]
    common: float = 0.0
    model: str = "bag"
    dimensions: int = 64
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
