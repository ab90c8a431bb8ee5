"""Multi-Session Chat with a question each, as the DMR task has it. It names no evidence.

``previous_dialogs`` is a list of dialogues, ``dialog`` the last one, ``self_instruct.B`` the
question and ``self_instruct.A`` its answer. The turns that contain the answer stand for the
evidence.
"""

import string
from typing import Any

from pydantic import BaseModel, Field

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
from adkpg.tooling.evaluation.texts import contains

_NOWHERE = "no turn contains its answer"
_NO_QUESTION = "the dialogue has no question"
NOTE = "The file names no evidence; the turns that contain the answer's words are taken for it."


class _Said(BaseModel):
    text: str = ""
    id: str | None = None


class _Dialog(BaseModel):
    dialog: list[_Said] = Field(default_factory=list)


class _Metadata(BaseModel):
    initial_data_id: str | None = None


class _Entry(BaseModel):
    previous_dialogs: list[_Dialog]
    dialog: list[_Said] = Field(default_factory=list)
    self_instruct: dict[str, Any] | None = None
    metadata: _Metadata | None = None


def matches(entry: object) -> bool:
    """Whether an entry of a list is of this format."""
    return isinstance(entry, dict) and "previous_dialogs" in entry


def load(entries: list[Any]) -> DataSet:
    """Reads a list of dialogues.

    Raises:
      InvalidInput: It is not in the format; the message says where.
    """
    found = Collected("MSC")
    for number, value in enumerate(entries, 1):
        entry = fields.read(_Entry, value, f"Line {number} in MSC's format")
        dialogs = [*(each.dialog for each in entry.previous_dialogs), entry.dialog]
        chats = [
            Chat(
                f"session_{place}",
                tuple(
                    Turn(
                        f"{place}:{at}",
                        said.id or f"Speaker {2 - at % 2}",
                        said.text,
                        FIRST_MOMENT + place * BETWEEN_SESSIONS + at * BETWEEN_TURNS,
                    )
                    for at, said in enumerate(dialog, 1)
                ),
            )
            for place, dialog in enumerate(dialogs, 1)
            if dialog
        ]
        name = (entry.metadata and entry.metadata.initial_data_id) or f"line-{number}"
        questions = list(_asked(entry, chats, found))
        found.add(name, chats, questions)
    return found.dataset(NOTE)


def _asked(entry: _Entry, chats: list[Chat], found: Collected) -> list[Question]:
    asked = entry.self_instruct or {}
    text, answer = asked.get("B"), fields.word(asked.get("A"))
    if not isinstance(text, str) or not answer:
        found.skip(_NO_QUESTION)
        return []
    wanted = answer.rstrip(f".!?{string.whitespace}")
    evidence = tuple(
        turn.id for chat in chats for turn in chat.turns if contains(turn.text, wanted)
    )
    if not evidence:
        found.skip(_NOWHERE)
        return []
    return list(found.question(chats, Question(text=text, evidence=evidence, answer=answer)))
