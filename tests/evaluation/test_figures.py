"""Figures, their intervals, and the file of vectors."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adkpg.errors import InvalidInput
from adkpg.tooling.evaluation import DataSet, Estimate, Evaluation, Question, Report, Store, parsed
from adkpg.tooling.evaluation.asking import Asked, Found, Recalled, outcome
from adkpg.tooling.evaluation.embedder import KeptVectors, MeasuredEmbedder
from adkpg.tooling.evaluation.evaluation import evaluation_of, losses
from adkpg.tooling.evaluation.figures import MEASURES, Outcome, difference, estimate
from adkpg.tooling.evaluation.tabulation import counted, sentences
from tests.fakes.toys import ToyEmbedder


def answer(*ranks: int | None, category: str = "", **fields: Any) -> Outcome:
    return Outcome(category, ranks, **fields)


def test_a_question_is_measured_by_the_places_of_its_evidence() -> None:
    measures = answer(2, 7, session_ranks=(2, 30), costs=(100,) * 10).measures()
    assert set(measures) == set(MEASURES)
    assert measures["recall@5"] == 0.5
    assert [measures[f"recall@{cutoff}"] for cutoff in (10, 20, 40)] == [1, 1, 1]
    assert (measures["any@5"], measures["complete@5"], measures["complete@10"]) == (1, 0, 1)
    assert (measures["session any@5"], measures["session complete@20"]) == (1, 0)
    assert measures["session complete@40"] == 1
    assert measures["MRR"] == 0.5
    assert measures["NDCG@10"] == pytest.approx((1 / 1.58496 + 1 / 3) / (1 + 1 / 1.58496), abs=1e-4)
    assert (measures["recall in 500 tokens"], measures["recall in 1000 tokens"]) == (0.5, 1)
    assert measures["tokens@10"] == 1000
    nothing = answer(None, None, session_ranks=(None,)).measures()
    assert set(nothing) == set(MEASURES)
    assert set(nothing.values()) == {0}
    assert answer(11).measures()["any@10"] == 0
    assert "session any@5" not in answer(1).measures(), "nobody knows the sessions"
    assert answer(1, 2, 3).measures()["NDCG@10"] == 1


def test_a_hit_that_does_not_fit_the_budget_makes_room_for_the_next() -> None:
    def recall(*costs: int) -> float:
        return answer(1, 3, costs=costs).measures()["recall in 500 tokens"]

    assert recall(600, 300, 200) == 0.5, "the first is skipped, the third fits"
    assert recall(500, 300, 200) == 0.5, "the first takes it all"
    assert recall(300, 600, 200) == 1
    cut = answer(1, 3, costs=(900, 300, 200), short_costs=(250, 300, 200))
    assert cut.measures()["recall in 500 tokens"] == 1, "the first as its passage"


def test_an_interval_holds_the_mean_and_repeats() -> None:
    values = [0.0, 1.0] * 50
    found = estimate(values, 500)
    assert found.mean == 0.5
    assert 0.35 < found.low < 0.5 < found.high < 0.65
    assert estimate(values, 500) == found
    assert estimate([0.25], 10) == Estimate(0.25, 0.25, 0.25)


def test_differences_are_paired() -> None:
    ours = [0.0, 0.5, 1.0]
    assert difference(ours, ours, 100) == Estimate(0, 0, 0)
    better = difference([value + 0.5 for value in ours], ours, 100)
    assert better == Estimate(0.5, 0.5, 0.5), "what the questions share cancels out"
    with pytest.raises(ValueError, match="argument"):
        difference([1.0], ours, 100)


def test_a_report_counts_what_nothing_answers_and_adds_the_embedding() -> None:
    outcomes = [
        answer(1, category="b", search_s=0.002, embedding_s=0.008, words_alone=True),
        answer(None, category="a", search_s=0.002, embedding_s=0.008, own_alone=True),
    ]
    report = Report.of(outcomes, foreign=[0, 0, 30], unanswerable=[], resamples=10)
    assert report.foreign is not None
    assert report.foreign.none == pytest.approx(2 / 3)
    assert (report.foreign.hits, report.foreign.hits_of_all) == (20 / 3, 10)
    assert report.unanswerable is None
    assert (report.questions, report.words_alone, report.own_alone) == (2, 1, 1)
    assert report.latency_ms == pytest.approx(
        {
            "search p50": 2,
            "search p95": 2,
            "with embedding p50": 10,
            "with embedding p95": 10,
        }
    )
    assert list(report.categories) == ["a", "b"]
    assert (report.categories["a"]["recall@10"], report.categories["b"]["MRR"]) == (0, 1)


def hit(text: str, *names: str) -> Found:
    return Found(frozenset(names), text, cost=1)


def test_evidence_is_found_by_id_session_and_text() -> None:
    recalled = Recalled(
        (hit("It rains.", "m9", "t9"), hit("I MOVED to\n Graz.", "m1", "t1"), hit("Rex", "t2")), 0.0
    )
    sessions = {"t1": "s1", "t9": "s2", "t2": "s1"}
    turns = Question("?", evidence=("t2", "t1", "t7"), sessions=("s1",))
    found = outcome(turns, recalled, sessions)
    assert (found.ranks, found.session_ranks) == ((3, 2, None), (2,))
    by_session = Question("?", evidence=("s1", "s2"), sessions=("s1", "s2"), level="session")
    assert outcome(by_session, recalled, sessions).ranks == (2, 1)
    texts = Question("?", evidence=("m9",), contains=("moved to  graz", "Vienna"))
    found = outcome(texts, recalled, {})
    assert (found.ranks, found.session_ranks) == ((1, 2, None), ())


def run(ranks: list[int | None], *, text: str = "?") -> Evaluation:
    questions = tuple(Question(f"{text}{n}", evidence=("t",)) for n, _ in enumerate(ranks))
    data = DataSet("questions", (Store("", (), questions),))
    asked = Asked(tuple(answer(rank) for rank in ranks), (), ())
    return evaluation_of(data, {"hybrid": asked}, resamples=100)


def test_a_run_is_compared_with_an_earlier_one() -> None:
    before, after = run([1] * 8), run([None] * 6 + [1, 1])
    since = after.since(before.document(), resamples=100)
    assert since["hybrid"]["recall@10"].mean == -0.75
    assert [sentence.split(" fell")[0] for sentence in losses(since)] == [
        "recall@10 of hybrid",
        "MRR of hybrid",
    ]
    assert losses(before.since(after.document(), resamples=100)) == [], "better is no loss"
    assert losses(run([1] * 7 + [None]).since(before.document(), resamples=100)) == [], (
        "nor is chance"
    )
    assert [miss.question for miss in after.misses] == [f"?{n}" for n in range(6)]


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({}, "cannot be compared"),
        ({"asked": run([1]).digest, "systems": {"hybrid": {}}}, "cannot be compared"),
        ({"asked": run([1]).digest, "systems": [1]}, "cannot be compared"),
        (run([1], text="!").document(), "other questions"),
        (run([1]).document() | {"systems": {"text": {}}}, "none of the ways hybrid"),
    ],
)
def test_what_is_no_earlier_run_is_a_sentence(kept: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        run([1]).since(kept)


async def test_vectors_are_kept_from_one_run_to_the_next(tmp_path: Path) -> None:
    path, toy = tmp_path / "vectors", ToyEmbedder()
    texts = ["one", "two", "one", "\udc80"]
    told: list[int] = []
    kept = KeptVectors(path, toy)
    made = await MeasuredEmbedder(toy, kept=kept, told=told.append).embed_documents(texts)
    kept.close()
    assert told == [4]
    with path.open("ab") as file:
        file.write(b"a run that was killed")
    again = KeptVectors(path, toy)
    assert again.get("three") is None

    class Refusing(ToyEmbedder):
        async def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise AssertionError(texts)

    found = await MeasuredEmbedder(Refusing(), kept=again).embed_documents(texts)
    assert [pytest.approx(vector, rel=1e-6) for vector in made] == found
    again.put("three", made[0])
    again.close()
    last = KeptVectors(path, toy)
    assert last.get("three") is not None
    last.close()
    path.write_text("notes of mine\n")
    with pytest.raises(InvalidInput, match="name another file"):
        KeptVectors(path, toy)
    assert path.read_text() == "notes of mine\n"
    with pytest.raises(InvalidInput, match="name a file"):
        KeptVectors(tmp_path, toy)


def test_one_and_several_are_worded_so() -> None:
    assert [counted(number, "turn") for number in (0, 1, 2)] == ["0 turns", "1 turn", "2 turns"]
    assert [counted(number, "search", "searches") for number in (1, 2)] == [
        "1 search",
        "2 searches",
    ]
    few = replace(
        parsed([{"q": "?", "contains": "a"}, {"q": "no evidence"}]), repeated=1, dropped=1
    )
    assert sentences(few) == [
        "questions: 1 question that something answers.",
        "1 question skipped: it names no evidence.",
        "1 name of evidence left out: no memory has that.",
        "1 turn left out: a later one of the session has that id.",
    ]
