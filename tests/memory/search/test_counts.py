"""A large scope is counted once a minute, and found in as if it were counted each time."""

import pytest

from adkpg import Database, Hit, PgVectorMemoryService
from adkpg.memory.search import counts
from adkpg.memory.search.counts import KEPT_FROM, KEPT_S, UNKNOWN, Counts
from adkpg.memory.search.options import MODES, Mode
from tests.fakes.conversation import USER, conversation, entry, found, remember_apart
from tests.fakes.ranked_stories import NOW, QUESTIONS, BagEmbedder, remember

COUNTED = {"size": 5_000.0, "mean_length": 12.5}
KNOWN = {f"known_{name}": value for name, value in COUNTED.items()}


class Clock:
    """Says what it is set to."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def told(hits: list[Hit]) -> list[tuple[object, ...]]:
    """What hits are, and why, as far as they are the same however they were counted."""
    return [(hit.memory, round(hit.score, 9), hit.reason.lexemes) for hit in hits]


def test_what_a_large_scope_counts_is_known_for_a_minute() -> None:
    clock = Clock()
    kept = Counts(clock)
    assert kept.of("app", ("u", "u")) == UNKNOWN
    kept.learn("app", ("u", "u"), COUNTED)
    clock.now_s += KEPT_S - 0.1
    assert kept.of("app", ("u", "u")) == KNOWN
    clock.now_s += 0.2
    assert kept.of("app", ("u", "u")) == UNKNOWN


def test_it_is_known_of_the_scopes_that_were_asked_for_together_alone() -> None:
    kept = Counts()
    kept.learn("app", ("u", "shared"), COUNTED)
    for app, scopes in (("app", ("u", "u")), ("app", ("v", "shared")), ("b", ("u", "shared"))):
        assert kept.of(app, scopes) == UNKNOWN
    assert kept.of("app", ("u", "shared")) == KNOWN


def test_a_scope_that_has_become_small_is_counted_each_time() -> None:
    kept = Counts()
    kept.learn("app", ("u",), COUNTED)
    kept.learn("app", ("u",), COUNTED | {"size": KEPT_FROM - 1.0})
    assert kept.of("app", ("u",)) == UNKNOWN


def test_so_many_scopes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_MOST", 2)
    kept = Counts()
    for user in ("a", "b", "a", "c"):
        kept.learn("app", (user,), COUNTED)
    known = [user for user in "abc" if kept.of("app", (user,)) == KNOWN]
    assert known == ["a", "c"]


@pytest.mark.parametrize("mode", MODES)
async def test_the_same_is_found_in_a_scope_that_was_counted_before(
    database: Database, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    embedder = BagEmbedder(("en",))
    memory = PgVectorMemoryService(database, embedder=embedder)
    await remember(memory)
    counting = PgVectorMemoryService(database, embedder=embedder)
    expected = []
    for query in QUESTIONS:
        expected.append(told(await counting.search(**USER, query=query, mode=mode, now=NOW)))
    monkeypatch.setattr(counts, "KEPT_FROM", 1)
    answers = []
    for query in QUESTIONS:
        answers.append(told(await memory.search(**USER, query=query, mode=mode, now=NOW)))
    assert answers == expected
    assert any(expected)


async def test_a_count_is_kept_and_no_memory_is_missed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "KEPT_FROM", 1)
    memory = PgVectorMemoryService(database, mode="text")
    await remember_apart(memory, "a kitten", "a car", "some tea")

    async def rarity(service: PgVectorMemoryService) -> tuple[float, ...]:
        return (await service.search(**USER, query="kitten"))[0].reason.idfs

    before = await rarity(memory)
    await memory.add_memory(**USER, memories=[entry(f"note{number}") for number in range(60)])
    assert await rarity(memory) == before
    assert await rarity(PgVectorMemoryService(database, mode="text")) > before
    assert (await found(memory, "note42"))[0] == "note42"


async def test_a_long_turn_that_came_since_lends_its_neighbours_as_little(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "KEPT_FROM", 1)
    memory = PgVectorMemoryService(database, mode="text")
    notes = [entry(f"note {number} of a kitten") for number in range(200)]
    await memory.add_memory(**USER, memories=notes)
    await found(memory, "kitten")
    long = f"the zebra likes {' '.join(f'leaf{n}' for n in range(60))}"
    await memory.add_session_to_memory(conversation("hello there friend", long, "nothing of it"))
    fresh = await found(PgVectorMemoryService(database, mode="text"), "about the zebra")
    assert await found(memory, "about the zebra") == fresh
    assert fresh[0] == long
