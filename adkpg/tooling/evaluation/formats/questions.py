"""Questions alone, about what is stored already: a team's own, with the memories they expect.

::

    [{"q": "Where does she live?", "evidence": ["turn-17"], "category": "fact"},
     {"q": "What does she eat?", "contains": ["vegetarian"], "user": "ana"},
     {"q": "Who is her dentist?", "evidence": []}]

``evidence`` are ids of memories or of the events that they are of, ``contains`` texts that a memory
must contain. A question with ``[]`` is one that nothing answers.
"""

from typing import Any

from pydantic import AliasChoices, BaseModel, Field

from adkpg.tooling.evaluation.dataset import NO_EVIDENCE, NO_TEXT, Collected, DataSet, Question
from adkpg.tooling.evaluation.formats import fields
from adkpg.tooling.evaluation.formats.own import asked_at


class _Question(BaseModel):
    q: str = Field(validation_alias=AliasChoices("q", "question"))
    evidence: list[str | int] | None = None
    contains: list[str] | str | None = None
    category: str | int | None = None
    answer: Any = None
    user: str | None = Field(default=None, validation_alias=AliasChoices("user", "user_id"))
    asked: float | str | None = None


def matches(entry: object) -> bool:
    """Whether an entry of a list is of this format."""
    return isinstance(entry, dict) and bool({"q", "question"} & entry.keys())


def load(entries: list[Any]) -> DataSet:
    """Reads a list of questions, as one store without conversations.

    Raises:
      InvalidInput: It is not in the format; the message says where.
    """
    found = Collected("questions")
    asked: list[Question] = []
    for number, value in enumerate(entries, 1):
        entry = fields.read(_Question, value, f"Question {number}")
        texts = [entry.contains] if isinstance(entry.contains, str) else entry.contains or []
        texts = [text for text in texts if text.strip()]
        if not entry.q.strip():
            found.skip(NO_TEXT)
            continue
        if entry.evidence is None and not texts and entry.contains != []:
            found.skip(NO_EVIDENCE)
            continue
        asked.append(
            Question(
                text=entry.q.strip(),
                category="" if entry.category is None else str(entry.category),
                evidence=tuple(dict.fromkeys(map(str, entry.evidence or ()))),
                contains=tuple(dict.fromkeys(texts)),
                answer=fields.word(entry.answer),
                moment=asked_at(entry.asked, f"question {number}"),
                user_id=entry.user,
            )
        )
    found.add("", (), asked)
    return found.dataset()
