"""LongMemEval: a list of questions, each with a haystack of sessions of its own.

``haystack_session_ids``, ``haystack_dates`` and ``haystack_sessions`` run parallel. Turns with
``has_answer`` are the evidence; where none has it, the sessions of ``answer_session_ids`` are.
"""

from typing import Any

from pydantic import BaseModel, Field

from adkpg.errors import InvalidInput
from adkpg.tooling.evaluation.dataset import (
    BETWEEN_SESSIONS,
    BETWEEN_TURNS,
    FIRST_MOMENT,
    Chat,
    Collected,
    DataSet,
    Question,
    Turn,
)
from adkpg.tooling.evaluation.formats import fields

_DATE_FORMATS = ("%Y/%m/%d (%a) %H:%M", "%Y/%m/%d %H:%M", "%Y/%m/%d")
_EXAMPLE = "2023/05/20 (Sat) 02:21"


class _Turn(BaseModel):
    role: str
    content: str = ""
    has_answer: bool | None = None


class _Question(BaseModel):
    question_id: str
    question: str
    question_type: str = ""
    answer: Any = None
    question_date: str | None = None
    haystack_session_ids: list[str] | None = None
    haystack_dates: list[str] = Field(default_factory=list)
    haystack_sessions: list[list[_Turn]]
    answer_session_ids: list[str] = Field(default_factory=list)


def matches(entry: object) -> bool:
    """Whether an entry of a list is of this format."""
    return isinstance(entry, dict) and "haystack_sessions" in entry


def load(entries: list[Any]) -> DataSet:
    """Reads a list of questions; each has a store of its own.

    Sessions are put in the order of their dates. A turn's id is its session's, ``_`` and its place
    from 1. A session that a haystack has twice gets a number.

    Raises:
      InvalidInput: It is not in the format; the message says where.
    """
    found = Collected("LongMemEval")
    for number, value in enumerate(entries, 1):
        entry = fields.read(_Question, value, f"Question {number} in LongMemEval's format")
        chats, evidence = _haystack(entry)
        question = Question(
            text=entry.question,
            category=entry.question_type,
            evidence=evidence or tuple(entry.answer_session_ids),
            level="turn" if evidence else "session",
            answer=fields.word(entry.answer),
            moment=_moment(entry.question_date, entry.question_id),
        )
        answerable = not entry.question_id.endswith("_abs")
        asked = list(found.question(chats, question, answerable=answerable))
        found.add(entry.question_id, chats, asked)
    return found.dataset()


def _haystack(entry: _Question) -> tuple[list[Chat], tuple[str, ...]]:
    count = len(entry.haystack_sessions)
    ids = entry.haystack_session_ids or [f"session_{place}" for place in range(1, count + 1)]
    dates = entry.haystack_dates
    if len(ids) != count or (dates and len(dates) != count):
        raise InvalidInput(
            f"Question {entry.question_id} has {count} haystack_sessions, {len(ids)} "
            f"haystack_session_ids and {len(dates)} haystack_dates; make them as many."
        )
    chats: list[Chat] = []
    evidence: list[str] = []
    seen: dict[str, int] = {}
    for place, (name, turns) in enumerate(zip(ids, entry.haystack_sessions, strict=True)):
        seen[name] = seen.get(name, 0) + 1
        unique = name if seen[name] == 1 else f"{name}#{seen[name]}"
        moment = _moment(dates[place], unique) if dates else None
        moment = moment or FIRST_MOMENT + place * BETWEEN_SESSIONS
        chats.append(
            Chat(
                unique,
                tuple(
                    Turn(f"{unique}_{at}", turn.role, turn.content, moment + at * BETWEEN_TURNS)
                    for at, turn in enumerate(turns, 1)
                ),
            )
        )
        evidence += [f"{unique}_{at}" for at, turn in enumerate(turns, 1) if turn.has_answer]
    if dates:
        chats.sort(key=lambda chat: chat.turns[0].moment if chat.turns else FIRST_MOMENT)
    return chats, tuple(evidence)


def _moment(written: str | None, what: str) -> Any:
    return fields.moment(written, _DATE_FORMATS, what, _EXAMPLE) if written else None
