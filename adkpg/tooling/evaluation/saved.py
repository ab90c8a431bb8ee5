"""Saved: a team's own questions about a person's memories, kept in the database."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from adkpg import jsontext
from adkpg.database import Database
from adkpg.errors import InvalidInput
from adkpg.keys import require_storable, scope_user, storable
from adkpg.limits import require_size
from adkpg.telemetry.calls import on, traced
from adkpg.tooling.evaluation import saved_statements as statements


@dataclass(frozen=True)
class SavedQuestion:
    """One question, and what answers it.

    Attributes:
      id: Its own.
      text: The question.
      evidence: Ids of the memories that answer it, or of the events that they are of; none if
        nothing does.
      created_at: When it was saved.
    """

    id: str
    text: str
    evidence: tuple[str, ...]
    created_at: datetime

    def document(self) -> dict[str, Any]:
        """Returns it as ``adkpg memory evaluate`` and `adkpg.tooling.evaluation.parsed` read it."""
        return {"q": self.text, "evidence": list(self.evidence)}


@traced(
    add=on("saved_questions"),
    delete=on("saved_questions"),
    list=on("saved_questions"),
)
class SavedQuestions:
    """The questions that a team measures recall by; a person's go when they are forgotten.

    Args:
      database: Where the memories are, too.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def __repr__(self) -> str:
        return f"SavedQuestions({self._database!r})"

    async def add(
        self, *, app_name: str, user_id: str | None, text: str, evidence: Sequence[str]
    ) -> str:
        """Saves a question.

        Args:
          app_name: The app.
          user_id: Whose memories it is about; None are the app's own.
          text: The question.
          evidence: Ids of the memories that answer it; none if nothing does.

        Returns:
          Its id.

        Raises:
          InvalidInput: It has no text, or a value cannot be stored; nothing was written.
        """
        require_storable(app_name=app_name, user_id=user_id)
        if isinstance(evidence, str) or not isinstance(evidence, Sequence):
            raise InvalidInput(f"evidence={evidence!r} is not a list of ids; give one.")
        require_size(self._database.settings, "max_query_kb", "The question", text, *evidence)
        if not text.strip():
            raise InvalidInput("The question has no text; write one.")
        require_storable(**{f"evidence {n}": each for n, each in enumerate(evidence, 1)})
        question_id = str(uuid4())
        await self._database.run.fetch(
            statements.insert_question(
                app_name=app_name,
                user_id=scope_user(user_id),
                question_id=question_id,
                question=jsontext.storable(text.strip()),
                evidence=json.dumps(list(dict.fromkeys(evidence))),
            )
        )
        return question_id

    async def list(self, *, app_name: str, user_id: str | None) -> list[SavedQuestion]:
        """Returns a scope's questions, the oldest first; at most ``ADKPG_MAX_RESULTS``."""
        if not storable(app_name=app_name, user_id=user_id):
            return []
        rows = await self._database.run.fetch(
            statements.select_questions(
                app_name=app_name,
                user_id=scope_user(user_id),
                limit=self._database.settings.max_results,
            )
        )
        return [
            SavedQuestion(
                row["question_id"],
                row["question"],
                tuple(json.loads(row["evidence"])),
                row["created_at"],
            )
            for row in rows
        ]

    async def delete(self, *, app_name: str, user_id: str | None, question_id: str) -> None:
        """Deletes a question; an unknown one does nothing."""
        try:
            UUID(question_id)
        except ValueError:
            return
        if not storable(app_name=app_name, user_id=user_id):
            return
        await self._database.run.fetch(
            statements.delete_question(
                app_name=app_name, user_id=scope_user(user_id), question_id=question_id
            )
        )
