"""The offline model and the words together: memories are found by questions put otherwise."""

import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.embedding import LocalEmbedder
from adkpg.memory.search.options import Mode
from tests.fakes.conversation import USER, entry, found

MEMORIES = (
    "I'm allergic to peanuts, even a trace makes my throat swell",
    "My daughter Emma starts school in September",
    "We adopted a golden retriever called Biscuit last spring",
    "I moved from Leeds to Lisbon two years ago",
    "My boss wants the quarterly report by Friday",
    "I usually go swimming before breakfast on Tuesdays",
    "The landlord raised our rent by eight percent",
    "I broke my wrist skiing in the Alps",
    "My favourite painter is Vermeer",
    "I play the cello in an amateur orchestra",
    "We are saving up for a trip to Japan",
    "My laptop's battery dies after an hour",
    "I can't stand coriander in anything",
    "Grandma turned ninety and we threw a big party",
    "I work night shifts at the hospital as a nurse",
    "The car failed its inspection because of the brakes",
    "I'm reading a novel about the Roman empire",
    "My brother is getting married in Scotland",
    "I gave up smoking when my son was born",
    "We bake sourdough every weekend",
    "My password manager is the only one I trust with my logins",
    "I get dizzy when I stand on tall ladders",
    "The neighbours complain about my drumming",
    "I prefer window seats on long flights",
    "Our garden has tomatoes and runner beans",
    "I studied chemistry at university but became a translator",
    "The dentist says I need a crown on a molar",
    "My order 9981 never arrived and I want my money back",
    "I speak fluent Portuguese and a little Danish",
    "We cancelled our gym membership in January",
)
QUESTIONS = {
    "Which foods are dangerous for me?": 0,
    "When does my kid begin her education?": 1,
    "What is the name of my pet?": 2,
    "Which city do I live in now?": 3,
    "What is due at work at the end of the week?": 4,
    "What exercise do I do in the mornings?": 5,
    "Has our housing become more expensive?": 6,
    "How did I get injured on the slopes?": 7,
    "Which artist do I like best?": 8,
    "What musical instrument am I good at?": 9,
    "Where do we want to travel on holiday?": 10,
    "What is wrong with my computer?": 11,
    "Which herb do I hate?": 12,
    "What is my profession in medicine?": 14,
    "Why did the vehicle not pass the test?": 15,
    "Whose wedding is coming up?": 17,
    "Why did I quit cigarettes?": 18,
    "Am I afraid of heights?": 21,
    "What happened with the parcel 9981?": 27,
    "Which foreign languages do I know?": 28,
}


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    """Loaded once; a test's own loop is no matter to it."""
    return LocalEmbedder()


async def test_the_legs_together_find_more_than_either(
    database: Database, embedder: LocalEmbedder
) -> None:
    memory = PgVectorMemoryService(database, embedder=embedder)
    await memory.add_memory(**USER, memories=[entry(text, author="user") for text in MEMORIES])
    modes: tuple[Mode, ...] = ("hybrid", "vector", "text")
    hits = dict.fromkeys(modes, 0)
    for mode in modes:
        for question, answer in QUESTIONS.items():
            hits[mode] += MEMORIES[answer] in await found(memory, question, top_k=5, mode=mode)
    assert hits["hybrid"] >= 17
    assert hits["hybrid"] >= max(hits["vector"], hits["text"])


async def test_what_was_never_said_is_not_made_up(
    database: Database, embedder: LocalEmbedder
) -> None:
    memory = PgVectorMemoryService(database, embedder=embedder)
    await memory.add_memory(**USER, memories=[entry(text, author="alice") for text in MEMORIES])
    for question in (
        "How do volcanoes erupt?",
        "What is the capital of Peru?",
        "Which stocks should I buy?",
    ):
        assert await found(memory, question) == []
