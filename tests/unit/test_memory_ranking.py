"""The ranking: each factor does what it says, and it is the same for one server and for several."""

import inspect
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import fmean, pstdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkpg.memory.search.ranking import (
    ASKS,
    NOBODY_SAID,
    RANKING,
    TELLS,
    TELLS_NOTHING,
    Asked,
    Evidence,
    Ranked,
    Ranking,
)

WORDS = ("tea", "oolong", "kettle")
BY_WORDS = Asked(lexical=True)
BY_BOTH = Asked(lexical=True, weight=0.2)


@dataclass(frozen=True)
class Told:
    """A memory as the database tells of it; the words are the question's, with their weights."""

    position: int = 1
    length: float = 10
    speech: int = NOBODY_SAID
    answers: bool = False
    cosine: float | None = None
    of_time: bool = False
    by_user: bool = False
    age_s: float = 0.0
    importance: float = 0.5
    words: dict[str, float] = field(default_factory=lambda: {"tea": 1.0})


def row(memories: Sequence[Told], **fields: Any) -> dict[str, Any]:
    """What a scope says that has these memories; ``fields`` are of many more that it has."""
    found = {word: [each for each in memories if word in each.words] for word in WORDS}
    cosines = [each.cosine for each in memories if each.cosine is not None]
    return {
        "positions": [each.position for each in memories] or None,
        "lengths": [each.length for each in memories] or None,
        "speeches": [each.speech for each in memories] or None,
        "answer": [each.answers for each in memories] or None,
        "cosines": [each.cosine for each in memories] or None,
        "timely": [each.of_time for each in memories] or None,
        "by_user": [each.by_user for each in memories] or None,
        "ages_s": [each.age_s for each in memories] or None,
        "importances": [each.importance for each in memories] or None,
        "at": [each.position for each in memories for _ in each.words] or None,
        "word": [WORDS.index(word) for each in memories for word in each.words] or None,
        "weight": [weight for each in memories for weight in each.words.values()] or None,
        "asked": list(WORDS),
        "number": list(range(len(WORDS))),
        "found_in": [float(len(found[word])) or None for word in WORDS],
        "touched": [float(len(found[word])) or None for word in WORDS],
        "size": float(len(memories)),
        "mean_length": fmean(each.length for each in memories) if memories else None,
        "seen": len(cosines),
        "mean_cosine": fmean(cosines) if cosines else None,
        "deviation": pstdev(cosines) if cosines else None,
        "of_time": sum(each.of_time for each in memories),
        **fields,
    }


MANY = {"size": 1000.0, "mean_length": 10.0, "found_in": [2.0, 2.0, None]}
MANY |= {"touched": [2.0, 2.0, None], "seen": 1000, "mean_cosine": 0.2, "deviation": 0.1}


def ranked(*memories: Told, asked: Asked = BY_WORDS, **fields: Any) -> list[Ranked]:
    return Evidence.of([row(memories, **MANY | fields)]).ranked(asked)


def score(memory: Told, *others: Told, asked: Asked = BY_WORDS, **fields: Any) -> float:
    """The score of a memory beside one that has all of a word, unless others are given."""
    beside = others or (Told(0),)
    found = ranked(memory, *beside, asked=asked, **fields)
    return next(each.score for each in found if each.position == memory.position)


def test_a_words_place_counts_most_and_each_neighbour_once() -> None:
    weights = dict(RANKING.spread)
    assert len(weights) == len(RANKING.spread)
    assert weights[0] == 1.0
    assert all(0 < weight < 1 for shift, weight in weights.items() if shift != 0)
    assert weights[1] >= weights[2]


def test_weights_are_spread_from_the_turn_to_those_around_it() -> None:
    spread = Ranking(previous=(0.4, 0.3), following=(0.2,)).spread
    # A word counts for the next turn as that turn's previous one.
    assert spread == [(0, 1.0), (1, 0.4), (2, 0.3), (-1, 0.2)]


