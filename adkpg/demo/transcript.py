"""Transcript: conversations with questions about them, in LoCoMo's format. Pure but for `read`.

A file is a list of conversations. ``conversation.session_N`` is a list of turns (``speaker``,
``dia_id``, ``text``), ``conversation.session_N_date_time`` its date; ``qa`` is a list of questions
(``question``, ``category``, ``evidence``: the ids of the turns that answer it). The format is
that of "Evaluating Very Long-Term Conversational Memory of LLM Agents", Maharana et al. 2024.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from adkpg.errors import InvalidInput

_DATE_FORMAT = "%I:%M %p on %d %B, %Y"
_SESSION = re.compile(r"session_(\d+)")
_FIRST_DATE = datetime(2000, 1, 1, tzinfo=UTC)
_BETWEEN_SESSIONS = timedelta(days=1)
_BETWEEN_TURNS = timedelta(seconds=1)


@dataclass(frozen=True)
class Turn:
    """A speaker's words at a time that no other turn of the session has."""

    turn_id: str
    speaker: str
    text: str
    moment: datetime


@dataclass(frozen=True)
class Chat:
    """One session of a conversation."""

    session_id: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Inquiry:
    """A question about a conversation.

    Attributes:
      text: The question.
      category: LoCoMo's number: 1 multi-hop, 2 temporal, 3 open domain, 4 single-hop,
        5 adversarial.
      evidence: Ids of turns of the conversation that answer it; empty if the file names none that
        it has.
    """

    text: str
    category: int
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Conversation:
    """Some sessions between two people, in order, and questions about them."""

    name: str
    chats: tuple[Chat, ...]
    inquiries: tuple[Inquiry, ...]


def read(path: Path) -> list[Conversation]:
    """Reads a file.

    Raises:
      InvalidInput: It cannot be read, or is not in the format; the message says where.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise InvalidInput(
            f"The transcript {path} cannot be read ({exc.strerror}); name a file."
        ) from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(
            f"The transcript {path} is not JSON ({exc}); name a file in LoCoMo's format."
        ) from exc
    return conversations(document)


def conversations(document: Any) -> list[Conversation]:
    """Reads a list of conversations as JSON has it.

    Turns are a second apart. A session without a date is a day after the one before it. Evidence
    that names several turns ("D8:6; D9:17") is taken apart; ids that no turn has are left
    out.

    Raises:
      InvalidInput: It is not in the format; the message says where.
    """
    if not isinstance(document, list) or not document:
        raise InvalidInput(
            "A transcript is a list of conversations; name a file in LoCoMo's format."
        )
    return [_conversation(number, entry) for number, entry in enumerate(document, 1)]


class _TurnEntry(BaseModel):
    dia_id: str
    speaker: str
    text: str = ""


class _InquiryEntry(BaseModel):
    question: str
    category: int = 0
    evidence: list[str] = Field(default_factory=list)


class _ConversationEntry(BaseModel):
    sample_id: str | None = None
    conversation: dict[str, Any]
    qa: list[_InquiryEntry] = Field(default_factory=list)


class _Turns(BaseModel):
    turns: list[_TurnEntry]


def _conversation(number: int, document: Any) -> Conversation:
    try:
        entry = _ConversationEntry.model_validate(document)
        chats = tuple(_chats(entry.conversation))
    except ValidationError as exc:
        place = ".".join(map(str, exc.errors()[0]["loc"]))
        raise InvalidInput(
            f"Conversation {number} is not in LoCoMo's format ({place}: {exc.errors()[0]['msg']}); "
            "correct it."
        ) from exc
    known = {turn.turn_id for chat in chats for turn in chat.turns}
    inquiries = tuple(
        Inquiry(question.question, question.category, _evidence(question.evidence, known))
        for question in entry.qa
    )
    return Conversation(entry.sample_id or f"conversation-{number}", chats, inquiries)


def _chats(conversation: dict[str, Any]) -> Iterator[Chat]:
    numbers = sorted(int(found[1]) for key in conversation if (found := _SESSION.fullmatch(key)))
    moment = _FIRST_DATE - _BETWEEN_SESSIONS
    for number in numbers:
        session_id = f"session_{number}"
        entries = _Turns.model_validate({"turns": conversation[session_id]}).turns
        moment = _moment(conversation, session_id) or moment + _BETWEEN_SESSIONS
        yield Chat(
            session_id,
            tuple(
                Turn(entry.dia_id, entry.speaker, entry.text, moment + place * _BETWEEN_TURNS)
                for place, entry in enumerate(entries)
            ),
        )


def _moment(conversation: dict[str, Any], session_id: str) -> datetime | None:
    """Returns a session's date, which names no zone, as UTC; None if it has none."""
    written = conversation.get(f"{session_id}_date_time")
    if not written:
        return None
    try:
        return datetime.strptime(str(written), _DATE_FORMAT).replace(tzinfo=UTC)
    except ValueError as exc:
        raise InvalidInput(
            f"The date {written!r} of {session_id} cannot be read; write it like "
            "'1:56 pm on 8 May, 2023'."
        ) from exc


def _evidence(written: list[str], known: set[str]) -> tuple[str, ...]:
    ids = [name for text in written for name in re.split(r"[;,\s]+", text)]
    return tuple(dict.fromkeys(name for name in ids if name in known))
