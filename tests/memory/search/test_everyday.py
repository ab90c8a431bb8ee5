"""Everyday memory: a fact is the first hit however it is asked for, and whatever was asked before.

A small world of turns by one person and an agent, with the offline model.
"""

from datetime import UTC, datetime, timedelta

import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.embedding import LocalEmbedder
from tests.fakes.conversation import found, said, session_of

START = datetime(2026, 2, 2, 18, tzinfo=UTC)

SISTER = "My sister Elena teaches physics at a school in Graz."
DENTIST = "The dentist moved my appointment to the 14th at half past nine."
ALLERGY = "I can't eat walnuts, they make my throat swell."
BICYCLE = "I locked my bicycle in the cellar, the code of the lock is 4711."
MANAGER = "Our new manager is called Priya Raman, she came from the Oslo office."
OLD_RENT = "The rent for my flat is 940 euros a month."
NEW_RENT = "The rent for my flat is 1015 euros a month now."
OLD_GYM = "I go to the gym on Tuesday evenings."
NEW_GYM = "I go to the gym on Thursday evenings now."
SONG = "The band plays our song, Harvest Moon, at the wedding."

DAYS = (
    (
        ("user", SISTER),
        ("helper", "Noted."),
        ("user", OLD_RENT),
        ("helper", "Thanks, I will remember that."),
        ("user", "It has rained since this morning."),
    ),
    (
        ("user", OLD_GYM),
        ("helper", "Good for you!"),
        ("user", DENTIST),
        ("helper", "Okay, noted."),
    ),
    (
        ("user", ALLERGY),
        ("helper", "Got it."),
        ("user", "What shall I cook tonight?"),
        ("helper", "How about a risotto with mushrooms and a green salad?"),
    ),
    (
        ("user", BICYCLE),
        ("helper", "Noted."),
        ("user", MANAGER),
        ("helper", "I hope you get along well."),
    ),
    (
        ("user", NEW_RENT),
        ("helper", "Noted."),
        ("user", SONG),
        ("helper", "That sounds lovely."),
        ("user", "The printer is out of paper again."),
    ),
    (
        ("user", NEW_GYM),
        ("helper", "Noted."),
        ("user", "We watched a film about whales."),
    ),
)

QUESTIONS = {
    "What does my sister teach?": SISTER,
    "When is my appointment with the dentist?": DENTIST,
    "What food am I allergic to?": ALLERGY,
    "What is the code of my bicycle lock?": BICYCLE,
    "Who is our new manager?": MANAGER,
    "Which song does the band play at the wedding?": SONG,
}

KEYWORDS = {
    "sister teaches": SISTER,
    "dentist appointment": DENTIST,
    "allergic food": ALLERGY,
    "code bicycle lock": BICYCLE,
    "new manager": MANAGER,
    "song band wedding": SONG,
}


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    """Loaded once; a test's own loop is no matter to it."""
    return LocalEmbedder()


@pytest.fixture
async def memory(database: Database, embedder: LocalEmbedder) -> PgVectorMemoryService:
    memory = PgVectorMemoryService(database, embedder=embedder)
    for number, turns in enumerate(DAYS):
        await remember(memory, number, *turns)
    return memory


async def remember(memory: PgVectorMemoryService, day: int, *turns: tuple[str, str]) -> None:
    """One conversation on a day, a minute for each turn."""
    events = []
    for minute, (author, text) in enumerate(turns):
        moment = START + timedelta(days=day, minutes=minute)
        events.append(said(text, f"{day}-{minute}", author=author, timestamp=moment.timestamp()))
    await memory.add_session_to_memory(session_of(*events, session_id=f"day {day}"))


@pytest.mark.parametrize("asked", QUESTIONS)
async def test_a_fact_is_first_however_it_is_asked_for(
    memory: PgVectorMemoryService, asked: str
) -> None:
    bare = asked.rstrip("?")
    later = f"{bare[0].lower()}{bare[1:]}"
    for query in (
        asked,
        bare,
        bare.lower(),
        f"Hi there! {asked}",
        f"Can you tell me {later}?",
        f"Could you please tell me: {later}",
        f"Do you remember {later}?",
    ):
        assert (await found(memory, query))[0] == QUESTIONS[asked], query


@pytest.mark.parametrize("keywords", KEYWORDS)
async def test_so_it_is_by_keywords(memory: PgVectorMemoryService, keywords: str) -> None:
    assert (await found(memory, keywords))[0] == KEYWORDS[keywords]


@pytest.mark.parametrize("asked", QUESTIONS)
@pytest.mark.parametrize(
    "answer",
    [
        "I don't know.",
        "I'm sorry, I don't have any information about that.",
        "Noted.",
        "I could not find anything about that in our conversations.",
    ],
)
async def test_neither_the_question_asked_before_nor_its_empty_answer_stands_before_the_fact(
    memory: PgVectorMemoryService, asked: str, answer: str
) -> None:
    await remember(memory, 10, ("user", asked), ("helper", answer))
    for query in (asked, asked.rstrip("?"), f"Can you tell me? {asked}"):
        assert (await found(memory, query))[0] == QUESTIONS[asked], query


@pytest.mark.parametrize(
    ("asked", "newer", "older"),
    [
        ("How much is the rent for my flat?", NEW_RENT, OLD_RENT),
        ("rent flat", NEW_RENT, OLD_RENT),
        ("Can you tell me how many euros the rent for my flat is", NEW_RENT, OLD_RENT),
        ("When do I go to the gym?", NEW_GYM, OLD_GYM),
        ("gym evenings", NEW_GYM, OLD_GYM),
        ("Hello, when do I go to the gym", NEW_GYM, OLD_GYM),
    ],
)
async def test_a_newer_value_stands_before_an_older_one(
    memory: PgVectorMemoryService, asked: str, newer: str, older: str
) -> None:
    assert (await found(memory, asked))[:2] == [newer, older]
