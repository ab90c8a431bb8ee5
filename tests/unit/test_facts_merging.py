"""What an extraction changes, whatever it says."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkpg.facts.extractor import Add, Extraction, KnownFact, Operation, Supersede, Turn, Update
from adkpg.facts.merging import Changes, Limits, merged, shortened
from adkpg.memory.duplicates import normal
from tests.fakes.fact_stories import START, fact, numbered, turn


def _merged(
    operations: Sequence[Operation],
    turns: Sequence[Turn],
    known: Sequence[KnownFact] = (),
    *,
    past: Sequence[KnownFact] = (),
    limits: Limits | None = None,
) -> Changes:
    extraction = Extraction(tuple(operations))
    return merged(extraction, turns, known, numbered(), past=past, limits=limits)


def _nothing(changes: Changes) -> bool:
    return not (changes.added or changes.updated or changes.superseded)


def test_an_added_fact_has_its_sources_and_the_time_of_the_last() -> None:
    add = Add(" Ana\nlives  in Berlin. ", ("m2", "m1", "m2"), 0.7, ("Home", "home", " Travel "))
    (added,) = _merged([add], [turn(1), turn(2), turn(3)]).added
    assert (added.memory_id, added.text, added.importance) == ("new1", "Ana lives in Berlin.", 0.7)
    assert (added.provenance, added.timestamp) == (("m2", "m1"), turn(2).timestamp)
    assert added.topics == ("home", "travel")
    assert added.superseded_by is None


@pytest.mark.parametrize(
    "again",
    [
        "Ana lives in Berlin",
        "ana  LIVES in\nBerlin.",
        "“Ana lives in Berlin!”",
    ],
)
def test_what_is_known_adds_nothing(again: str) -> None:
    known = [fact(1, "Ana lives in Berlin.")]
    for operation in (
        Add(again, ("m1",)),
        Update("known1", again, ("m1",)),
        Supersede("known1", Add(again, ("m1",))),
    ):
        assert _nothing(_merged([operation], [turn(1)], known))


def test_one_answer_states_a_fact_once() -> None:
    changes = _merged(
        [Add("Ana has a cat.", ("m1",)), Add("Ana has a cat", ("m2",))], [turn(1), turn(2)]
    )
    assert [added.text for added in changes.added] == ["Ana has a cat."]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana writes C++.", "Ana writes C#."),
        ("Ana owes 10 EUR.", "Ana owes (10) EUR."),
        ("Ana is vegan.", "Ana is vegan?"),
        ("The screen is 6'", "The screen is 6"),
        ('The screen is 6"', "The screen is 6"),
        ("The rate is 3.5", "The rate is 35"),
        ("安娜住在柏林。", "安娜住在巴黎。"),
        ("🙂", "🙁"),
    ],
)
def test_facts_that_differ_in_more_than_marks_are_two(one: str, other: str) -> None:
    assert normal(one) != normal(other)
    assert len(_merged([Add(one, ("m1",)), Add(other, ("m1",))], [turn(1)]).added) == 2


def test_a_fact_without_a_source_among_the_turns_is_dropped() -> None:
    changes = _merged(
        [
            Add("Nobody said so.", ()),
            Add("Somebody else said so.", ("m9", "stranger")),
            Update("known1", "Nobody said this either.", ("m9",)),
            Supersede("known1", Add("Nor this.", ())),
            Add("Ana said so.", ("stranger", "m1")),
        ],
        [turn(1)],
        [fact(1, "Ana lives in Berlin.")],
    )
    assert [(added.text, added.provenance) for added in changes.added] == [
        ("Ana said so.", ("m1",))
    ]
    assert not changes.updated
    assert not changes.superseded
    assert changes.dropped == ("no valid provenance",) * 4


def test_turns_that_were_read_before_are_no_sources_alone() -> None:
    turns = [turn(1, read=True), turn(2)]
    changes = _merged([Add("Old news.", ("m1",)), Add("News.", ("m1", "m2"))], turns)
    assert [(added.text, added.provenance) for added in changes.added] == [("News.", ("m1", "m2"))]
    assert changes.dropped == ("read before",)


def test_only_given_facts_are_changed() -> None:
    changes = _merged(
        [Update("invented", "Ana rules.", ("m1",)), Supersede("m1", Add("Ana reigns.", ("m1",)))],
        [turn(1)],
        [fact(1, "Ana lives in Berlin.")],
    )
    assert [added.text for added in changes.added] == ["Ana rules.", "Ana reigns."]
    assert not changes.updated
    assert not changes.superseded


def test_what_another_worker_superseded_meanwhile_is_followed() -> None:
    past = [replace(fact(1, "Ana lives in Berlin."), superseded_by="known2")]
    operation = Supersede("known1", Add("Ana lives in Rome.", ("m3",)))
    changes = _merged([operation], [turn(3)], [fact(2, "Ana lives in Paris.")], past=past)
    assert changes.superseded == {"known2": "new1"}
    late = Update("known1", "Ana lived in Rome.", ("m0",))
    changes = _merged([late], [turn(0)], [fact(2, "Ana lives in Paris.")], past=past)
    assert [added.superseded_by for added in changes.added] == ["known2"]


def test_what_is_stored_is_bounded() -> None:
    limits = Limits(text=20, facts=3, topics=2, topic=5)
    changes = _merged(
        [
            Add("x" * 21, ("m1",)),
            Add("a\x00b\ud800c" + " " * 50, ("m1",), math.nan, ("much too long", "a", "b", "c")),
            Add("  \n ", ("m1",)),
            Add("beyond", ("m1",)),
        ],
        [turn(1)],
        limits=limits,
    )
    (added,) = changes.added
    assert (added.text, added.importance, added.topics) == ("a b c", 0.5, ("a", "b"))
    assert sorted(changes.dropped) == ["no text", "too long", "too many"]


@pytest.mark.parametrize(("given_", "kept"), [(7, 1.0), (-math.inf, 0.0), (0.25, 0.25)])
def test_importance_stays_in_its_range(given_: float, kept: float) -> None:
    (added,) = _merged([Add("Ana has a cat.", ("m1",), given_)], [turn(1)]).added
    assert added.importance == kept


def test_an_update_keeps_the_id_and_joins_the_sources() -> None:
    changes = _merged(
        [Update("known1", "Ana has a cat named Tom.", ("m2",), 0.6)],
        [turn(2)],
        [fact(1, "Ana has a cat.")],
    )
    (updated,) = changes.updated
    assert (updated.memory_id, updated.text) == ("known1", "Ana has a cat named Tom.")
    assert (updated.provenance, updated.topics) == (("m1", "m2"), ("home",))
    assert updated.timestamp == turn(2).timestamp
    assert not changes.added


def test_a_superseded_fact_names_what_is_true_instead() -> None:
    changes = _merged(
        [Supersede("known1", Add("Ana lives in Paris.", ("m2",)))],
        [turn(2)],
        [fact(1, "Ana lives in Berlin.")],
    )
    assert [added.text for added in changes.added] == ["Ana lives in Paris."]
    assert changes.superseded == {"known1": "new1"}


def test_an_older_turn_never_replaces_a_newer_fact() -> None:
    known = [fact(5, "Ana lives in Berlin.")]
    for operation in (
        Supersede("known5", Add("Ana lives in Paris.", ("m2",))),
        Update("known5", "Ana lives in Paris.", ("m2",)),
    ):
        changes = _merged([operation], [turn(2)], known)
        (added,) = changes.added
        assert (added.text, added.superseded_by) == ("Ana lives in Paris.", "known5")
        assert not changes.updated
        assert not changes.superseded


def test_what_is_past_does_not_come_back_from_the_same_turn() -> None:
    known, past = [fact(2, "Ana lives in Paris.")], [fact(1, "Ana lives in Berlin.")]
    again = Add("Ana lives in Berlin.", ("m1",))
    assert _nothing(_merged([again], [turn(1)], known, past=past))
    assert _nothing(_merged([Supersede("known2", again)], [turn(1)], known, past=past))
    moved_back = Supersede("known2", Add("Ana lives in Berlin.", ("m3",)))
    changes = _merged([moved_back], [turn(3)], known, past=past)
    assert changes.superseded == {"known2": changes.added[0].memory_id}


def test_a_fact_that_another_known_one_states_is_superseded_by_that() -> None:
    known = [fact(1, "Ana lives in Berlin."), fact(2, "Ana lives in Paris.")]
    changes = _merged([Supersede("known2", Add("Ana lives in Berlin.", ("m3",)))], [turn(3)], known)
    assert not changes.added
    assert changes.superseded == {"known2": "known1"}
    (updated,) = changes.updated
    assert (updated.memory_id, updated.provenance) == ("known1", ("m1", "m3"))
    assert updated.timestamp == turn(3).timestamp


def test_of_two_that_supersede_one_the_later_is_true() -> None:
    towns = [
        Supersede("known1", Add(f"Ana lives in town {day}.", (f"m{day}",))) for day in (4, 2, 3)
    ]
    changes = _merged(towns, [turn(2), turn(3), turn(4)], [fact(1, "Ana lives in Berlin.")])
    by_id = {added.memory_id: added for added in changes.added}
    assert [added.text[-2] for added in changes.added] == ["2", "3", "4"]
    assert changes.superseded == {"known1": changes.added[0].memory_id}
    assert [
        by_id[added.superseded_by].text[-2] for added in changes.added if added.superseded_by
    ] == [
        "3",
        "4",
    ]


def test_one_turn_may_put_two_facts_in_the_place_of_one() -> None:
    changes = _merged(
        [
            Supersede("known1", Add("Ana works for Acme.", ("m2",))),
            Supersede("known1", Add("Ana lives in Paris.", ("m2",))),
        ],
        [turn(2)],
        [fact(1, "Ana works for Initech in Berlin.")],
    )
    assert [added.superseded_by for added in changes.added] == [None, None]
    assert list(changes.superseded) == ["known1"]


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 3))))
def test_three_sessions_that_contradict_each_other_end_with_the_latest(
    order: tuple[int, ...],
) -> None:
    live: list[KnownFact] = []
    stored: dict[str, str | None] = {}
    words: dict[str, str] = {}
    new_id = numbered()
    for day in order:
        says = Add(f"Ana lives in town {day}.", (f"m{day}",))
        operation: Operation = Supersede(live[0].memory_id, says) if live else says
        changes = merged(Extraction((operation,)), [turn(day)], live, new_id)
        for added in changes.added:
            stored[added.memory_id] = added.superseded_by
            words[added.memory_id] = added.text
            live.append(
                KnownFact(added.memory_id, added.text, 0.5, (), added.provenance, added.timestamp)
            )
        stored |= changes.superseded
        live = [known for known in live if stored[known.memory_id] is None]
    assert [known.text for known in live] == ["Ana lives in town 3."]
    assert len(stored) == 3
    for memory_id, by in stored.items():
        if by is not None:
            assert words[memory_id] < words[by], "only what was said later replaces"


_IDS = st.sampled_from(["m1", "m2", "m3", "known1", "known2", "new1", "stranger", ""])
_TEXTS = st.text(max_size=30) | st.sampled_from(["Ana lives in Berlin.", "Ana has a cat."])
_NUMBERS = st.floats()
_ADDS = st.builds(Add, _TEXTS, st.lists(_IDS, max_size=3).map(tuple), _NUMBERS, st.just(("x",)))
_OPERATIONS = st.one_of(
    _ADDS,
    st.builds(Update, _IDS, _TEXTS, st.lists(_IDS, max_size=3).map(tuple), _NUMBERS),
    st.builds(Supersede, _IDS, _ADDS),
)


@given(st.lists(_OPERATIONS, max_size=8))
def test_no_extraction_escapes_its_bounds(operations: list[Operation]) -> None:
    turns = [turn(1), turn(2), turn(3, read=True)]
    known = [fact(1, "Ana lives in Berlin."), fact(2, "Ana has a cat.")]
    limits = Limits(text=20)
    changes = _merged(operations, turns, known, limits=limits)
    given_ids = {each.memory_id for each in turns}
    known_ids = {each.memory_id for each in known}
    added = {each.memory_id for each in changes.added}
    for stated in (*changes.added, *changes.updated):
        assert stated.text
        assert set(stated.provenance) <= given_ids
        assert set(stated.provenance) & {"m1", "m2"}
        assert 0 <= stated.importance <= 1
        assert START < stated.timestamp <= turns[-1].timestamp
    for each in changes.added:
        assert len(each.text) <= limits.text
        assert each.superseded_by is None or each.superseded_by in added | known_ids
    assert {each.memory_id for each in changes.updated} <= known_ids
    assert changes.superseded.keys() <= known_ids
    assert set(changes.superseded.values()) <= added | known_ids
    live = {each.memory_id: each.text for each in known} | {
        each.memory_id: each.text
        for each in (*changes.added, *changes.updated)
        if not getattr(each, "superseded_by", None)
    }
    texts = [normal(text) for id_, text in live.items() if id_ not in changes.superseded]
    assert len(texts) == len(set(texts)), "no two live facts are equal"
    assert all(old != by for old, by in changes.superseded.items())


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("Short.", "Short."),
        ("A first sentence. And a second one.", "A first sentence."),
        ("One sentence without an end in sight", "One sentence without…"),
        ("x" * 40, "x" * 23 + "…"),
    ],
)
def test_shortened_ends_behind_a_sentence_or_a_word(text: str, short: str) -> None:
    assert shortened(text, 24) == short