def test_each_constant_says_what_speaks_for_it() -> None:
    """A data set, a measurement, or that it was chosen; some share a sentence with the next."""
    told = inspect.getdoc(Ranking)
    assert told is not None
    names = re.findall(r"^  (\w+): ", told, re.MULTILINE)
    assert sorted(names) == sorted(field.name for field in fields(Ranking))
    for entry in re.split(r"\n  (?=\w+: )", told.partition("Attributes:")[2])[1:]:
        said = entry.strip()
        assert said.endswith(".)") or not said.endswith("."), said


def test_a_word_counts_more_the_more_often_it_is_said_and_less_each_time() -> None:
    one, two, three = (ranked(Told(words={"tea": times}))[0].lexical for times in (1.0, 2.0, 3.0))
    assert one < two < three
    assert three - two < two - one


def test_a_rare_word_counts_more() -> None:
    rare, common = ranked(
        Told(1, words={"tea": 1.0}), Told(2, words={"oolong": 1.0}), found_in=[2.0, 200.0, None],
        touched=[2.0, 200.0, None],
    )  # fmt: skip
    assert (rare.position, common.position) == (1, 2)


def test_a_word_that_does_not_lead_is_as_rare_as_chance_makes_it() -> None:
    """Of so many occurrences each touches the memories around it; some touch the same."""
    fields = {"found_in": [300.0, None, None], "touched": [None, None, None]}
    ((_, idf),) = Evidence.of([row([Told()], **MANY | fields)]).matched(1)
    touched = 1000 * (1 - 0.7 ** len(RANKING.spread))
    assert idf == pytest.approx(math.log(1 + (1000 - touched + 0.5) / (touched + 0.5)))


def test_words_of_a_long_memory_count_less() -> None:
    assert score(Told(length=30)) < score(Told(length=10))


def test_a_long_turn_counts_less_by_the_root_and_a_document_does_not() -> None:
    long = 4 * RANKING.long_turn
    note = ranked(Told(length=long))[0].lexical
    turn = ranked(Told(length=long, speech=TELLS, answers=True))[0].lexical
    assert turn == pytest.approx(note / 2)
    wordy = ranked(
        Told(length=long, speech=TELLS, answers=True), asked=replace(BY_WORDS, wordiness=4.0)
    )
    assert wordy[0].lexical == pytest.approx(note), "of a script with as many words for as much"


@pytest.mark.parametrize(
    ("speech", "answers", "share"),
    [
        (NOBODY_SAID, False, 1.0),
        (TELLS, False, 0.5),
        (TELLS, True, 1.0),
        (ASKS, False, 0.5 * RANKING.asks),
        (ASKS, True, RANKING.asks),
        (TELLS_NOTHING, False, 0.5 * RANKING.tells_nothing),
        # Nor does an answer that nothing is known.
        (TELLS_NOTHING, True, 0.5 * RANKING.tells_nothing),
    ],
)
def test_what_a_turn_tells_is_a_factor_of_its_words_and_its_vector(
    speech: int, answers: bool, share: float
) -> None:
    """The turn is as short as tells half."""
    note = Told(length=RANKING.short_turn, cosine=0.5)
    turn = replace(note, speech=speech, answers=answers)
    assert ranked(turn)[0].lexical == pytest.approx(share * ranked(note)[0].lexical)
    silent = replace(turn, words={})
    assert score(silent, Told(0), asked=BY_BOTH) == pytest.approx(share * 3 * BY_BOTH.weight)


def test_a_cosine_counts_by_how_many_deviations_it_is_above_the_mean() -> None:
    for cosine, z in ((0.5, 3.0), (0.3, 1.0), (0.2, 0.0), (-0.1, 0.0)):
        plain = score(Told(), asked=BY_WORDS)
        assert score(Told(cosine=cosine), asked=BY_BOTH) - plain == pytest.approx(0.2 * z)
    assert score(Told(cosine=0.5), asked=BY_BOTH, deviation=0.0) == score(Told())
    heavier = replace(BY_BOTH, weight=1.0)
    assert score(Told(cosine=0.3), asked=heavier) - score(Told()) == pytest.approx(1.0)


