"""Folding of near-duplicates and the token budget, without a database."""

from itertools import pairwise
from random import Random

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from adkpg.memory.records import Memory
from adkpg.memory.search import duplicates
from adkpg.memory.search.hits import Hit, Reason, folded, tokens, within_budget

LONG = "we will meet in the small garden behind the old library at noon and bring some bread"


def memory(text: str, memory_id: str = "m", **fields: object) -> Memory:
    content = types.Content(parts=[types.Part(text=text)] if text else None)
    return Memory.model_validate({"content": content, "id": memory_id, **fields})


def hit(text: str, memory_id: str = "m", score: float = 1.0, **fields: object) -> Hit:
    reason = Reason(score, (), None, 1.0, 1.0, score)
    return Hit(memory(text, memory_id, **fields), score, reason)


def pair(one: str, other: str) -> list[Hit]:
    return folded([hit(one, "1", 2.0), hit(other, "2", 1.0)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I love oolong tea", "i LOVE oolong tea!"),
        ("I love oolong tea", "  I   love\noolong, tea "),
        (LONG, LONG + " thanks"),
        ("Заказ готов и ждёт вас", "заказ готов, и ждет вас"),
        ("我昨天买了一只猫", "我昨天买了一只猫。"),
        ("!!!", "!!!"),
        ("order 9981 has shipped", "Order 9981 has shipped."),
    ],
)
def test_what_says_the_same_is_one_hit(one: str, other: str) -> None:
    (found,) = pair(one, other)
    assert found.folded in (("1",), ("2",))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I love oolong tea", "I love green tea"),
        ("order 9981 has shipped", "order 9982 has shipped"),
        (LONG + " at table 4", LONG + " at table 5"),
        ("Ana owes Bob money", "Bob owes Ana money"),
        (LONG, LONG.replace("noon", "dusk")),
        ("I like tea", "I do not like tea"),
        ("!!!", "???"),
        ("\U0001f44d", "\u2764\ufe0f"),
        ("yes", "no"),
        # The same consonants with other vowel signs.
        ("मेरी बिल्ली सोती है", "मेरा बिल्ला सोता है"),
        ("我买了猫", "猫买了我"),
    ],
)
def test_what_says_something_else_is_a_hit_of_its_own(one: str, other: str) -> None:
    assert [found.memory.id for found in pair(one, other)] == ["1", "2"]
    assert all(found.folded == () for found in pair(one, other))


def test_two_people_who_say_the_same_are_two_hits() -> None:
    ana, bob = (hit("I love oolong tea", name, author=name) for name in ("ana", "bob"))
    assert folded([ana, bob]) == [ana, bob]


def test_files_without_a_text_are_told_apart_by_their_names() -> None:
    cat, dog = (hit("", name, artifacts={name: 0}) for name in ("cat.png", "dog.png"))
    newer = hit("", "newer", artifacts={"cat.png": 1}, timestamp="2026-01-01T00:00:00+00:00")
    assert folded([cat, dog]) == [cat, dog]
    assert [found.memory.id for found in folded([cat, dog, newer])] == ["newer", "dog.png"]


def test_the_latest_stays_at_the_best_place_with_its_own_reason() -> None:
    times = [f"2026-01-0{day}T00:00:00+00:00" for day in (2, 3, 1)]
    found = folded(
        [
            hit("tea again", "a", 3.0, timestamp=times[0]),
            hit("coffee", "b", 2.5),
            hit("Tea again!", "c", 2.0, timestamp=times[1]),
            hit("tea, again", "d", 1.0, timestamp=times[2]),
        ]
    )
    assert [(each.memory.id, each.score) for each in found] == [("c", 3.0), ("b", 2.5)]
    best = found[0]
    assert best.folded == ("a", "d")
    assert (best.reason.score, best.reason.lexical) == (3.0, 2.0)


def test_a_fraction_of_a_second_later_is_later() -> None:
    whole = hit("tea", "whole", timestamp="2026-01-01T00:00:00+00:00")
    later = hit("tea", "later", timestamp="2026-01-01T00:00:00.500000+00:00")
    for order in ([whole, later], [later, whole]):
        (found,) = folded(order)
        assert found.memory.id == "later"


