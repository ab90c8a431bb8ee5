"""Queries of saved questions; their SQL is in saved_statements.sql."""

from datetime import datetime
from typing import TypedDict

from adkpg.queries import Nothing, Queries, Query

_sql = Queries(__file__)


class Question(TypedDict):
    """A saved question; its evidence is a JSON array as text."""

    question_id: str
    question: str
    evidence: str
    created_at: datetime


@_sql.query()
def insert_question(
    *, app_name: str, user_id: str, question_id: str, question: str, evidence: str
) -> Query[Nothing]:
    """Keeps a question with its evidence, a JSON array as text; again, it does nothing."""


@_sql.query()
def delete_question(*, app_name: str, user_id: str, question_id: str) -> Query[Nothing]:
    """Deletes a question."""


@_sql.query()
def select_questions(*, app_name: str, user_id: str, limit: int) -> Query[Question]:
    """Reads a scope's questions, the oldest first."""
