"""LoCoMo: a list of conversations with questions.

``conversation.session_N`` is a list of turns (``speaker``, ``dia_id``, ``text``),
``conversation.session_N_date_time`` its date; ``qa`` is a list of questions (``question``,
``category``, ``evidence``: the ids of the turns that answer it). The format is that of "Evaluating
Very Long-Term Conversational Memory of LLM Agents", Maharana et al. 2024.
"""

import re
from collections.abc import Iterator
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

_DATE_FORMATS = ("%I:%M %p on %d %B, %Y",)
_SESSION = re.compile(r"session_(\d{1,9})")
_TURN = re.compile(r"D?:?(\d++):(\d++)", re.IGNORECASE)

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single-hop", 5: "adversarial"}
"""The names of the numbers."""


class _Turn(BaseModel):
    dia_id: str
    speaker: str
    text: str = ""


class _Turns(BaseModel):
    turns: list[_Turn]


class _Question(BaseModel):
    question: str
    category: int | str = 0
    evidence: list[str] | str | None = Field(default_factory=list)
    answer: Any = None


class _Conversation(BaseModel):
    sample_id: str | None = None
    conversation: dict[str, Any]
    qa: list[_Question] = Field(default_factory=list)


def matches(entry: object) -> bool:
    """Whether an entry of a list is of this format."""
    return isinstance(entry, dict) and "conversation" in entry


def load(entries: list[Any]) -> DataSet:
    """Reads a list of conversations.

    Turns are a second apart. A session without a date is a day after the one before it. Evidence
    that names several turns ("D8:6; D9:17") is taken apart, "D30:05" is D30:5 and "D:11:26" is
    D11:26; ids that no turn has are left out.

    Raises:
      InvalidInput: It is not in the format; the message says where.
    """
    found = Collected("LoCoMo")
    for number, value in enumerate(entries, 1):
        entry = fields.read(_Conversation, value, f"Conversation {number} in LoCoMo's format")
        chats = list(_chats(entry.conversation, number))
        questions = [
            asked
            for question in entry.qa
            for asked in found.question(
                chats,
                Question(
                    text=question.question,
                    category=_category(question.category),
                    evidence=_evidence(question.evidence),
                    answer=fields.word(question.answer),
                ),
            )
        ]
        found.add(entry.sample_id or f"conversation-{number}", chats, questions)
    return found.dataset()


def _category(written: int | str) -> str:
    try:
        return CATEGORIES.get(int(written), str(written))
    except ValueError:
        return str(written)


def _chats(conversation: dict[str, Any], place: int) -> Iterator[Chat]:
    numbers = sorted(int(found[1]) for key in conversation if (found := _SESSION.fullmatch(key)))
    moment = FIRST_MOMENT - BETWEEN_SESSIONS
    for number in numbers:
        name = f"session_{number}"
        what = f"Conversation {place}, {name}, in LoCoMo's format"
        entries = fields.read(_Turns, {"turns": conversation[name]}, what).turns
        written = conversation.get(f"{name}_date_time")
        try:
            moment = (
                fields.moment(str(written), _DATE_FORMATS, name, "1:56 pm on 8 May, 2023")
                if written
                else moment + BETWEEN_SESSIONS
            )
        except OverflowError as exc:
            raise InvalidInput(f"The date of {name} is beyond the calendar; correct it.") from exc
        yield Chat(
            name,
            tuple(
                Turn(
                    _normalised(entry.dia_id),
                    entry.speaker,
                    entry.text,
                    moment + place * BETWEEN_TURNS,
                )
                for place, entry in enumerate(entries)
            ),
        )


def _evidence(written: list[str] | str | None) -> tuple[str, ...]:
    texts = [written] if isinstance(written, str) else written or []
    names = [name for text in texts for name in re.split(r"[;,\s]+", text)]
    return tuple(dict.fromkeys(_normalised(name) for name in names if name))


def _normalised(name: str) -> str:
    """Returns an id without leading zeros; D1:1 for 1:1 and D:1:1."""
    found = _TURN.fullmatch(name.strip())
    if found is None:
        return name
    session, turn = (number.lstrip("0") or "0" for number in found.groups())
    return f"D{session}:{turn}"
