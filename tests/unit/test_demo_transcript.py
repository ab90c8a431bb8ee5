"""LoCoMo's format, read; and the figures of recall."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adkpg.demo import transcript
from adkpg.demo.figures import Answer, Figures, by_category
from adkpg.demo.transcript import Turn
from adkpg.errors import InvalidInput


def turn(turn_id: str, text: str, speaker: str = "Ines") -> dict[str, Any]:
    return {"dia_id": turn_id, "text": text, "speaker": speaker, "img_url": ["ignored"]}


def document(**changes: Any) -> list[dict[str, Any]]:
    conversation = {
        "speaker_a": "Ines",
        "session_10": [turn("D10:1", "Later.")],
        "session_2": [turn("D2:1", "Second."), turn("D2:2", "Third.", "Omar")],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_3_date_time": "a date without turns",
        "session_1": [turn("D1:1", "First.")],
    }
    return [{"sample_id": "talk", "conversation": conversation | changes, "qa": []}]


def test_sessions_come_in_order_with_their_moments() -> None:
    (conversation,) = transcript.conversations(document())
    assert conversation.name == "talk"
    assert [chat.session_id for chat in conversation.chats] == [
        "session_1",
        "session_2",
        "session_10",
    ]
    _, second, last = conversation.chats
    assert second.turns == (
        Turn("D2:1", "Ines", "Second.", datetime(2023, 5, 8, 13, 56, 0, tzinfo=UTC)),
        Turn("D2:2", "Omar", "Third.", datetime(2023, 5, 8, 13, 56, 1, tzinfo=UTC)),
    )
    assert last.turns[0].moment == datetime(2023, 5, 9, 13, 56, tzinfo=UTC), "a day after"


def test_sessions_without_any_date_are_a_day_apart() -> None:
    (conversation,) = transcript.conversations(document(session_2_date_time=None))
    moments = [chat.turns[0].moment for chat in conversation.chats]
    assert [(moment - moments[0]).days for moment in moments] == [0, 1, 2]


@pytest.mark.parametrize(
    ("written", "resolved"),
    [
        (["D1:1"], ("D1:1",)),
        (["D1:1; D2:2"], ("D1:1", "D2:2")),
        (["D2:2", "D2:2, D1:1"], ("D2:2", "D1:1")),
        (["D", "D:1:1", "D99:1", ""], ()),
        (["D", "D2:1"], ("D2:1",)),
        ([], ()),
    ],
)
def test_evidence_that_does_not_resolve_is_left_out(
    written: list[str], resolved: tuple[str, ...]
) -> None:
    (entry,) = document()
    entry["qa"] = [{"question": "Who?", "evidence": written, "category": 5, "answer": None}]
    (conversation,) = transcript.conversations([entry])
    (inquiry,) = conversation.inquiries
    assert (inquiry.text, inquiry.category, inquiry.evidence) == ("Who?", 5, resolved)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({}, "list of conversations"),
        ([], "list of conversations"),
        ([{"qa": []}], "conversation"),
        (document(session_1=[{"text": "nobody"}]), "dia_id"),
        (document(session_1="nothing"), "turns"),
        (document(session_2_date_time="yesterday"), "yesterday"),
    ],
)
def test_another_format_is_refused_in_a_sentence(entries: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        transcript.conversations(entries)


def test_a_file_is_read_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "talks.json"
    with pytest.raises(InvalidInput, match=r"talks\.json cannot be read"):
        transcript.read(file)
    file.write_text("[")
    with pytest.raises(InvalidInput, match="not JSON"):
        transcript.read(file)
    file.write_text("[" * 100_000)
    with pytest.raises(InvalidInput, match="not JSON"):
        transcript.read(file)
    file.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InvalidInput, match="not JSON"):
        transcript.read(file)
    file.write_text(json.dumps(document()))
    assert len(transcript.read(file)) == 1


def test_figures() -> None:
    answers = [
        Answer(category=4, evidence=1, ranks=(1,), latency_s=0.001),
        Answer(category=4, evidence=2, ranks=(6, 20), latency_s=0.002),
        Answer(category=1, evidence=4, ranks=(), latency_s=0.009),
    ]
    total = Figures.of(answers)
    assert total.questions == 3
    assert total.recall == pytest.approx({5: 1 / 3, 10: 1.5 / 3, 20: 2 / 3})
    assert total.hit == pytest.approx(2 / 3)
    assert total.mrr == pytest.approx((1 + 1 / 6) / 3)
    assert total.p50_ms == pytest.approx(2)
    parts = by_category(answers)
    assert list(parts) == [1, 4]
    assert parts[1].mrr == 0
    assert parts[4].recall[20] == 1


def test_no_answers_have_figures() -> None:
    assert Figures.of([]) == Figures(0, {5: 0.0, 10: 0.0, 20: 0.0}, 0.0, 0.0, 0.0)
    assert by_category([]) == {}
