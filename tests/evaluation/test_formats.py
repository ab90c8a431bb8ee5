"""Each format's loader on made-up files, and on malformed ones."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adkpg.errors import InvalidInput
from adkpg.tooling.evaluation import DataSet, Question, Turn, parsed, read, reading
from tests.fakes.checkout import CHECKOUT
from tests.fakes.data_sets import (
    BEAM_CHAT,
    BEAM_QUESTIONS,
    MSC,
    locomo,
    longmemeval,
    own,
)
from tests.fakes.pages import blocks


def questions(data: DataSet) -> list[Question]:
    return [question for store in data.stores for question in store.questions]


def test_locomos_sessions_come_in_order_with_their_moments() -> None:
    data = parsed(locomo())
    (store,) = data.stores
    assert (data.format, store.name, data.turns) == ("LoCoMo", "talk", 4)
    assert [chat.id for chat in store.chats] == ["session_1", "session_2", "session_10"]
    _, second, last = store.chats
    assert second.turns == (
        Turn("D2:1", "Ines", "Second.", datetime(2023, 5, 8, 13, 56, 0, tzinfo=UTC)),
        Turn("D2:2", "Omar", "Third.", datetime(2023, 5, 8, 13, 56, 1, tzinfo=UTC)),
    )
    assert last.turns[0].moment == datetime(2023, 5, 9, 13, 56, tzinfo=UTC), "a day after"


def test_sessions_without_any_date_are_a_day_apart() -> None:
    (store,) = parsed(locomo(session_2_date_time=None)).stores
    moments = [chat.turns[0].moment for chat in store.chats]
    assert [(moment - moments[0]).days for moment in moments] == [0, 1, 2]


@pytest.mark.parametrize(
    ("written", "resolved", "dropped"),
    [
        (["D1:1"], ("D1:1",), 0),
        (["D1:1; D2:2"], ("D1:1", "D2:2"), 0),
        (["D1:1 D2:2"], ("D1:1", "D2:2"), 0),
        (["D2:2", "D2:2, D1:1"], ("D2:2", "D1:1"), 0),
        (["D02:01"], ("D2:1",), 0),
        (["D", "D2:1"], ("D2:1",), 1),
        (["D:2:1", "D2:2", "D99:1"], ("D2:1", "D2:2"), 1),
    ],
)
def test_locomos_evidence_is_taken_apart(
    written: list[str], resolved: tuple[str, ...], dropped: int
) -> None:
    (entry,) = locomo()
    entry["qa"] = [{"question": "Who?", "evidence": written, "category": 5, "answer": 3}]
    data = parsed([entry])
    (question,) = questions(data)
    assert (question.text, question.category, question.answer) == ("Who?", "adversarial", "3")
    assert (question.evidence, data.dropped) == (resolved, dropped)


def test_questions_that_cannot_be_asked_are_counted_with_the_reason() -> None:
    (entry,) = locomo()
    entry["qa"] = [
        {"question": "Who?", "category": 1, "evidence": ["D", "D:1:9", "D99:1", ""]},
        {"question": "What?", "category": 1, "evidence": []},
        {"question": "When?", "category": 1},
        {"question": " ", "category": 1, "evidence": ["D1:1"]},
        {"question": "Why?", "category": 1, "evidence": ["D1:1"]},
    ]
    data = parsed([entry])
    assert (data.questions, data.unanswerable, data.dropped) == (1, 0, 3)
    assert data.skipped == {
        "its evidence names nothing that the conversation has": 1,
        "it names no evidence": 2,
        "it has no text": 1,
    }


def write_beam(folder: Path, questions: Any = BEAM_QUESTIONS, chat: Any = BEAM_CHAT) -> Path:
    (folder / "probing_questions").mkdir(parents=True)
    (folder / "chat.json").write_text(json.dumps(chat))
    (folder / "probing_questions" / "probing_questions.json").write_text(json.dumps(questions))
    return folder


@pytest.mark.parametrize("named", ["", "chat.json", "probing_questions/probing_questions.json"])
def test_beams_chat_is_found_by_folder_and_by_either_file(tmp_path: Path, named: str) -> None:
    data = read(write_beam(tmp_path / "7") / named)
    (store,) = data.stores
    assert (data.format, store.name) == ("BEAM", "7")
    assert [chat.id for chat in store.chats] == ["batch-1", "batch-2"]
    first, second = store.chats
    assert [turn.id for turn in first.turns] == ["0", "1", "2"]
    assert [turn.author for turn in first.turns] == ["user", "assistant", "user"]
    assert first.turns[0].moment == datetime(2024, 5, 2, tzinfo=UTC)
    assert first.turns[2].moment == datetime(2024, 5, 2, 0, 0, 2, tzinfo=UTC)
    assert second.turns[0].moment == datetime(2024, 6, 10, tzinfo=UTC)
    found = {question.category: question for question in store.questions}
    assert found["contradiction_resolution"].evidence == ("0", "3")
    assert found["contradiction_resolution"].sessions == ("batch-1", "batch-2")
    assert found["event_ordering"].evidence == ("0", "1", "3")
    assert found["knowledge_update"].evidence == ("0", "3")
    assert found["information_extraction"].answer == "81"
    assert found["summarization"].answer == "Ports."
    assert not found["abstention"].answerable
    assert (data.questions, data.unanswerable, data.dropped) == (5, 1, 1)
    assert data.skipped == {"it names no evidence": 1}


def test_a_folder_of_beams_chats_is_one_data_set(tmp_path: Path) -> None:
    for name in ("10", "2"):
        write_beam(tmp_path / name)
    chat = tmp_path / "2" / "chat.json"
    (tmp_path / "2" / "chat.json.gz").write_bytes(gzip.compress(chat.read_bytes()))
    chat.unlink()
    data = read(tmp_path)
    assert [store.name for store in data.stores] == ["2", "10"]


@pytest.mark.parametrize(
    ("chat", "asked", "said"),
    [
        ([{"plan-1": BEAM_CHAT}], BEAM_QUESTIONS, "10M"),
        ([{"batch_number": 1, "turns": [[{"role": "user"}]]}], BEAM_QUESTIONS, "id"),
        (BEAM_CHAT, {"abstention": "none"}, "list of questions"),
        (BEAM_CHAT, {"abstention": [{"answer": 1}]}, "no text"),
        (BEAM_CHAT, [1], "object of abilities"),
        ([BEAM_CHAT[1] | {"time_anchor": "soon"}], BEAM_QUESTIONS, "March-15-2024"),
        ([], BEAM_QUESTIONS, "not a chat"),
    ],
)
def test_a_malformed_chat_of_beams_is_a_sentence(
    tmp_path: Path, chat: Any, asked: Any, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        read(write_beam(tmp_path / "1", asked, chat))


def test_half_of_a_chat_is_a_sentence(tmp_path: Path) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(BEAM_CHAT))
    with pytest.raises(InvalidInput, match="half of a chat"):
        read(chat)
    with pytest.raises(InvalidInput, match="half of a chat"):
        read(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match=r"has no chat\.json"):
        read(tmp_path / "empty")


def test_longmemevals_turns_and_haystacks() -> None:
    without = [[{"role": "user", "content": "I climb."}], [{"role": "user", "content": "Bread."}]]
    data = parsed(
        [
            longmemeval(),
            longmemeval("q2_abs"),
            longmemeval("q3", haystack_sessions=without, answer=3),
            longmemeval("q4", haystack_session_ids=["same", "same"], answer_session_ids=["same"]),
            longmemeval("q5", haystack_sessions=without, answer_session_ids=["gone"]),
        ]
    )
    assert (data.format, len(data.stores)) == ("LongMemEval", 5)
    assert (data.questions, data.unanswerable) == (3, 1)
    assert data.skipped == {"its evidence names nothing that the conversation has": 1}
    first, _, third, fourth, _ = data.stores
    assert [chat.id for chat in first.chats] == ["noise_1", "answer_7"], "by their dates"
    assert first.chats[1].turns[0].id == "answer_7_1"
    (question,) = first.questions
    assert (question.evidence, question.sessions) == (("answer_7_1",), ("answer_7",))
    assert question.moment == datetime(2023, 6, 1, 10, tzinfo=UTC)
    assert (third.questions[0].level, third.questions[0].evidence) == ("session", ("answer_7",))
    assert third.questions[0].answer == "3"
    assert [chat.id for chat in fourth.chats] == ["same#2", "same"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"haystack_dates": ["2023/05/20 (Sat) 02:21"]}, "as many"),
        ({"haystack_dates": ["soon", "later"]}, r"2023/05/20 \(Sat\) 02:21"),
        ({"haystack_sessions": [{"role": "user"}]}, "haystack_sessions"),
        ({"question": None}, "question"),
    ],
)
def test_a_malformed_question_of_longmemevals_is_a_sentence(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        parsed([longmemeval(**changes)])


def test_mscs_answers_stand_for_evidence(tmp_path: Path) -> None:
    other = MSC | {"self_instruct": {"B": "What do I drive?", "A": "A tram."}}
    path = tmp_path / "msc.jsonl.gz"
    path.write_bytes(
        gzip.compress(
            "\n".join(map(json.dumps, [MSC, other, MSC | {"self_instruct": None}])).encode()
        )
    )
    data = read(path)
    assert data.format == "MSC"
    assert [store.name for store in data.stores] == ["x_1", "x_1-2", "x_1-3"]
    (question,) = data.stores[0].questions
    assert (question.text, question.evidence) == ("What do I keep?", ("1:1",))
    assert data.skipped == {
        "no turn contains its answer": 1,
        "the dialogue has no question": 1,
    }
    assert "no evidence" in data.note


def test_a_file_of_ones_own() -> None:
    sessions = own(
        id=None,
        level="session",
        questions=[{"question": "Where?", "evidence": ["s2", "s9"], "asked": "2024-06-01"}],
    )
    data = parsed([own(), sessions])
    assert (data.format, data.questions, data.unanswerable, data.dropped) == ("own", 2, 1, 1)
    first, second = data.stores
    assert (first.name, second.name) == ("ann", "store-2")
    assert first.chats[0].turns[0].moment == datetime(2024, 5, 2, 9, tzinfo=UTC)
    assert first.chats[0].turns[1].moment == datetime(2024, 5, 2, 0, 0, 1, tzinfo=UTC)
    assert first.chats[1].turns[0].moment == datetime(2024, 5, 3, tzinfo=UTC), "a day after"
    assert first.chats[1].turns[0].id == "turn-3"
    asked, unanswerable = first.questions
    assert (asked.evidence, asked.sessions, asked.answer) == (("t1",), ("s1",), "Graz")
    assert not unanswerable.answerable
    (question,) = second.questions
    assert (question.level, question.evidence, question.sessions) == ("session", ("s2",), ("s2",))
    assert question.moment == datetime(2024, 6, 1, tzinfo=UTC)


def test_ids_that_several_turns_have() -> None:
    turns = [{"id": "t", "text": "One."}, {"id": "u", "text": "Two."}, {"id": "t", "text": "3."}]
    sessions = [{"id": "s1", "turns": turns}, {"id": "s2", "turns": turns[:1]}]
    data = parsed(own(sessions=sessions, questions=[{"q": "Which?", "evidence": ["t"]}]))
    assert (data.repeated, data.turns) == (1, 3)
    assert [turn.text for turn in data.stores[0].chats[0].turns] == ["3.", "Two."]
    (question,) = questions(data)
    assert question.sessions == ("s1", "s2"), "either is what evidence names"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"level": "word"}, "level"),
        ({"sessions": {}}, "sessions"),
        ({"sessions": [{"turns": [{"text": 3}]}]}, "text"),
        ({"sessions": [{"turns": [{"text": "a", "ts": 1e18}]}]}, "Unix time"),
        ({"sessions": [{"date": "soon", "turns": [{"text": "a"}]}]}, "2024-05-02"),
        ({"sessions": [{"id": "s", "turns": []}, {"id": "s", "turns": []}]}, "twice"),
        ({"questions": [{"evidence": []}]}, "Field required"),
    ],
)
def test_a_malformed_file_of_ones_own_is_a_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parsed([own(**changes)])


def test_questions_alone() -> None:
    data = parsed(
        [
            {"q": "Where?", "evidence": ["m1", 2], "contains": ["Graz", " "], "user": "ann"},
            {"question": "Who?", "contains": "Rex"},
            {"q": "Which dentist?", "evidence": []},
            {"q": "Whose?"},
            {"q": ""},
        ]
    )
    assert (data.format, data.questions, data.unanswerable) == ("questions", 2, 1)
    where, who, dentist = questions(data)
    assert (where.evidence, where.contains, where.user_id) == (("m1", "2"), ("Graz",), "ann")
    assert (who.contains, who.user_id) == (("Rex",), None)
    assert not dentist.answerable
    assert data.skipped == {"it names no evidence": 1, "it has no text": 1}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "not a data set"),
        ([], "not a data set"),
        ([1], "not a data set"),
        ("text", "not a data set"),
        ([{"qa": []}], "not a data set"),
        ([{"conversation": {}, "qa": [{}]}], "question"),
        ([{"conversation": []}], "conversation"),
        (locomo(session_1=[{"text": "nobody"}]), "dia_id"),
        (locomo(session_1="nothing"), "turns"),
        (locomo(session_2_date_time="yesterday"), "yesterday"),
    ],
)
def test_another_format_is_refused_in_a_sentence(value: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parsed(value)


@pytest.mark.parametrize(
    "content",
    [
        b"[",
        b"[" * 100_000,
        b'{"a": 1}\n{"b": ',
        b"\x1f\x8b not gzip",
        gzip.compress(b"[" * 100, mtime=0)[:-9],
        b"",
    ],
)
def test_a_broken_file_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "talks.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"talks\.json (is not JSON|cannot be decompressed)"):
        read(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32-be", "latin-1"])
def test_a_file_in_another_encoding_is_told_apart(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "talks.json"
    asked = json.dumps([{"q": "Où est Zoë?", "contains": "café"}], ensure_ascii=False)
    path.write_bytes(asked.encode(encoding))
    with pytest.raises(
        InvalidInput, match=r"talks\.json is not text in UTF-8 .*; save it as UTF-8\."
    ):
        read(path)
    path.write_bytes('[{"q": "Where?", "contains": "here"}]'.encode(encoding))
    if encoding == "latin-1":
        assert read(path).questions == 1, "ASCII is in both"
    else:
        with pytest.raises(InvalidInput, match="save it as UTF-8"):
            read(path)


def test_a_file_is_read_with_a_mark_of_its_bytes_compressed_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.json cannot be read"):
        read(tmp_path / "none.json")
    path = tmp_path / "talks.json"
    path.write_text("\ufeff" + json.dumps(locomo()), encoding="utf-8")
    assert read(path).format == "LoCoMo"
    path.write_bytes(gzip.compress(json.dumps(own()).encode()))
    assert read(path).format == "own", "one entry needs no list, and no name ends in .gz"


def test_a_small_file_does_not_unpack_to_a_large_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_UNPACKED", 1_000_000)
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(b" " * 2_000_000))
    with pytest.raises(InvalidInput, match="unpacks to more than"):
        read(path)


def test_what_the_page_shows_is_read_whole() -> None:
    page = CHECKOUT / "docs" / "evaluation.md"
    about_memory, data_set = (parsed(json.loads(b.text)) for b in blocks(page, "json"))
    assert [question.text for question in questions(about_memory)] == [
        "Where does she live?",
        "What does she eat?",
        "Who is her dentist?",
    ]
    (asked,) = questions(data_set)
    assert (asked.text, asked.evidence, data_set.turns) == ("Where does she live?", ("t1",), 1)
    assert not {**about_memory.skipped, **data_set.skipped}