def test_words_count_as_far_as_the_best_memory_covers_the_question() -> None:
    """One of two words that are as rare, of which the other is unknown."""
    (all_of_it,) = ranked(Told(words=dict.fromkeys(WORDS, 1.0)), found_in=[2.0] * 3,
                          touched=[2.0] * 3)  # fmt: skip
    assert all_of_it.score == pytest.approx(1)
    assert all_of_it.relevance == pytest.approx(1)
    (some,) = ranked(Told())
    assert some.score == some.relevance
    assert 0.25 < some.relevance < 0.35
    half, whole = sorted(
        each.score for each in ranked(Told(1), Told(2, words={"tea": 1.0, "oolong": 1.0}))
    )
    assert whole == pytest.approx(2 * half)


def test_of_a_long_question_some_rare_words_are_the_whole() -> None:
    unknown = {
        "asked": [*WORDS, *(f"w{n}" for n in range(20))],
        "number": list(range(23)),
        "found_in": [2.0] + [None] * 22,
        "touched": [2.0] + [None] * 22,
    }
    (found,) = Evidence.of([row([Told()], **MANY | unknown)]).ranked(BY_WORDS)
    assert found.relevance > 0.2


def test_a_memory_of_a_time_that_is_named_gains_unless_most_are() -> None:
    few, many = 1000 * RANKING.dated_share, 1000 * RANKING.dated_share + 1
    gain = score(Told(of_time=True), of_time=few) - score(Told(), of_time=few)
    assert gain == pytest.approx(RANKING.dated)
    assert score(Told(of_time=True), of_time=many) == score(Told())
    (found,) = ranked(Told(of_time=True, words={}), of_time=few)
    assert (found.score, found.date) == (RANKING.dated, RANKING.dated)
    assert ranked(Told(of_time=True, words={}), of_time=many) == []


@pytest.mark.parametrize("by_user", [True, False])
def test_a_memory_of_whom_the_question_names_gains(by_user: bool) -> None:
    asked = replace(BY_WORDS, by_user=by_user)
    gain = score(Told(by_user=by_user), asked=asked) - score(Told(by_user=not by_user), asked=asked)
    assert gain == pytest.approx(RANKING.said_by)
    assert score(Told(by_user=by_user)) == score(Told(by_user=not by_user))


def test_age_and_importance_are_factors() -> None:
    day = 86_400.0
    asked = replace(BY_WORDS, half_life_s=day)
    assert score(Told(age_s=day), asked=asked) == pytest.approx(score(Told()) / 2)
    assert score(Told(age_s=-day), asked=asked) == score(Told()), "what is to come is of now"
    assert score(Told(age_s=day)) == score(Told())
    assert score(Told(age_s=1e18), asked=asked) >= 0
    low, high = RANKING.importance_factors
    for importance, factor in ((0.0, low), (0.5, 1.0), (1.0, high)):
        assert score(Told(importance=importance)) == pytest.approx(factor * score(Told()))


def test_by_vectors_alone_the_cosine_is_the_score() -> None:
    asked = Asked(lexical=False, weight=0.2, by_user=True, half_life_s=10.0)
    memory = Told(cosine=0.6, by_user=True, of_time=True, speech=ASKS, age_s=10, importance=1)
    (found,) = ranked(memory, asked=asked)
    assert found.score == pytest.approx(0.6 * 0.5 * RANKING.importance_factors[1])
    assert (found.date, found.speaker) == (0, 0)


def test_what_is_less_relevant_than_is_asked_for_is_left_out_unless_it_is_of_the_time() -> None:
    memories = [
        Told(1),
        Told(2, words={}, cosine=0.25),
        Told(3, words={}, cosine=-0.1),
        Told(4, words={}, of_time=True),
        Told(5, cosine=0.9),
    ]
    every = ranked(*memories, asked=BY_BOTH)
    assert {each.position for each in every} == {1, 2, 4, 5}
    for least in (0.0, 0.05, 0.3, 0.7, 1.0):
        found = ranked(*memories, asked=replace(BY_BOTH, min_relevance=least))
        kept = [each for each in every if each.date or each.relevance >= least]
        assert found == kept


