"""Folding of near-duplicates and the token budget, without a database."""

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from adkpg.memory.records import Memory
from adkpg.memory.search.hits import Hit, Reason, folded

LONG = "we will meet in the small garden behind the old library at noon and bring some bread"


def memory(text: str, memory_id: str = "m", **fields: object) -> Memory:
    content = types.Content(parts=[types.Part(text=text)] if text else None)
    return Memory.model_validate({"content": content, "id": memory_id, **fields})


def hit(text: str, memory_id: str = "m", score: float = 1.0, **fields: object) -> Hit:
    reason = Reason(score, (), None, 1.0, 1.0, 1.0, score)
    return Hit(memory(text, memory_id, **fields), score, reason)


def pair(one: str, other: str) -> list[Hit]:
    return folded([hit(one, "1", 2.0), hit(other, "2", 1.0)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I love oolong tea", "i LOVE oolong tea!"),
        ("I love oolong tea", "  I   love\noolong, tea "),
        (LONG, f"“{LONG.upper()}!”"),
        ("Заказ готов и ждёт вас", "заказ готов, и ждёт вас…"),
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
        (LONG, LONG + " thanks"),
        ("I write my tools in C++", "I write my tools in C#"),
        ("The balance is -50 EUR", "The balance is 50 EUR"),
        ("The balance is (50) EUR", "The balance is 50 EUR"),
        ("A dose of .5 ml", "A dose of 5 ml"),
        ("The ticket costs $50", "The ticket costs €50"),
        ("Alert when load > 5", "Alert when load < 5"),
        ("Requires python>=3.11", "Requires python<=3.11"),
        ("The new plan: 👍", "The new plan: 👎"),
        ("Pay the rent ✅", "Pay the rent ❌"),
        ("The song is in F♯ minor", "The song is in F minor"),
        (f"From now on I may drink coffee. {LONG}", f"From now on I may not drink coffee. {LONG}"),
        ("See you at 5 :)", "See you at 5 :("),
        ("The beam is 6' long", 'The beam is 6" long'),
        ("Ana paid.", "Ana paid?"),
        ("a ? b", "a b"),
        ("Der Trank in Maßen", "Der Trank in Massen"),
        ("The area is 5²", "The area is 52"),
        ("[x] water the plants", "[ ] water the plants"),
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
