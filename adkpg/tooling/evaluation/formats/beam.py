"""BEAM: a chat in batches of turns, and probing questions by ability.

``chat.json`` is a list of batches (``batch_number``, ``time_anchor``, ``turns``: lists of messages
with ``id``, ``role``, ``content``). ``probing_questions.json`` is an object that has a list of
questions for each ability. ``source_chat_ids`` may be a list, a list of lists or an object of
lists.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel

from adkpg.errors import InvalidInput
from adkpg.tooling.evaluation.dataset import (
    BETWEEN_TURNS,
    FIRST_MOMENT,
    Chat,
    Collected,
    Question,
    Turn,
)
from adkpg.tooling.evaluation.formats import fields

ABILITIES = frozenset(
    {
        "abstention",
        "contradiction_resolution",
        "event_ordering",
        "information_extraction",
        "instruction_following",
        "knowledge_update",
        "multi_session_reasoning",
        "preference_following",
        "summarization",
        "temporal_reasoning",
    }
)
"""The names of the lists of questions."""

_ANSWERS = ("answer", "ideal_answer", "ideal_summary", "ideal_response", "expected_compliance")
_DATE_FORMATS = ("%B-%d-%Y", "%b-%d-%Y", "%B %d, %Y")


class _Message(BaseModel):
    id: int
    role: str
    content: str = ""
    time_anchor: str | None = None


class _Batch(BaseModel):
    batch_number: int
    time_anchor: str | None = None
    turns: list[list[_Message]]


def is_chat(value: object) -> bool:
    """Whether a JSON value is a chat."""
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return False
    return "batch_number" in value[0] or any(str(key).startswith("plan-") for key in value[0])


def are_questions(value: object) -> bool:
    """Whether a JSON value is the object of questions."""
    return isinstance(value, dict) and bool(ABILITIES & value.keys())


def load(name: str, chat: Any, questions: Any, found: Collected) -> None:
    """Reads one chat with its questions into a collection.

    A session is a batch. Messages are a second apart, from the last ``time_anchor`` on.

    Args:
      name: The store's.
      chat: What chat.json holds.
      questions: What probing_questions.json holds.
      found: Where to put them.

    Raises:
      InvalidInput: It is not in the format; the message says where.
    """
    chats = list(_chats(chat, name))
    asked: list[Question] = []
    if not isinstance(questions, dict):
        raise InvalidInput(
            f"The questions of chat {name} are not an object of abilities; correct it."
        )
    for ability, entries in questions.items():
        if not isinstance(entries, list):
            raise InvalidInput(f"{ability} of chat {name} is not a list of questions; correct it.")
        for number, entry in enumerate(entries, 1):
            if not isinstance(entry, Mapping) or not isinstance(entry.get("question"), str):
                raise InvalidInput(
                    f"Question {number} of {ability} in chat {name} has no text; correct it."
                )
            answer = next((entry[key] for key in _ANSWERS if entry.get(key)), None)
            question = Question(
                text=entry["question"],
                category=ability,
                evidence=tuple(_flat(entry.get("source_chat_ids"))),
                answer=fields.word(answer),
            )
            asked += found.question(chats, question, answerable=ability != "abstention")
    found.add(name, chats, asked)


def _chats(chat: list[Any], name: str) -> Iterator[Chat]:
    moment: datetime | None = None
    taken: set[str] = set()
    for place, value in enumerate(chat, 1):
        if isinstance(value, dict) and "batch_number" not in value and "turns" not in value:
            raise InvalidInput(
                f"Chat {name} is one of BEAM 10M's, where each plan numbers its messages anew and "
                "evidence cannot be told; name a chat of 100K, 500K or 1M."
            )
        batch = fields.read(_Batch, value, f"Batch {place} of chat {name} in BEAM's format")
        turns: list[Turn] = []
        anchor = batch.time_anchor
        for message in (message for group in batch.turns for message in group):
            anchor = message.time_anchor or anchor
            if anchor:
                what = f"message {message.id} in chat {name}"
                moment = fields.moment(anchor, _DATE_FORMATS, what, "March-15-2024")
                anchor = None
            elif moment is not None:
                moment += BETWEEN_TURNS
            else:
                moment = FIRST_MOMENT
            turns.append(Turn(str(message.id), message.role, message.content, moment))
        moment = moment + timedelta(minutes=1) if moment is not None else None
        session_id = f"batch-{batch.batch_number}"
        session_id = f"{session_id}-{place}" if session_id in taken else session_id
        taken.add(session_id)
        yield Chat(session_id, tuple(turns))


def _flat(value: object) -> Iterator[str]:
    """Yields the ids of a list, a list of lists or an object of lists."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _flat(each)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