def test_a_few_memories_are_no_measure_of_what_is_near() -> None:
    """The only one is nearer than usual, however near it is; of a thousand it may not be."""
    only = Told(words={}, cosine=0.29)
    alone = ranked(only, asked=BY_BOTH, size=1.0, seen=1, mean_cosine=0.29, deviation=0.0)
    assert alone[0].relevance > 0
    assert ranked(only, asked=BY_BOTH, mean_cosine=0.3)[0].relevance == 0


def test_of_equal_ones_the_users_own_come_first_then_the_latest_then_the_last() -> None:
    of_app = [Told(-5, age_s=1.0), Told(-4, age_s=0.0)]
    own = [Told(7, age_s=9.0), Told(3, age_s=5.0), Told(4, age_s=5.0), Told(1, age_s=2.0)]
    for order in (own + of_app, of_app[::-1] + own[::-1]):
        assert [each.position for each in ranked(*order)] == [1, 4, 3, 7, -4, -5]


shares = st.floats(0, 1)
told = st.builds(
    Told,
    length=st.integers(1, 200).map(float),
    speech=st.sampled_from([NOBODY_SAID, TELLS, ASKS, TELLS_NOTHING]),
    answers=st.booleans(),
    cosine=st.none() | st.floats(-1, 1),
    of_time=st.booleans(),
    by_user=st.booleans(),
    age_s=st.floats(0, 1e9),
    importance=shares,
    words=st.dictionaries(st.sampled_from(WORDS), st.floats(0.1, 20)),
)
scopes = st.lists(told, max_size=12).map(
    lambda found: [replace(each, position=place) for place, each in enumerate(found)]
)
questions = st.builds(
    Asked,
    lexical=st.booleans(),
    weight=shares,
    by_user=st.none() | st.booleans(),
    wordiness=st.floats(1, 3),
    half_life_s=st.none() | st.floats(1, 1e9),
    min_relevance=st.just(0.0) | shares,
)


@given(scopes, questions)
def test_scores_fall_and_stay_in_their_range_whatever_is_found(
    memories: list[Told], asked: Asked
) -> None:
    evidence = Evidence.of([row(memories)])
    found = evidence.ranked(asked)
    assert found == evidence.ranked(asked) == Evidence.of([row(memories)]).ranked(asked)
    assert found == Evidence.of([row(memories[::-1])]).ranked(asked)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert len({each.position for each in found}) == len(found)
    for each in found:
        assert 0 <= each.relevance <= 1
        assert 0 <= each.recency <= 1
        assert each.lexical >= 0
        assert math.isfinite(each.score)
        assert each.date or each.relevance >= asked.min_relevance
        assert all(idf > 0 for _, idf in evidence.matched(each.position))


@given(scopes, scopes, questions)
def test_two_scopes_that_are_asked_apart_rank_as_one(
    own: list[Told], of_app: list[Told], asked: Asked
) -> None:
    of_app = [replace(each, position=-1 - each.position) for each in of_app]
    asked = replace(asked, min_relevance=0.0)
    apart = Evidence.of([row(own), row(of_app)])
    together = Evidence.of([row([*own, *of_app])])
    assert apart.cosines == pytest.approx(together.cosines, abs=1e-7)
    assert apart.idfs == pytest.approx(together.idfs)
    assert (apart.size, apart.of_time) == (together.size, together.of_time)
    assert apart.mean_length == pytest.approx(together.mean_length)
    one = {each.position: each for each in apart.ranked(asked)}
    other = {each.position: each for each in together.ranked(asked)}
    for position in one.keys() & other.keys():
        assert one[position].lexical == pytest.approx(other[position].lexical)
        assert one[position].relevance == pytest.approx(other[position].relevance, abs=1e-6)
    # What is as near as is usual may be so by the last digit.
    for position in one.keys() ^ other.keys():
        assert (one | other)[position].relevance == pytest.approx(0, abs=1e-6)