@given(st.lists(st.text(alphabet="ab 1é猫", max_size=8), max_size=12))
def test_folding_loses_nobody_and_keeps_the_order(texts: list[str]) -> None:
    hits = [hit(text or "x", str(n), score=-n) for n, text in enumerate(texts)]
    found = folded(hits)
    ids = [id_ for each in found for id_ in (str(each.memory.id), *each.folded)]
    assert sorted(ids, key=int) == [str(n) for n in range(len(texts))]
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


@pytest.mark.parametrize("third", ["tea", "caf\u00e9", "\u732b\x1f\u732b", "\x1f", ""])
def test_whether_two_are_alike_depends_on_no_third(third: str) -> None:
    # The parts of ids, which a text beyond ASCII has besides, would make them alike.
    ids = " ".join(f"ab{n}-{n}cd" for n in range(12))
    one, other = f"please send {ids}", f"please keep {ids}"
    texts = [one, third, other, other]
    assert duplicates.groups(texts, lambda _: "ana") == [[0], [1], [2, 3]]


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=9, max_size=40),
    st.lists(st.lists(st.tuples(st.integers(0, 50), st.sampled_from("xyz")), max_size=3)),
)
def test_each_is_folded_into_the_first_that_is_alike(
    words: list[str], changes: list[list[tuple[int, str]]]
) -> None:
    texts = [words]
    for edits in changes[:8]:
        texts.append(list(texts[-1]))
        for place, word in edits:
            texts[-1][place % len(words)] = word
    places: list[int] = []  # of the leaders
    folded_into: dict[int, list[int]] = {}
    pairs = [{*pairwise(["", *text])} for text in texts]
    for place, own in enumerate(pairs):
        leader = next(
            (each for each in places if 10 * len(own & pairs[each]) >= 9 * len(own | pairs[each])),
            None,
        )
        if leader is None:
            places.append(place)
        folded_into.setdefault(place if leader is None else leader, []).append(place)
    found = folded([hit(" ".join(text), str(n), -n) for n, text in enumerate(texts)])
    ids = [sorted(map(int, (str(each.memory.id), *each.folded))) for each in found]
    assert ids == [folded_into[place] for place in places]


def test_texts_with_common_words_are_not_all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def counted(one: frozenset[tuple[str, str]], other: frozenset[tuple[str, str]]) -> bool:
        nonlocal compared
        compared += 1
        return alike(one, other)

    alike = duplicates._alike
    monkeypatch.setattr(duplicates, "_alike", counted)
    chosen = Random(1)
    common, rare = [f"the{n}" for n in range(20)], [f"word{n}" for n in range(2_000)]
    texts = [
        letters(" ".join(chosen.choice(chosen.choice((common, rare))) for _ in range(60)))
        for _ in range(300)
    ]
    assert len(folded([hit(text, str(n), -n) for n, text in enumerate(texts)])) == 300
    assert compared < 300 * 299 / 2 / 10


def letters(text: str) -> str:
    """The text with letters in place of digits, which tell texts apart by themselves."""
    return text.translate({48 + n: 97 + n for n in range(10)})


@given(
    st.lists(st.text(max_size=60), max_size=12),
    st.integers(min_value=1, max_value=80),
)
def test_a_budget_is_never_exceeded_nor_wasted(texts: list[str], budget: int) -> None:
    hits = [hit(text, str(n), author="ana") for n, text in enumerate(texts)]
    kept = within_budget(hits, budget)
    spent = sum(tokens(each.memory) for each in kept)
    assert spent <= budget
    assert [each for each in hits if each in kept] == kept
    assert all(tokens(each.memory) > budget - spent for each in hits if each not in kept)


def test_a_neighbour_costs_as_much_as_a_hit() -> None:
    alone = hit("x" * 36, author="ana")
    beside = Hit(alone.memory, 1.0, alone.reason, neighbours=(memory("y" * 36, author="ana"),))
    assert tokens(alone.memory) == -(-len("ana: " + "x" * 36) // 4)
    assert within_budget([beside], 21) == []
    assert within_budget([beside], 22) == [beside]
    assert within_budget([beside, alone], 21) == [alone]


def test_a_script_of_three_bytes_a_letter_costs_as_much() -> None:
    assert tokens(memory("猫" * 40, author="a")) > tokens(memory("c" * 40, author="a"))
