"""A format of one's own: conversations with questions, as simple as it goes.

::

    [{"id": "ann", "level": "turn",
      "sessions": [{"id": "s1", "date": "2024-05-02",
                    "turns": [{"id": "t1", "author": "user", "text": "I moved to Graz."}]}],
      "questions": [{"q": "Where does she live?", "evidence": ["t1"], "category": "fact"}]}]

``level`` says whether evidence names turns or sessions. ``ts`` of a turn (Unix seconds), ``date``
of a session, ``asked``, ``answer`` and ``category`` of a question are optional. A question whose
evidence is ``[]`` is one that nothing answers.
"""

from datetime import UTC, datetime
from typing import Any

from pydantic import AliasChoices, BaseModel, Field

from adkpg.errors import InvalidInput
from adkpg.tooling.evaluation.dataset import (
    BETWEEN_SESSIONS,
    BETWEEN_TURNS,
    FIRST_MOMENT,
    Chat,
    Collected,
    DataSet,
    Level,
    Question,
    Turn,
)
from adkpg.tooling.evaluation.formats import fields

Name = str | int


class _Turn(BaseModel):
    id: Name | None = None
    author: str = "user"
    text: str
    ts: float | None = None


class _Session(BaseModel):
    id: Name | None = None
    date: str | None = None
    turns: list[_Turn]


class _Question(BaseModel):
    q: str = Field(validation_alias=AliasChoices("q", "question"))
    evidence: list[Name] | None = None
    category: str | int | None = None
    answer: Any = None
    asked: float | str | None = None


class _Entry(BaseModel):
    id: Name | None = None
    level: Level = "turn"
    sessions: list[_Session]
    questions: list[_Question]


def matches(entry: object) -> bool:
    """Whether an entry of a list is of this format."""
    return isinstance(entry, dict) and "sessions" in entry and "questions" in entry


def load(entries: list[Any]) -> DataSet:
    """Reads a list of stores.

    Raises:
      InvalidInput: It is not in the format; the message says where.
    """
    found = Collected("own")
    for number, value in enumerate(entries, 1):
        entry = fields.read(_Entry, value, f"Entry {number}")
        name = str(entry.id) if entry.id is not None else f"store-{number}"
        chats = _chats(entry, name)
        questions = [
            asked
            for question in entry.questions
            for asked in found.question(
                chats,
                Question(
                    text=question.q,
                    category="" if question.category is None else str(question.category),
                    evidence=tuple(map(str, question.evidence or ())),
                    level=entry.level,
                    answer=fields.word(question.answer),
                    moment=asked_at(question.asked, name),
                ),
                answerable=question.evidence != [],
            )
        ]
        found.add(name, chats, questions)
    return found.dataset()


def asked_at(asked: float | str | None, what: str) -> datetime | None:
    """Reads when a question was asked: Unix seconds, or a date."""
    if asked is None or asked == "":
        return None
    if isinstance(asked, str):
        return fields.moment(asked, (), f"a question of {what}", "2024-05-02T10:00:00+00:00")
    return _unix(asked, f"a question of {what}")


def _chats(entry: _Entry, name: str) -> list[Chat]:
    chats: list[Chat] = []
    before = FIRST_MOMENT - BETWEEN_SESSIONS
    number = 0
    for place, session in enumerate(entry.sessions, 1):
        session_id = str(session.id) if session.id is not None else f"session-{place}"
        if session.date:
            what = f"session {session_id} of {name}"
            before = fields.moment(session.date, (), what, "2024-05-02")
        else:
            before += BETWEEN_SESSIONS
        turns = []
        for at, turn in enumerate(session.turns):
            number += 1
            turn_id = str(turn.id) if turn.id is not None else f"turn-{number}"
            moment = (
                before + at * BETWEEN_TURNS
                if turn.ts is None
                else _unix(turn.ts, f"turn {turn_id} of {name}")
            )
            turns.append(Turn(turn_id, turn.author, turn.text, moment))
        chats.append(Chat(session_id, tuple(turns)))
    return chats


def _unix(seconds: float, what: str) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as exc:
        raise InvalidInput(
            f"The time {seconds!r} of {what} is not a Unix time; give seconds since 1970."
        ) from exc
