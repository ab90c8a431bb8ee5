"""Statements of saved questions. No I/O."""

from functools import cache

from sqlalchemy import Integer, Text, bindparam, cast, delete, select
from sqlalchemy.dialects.postgresql import JSONB, UUID, insert

from adkpg.keys import ScopeKey
from adkpg.sql import APP_NAME, USER_ID, Statement, in_scope
from adkpg.tables import saved_questions

_ID = cast(bindparam("question_id", type_=Text), UUID(as_uuid=False))


class QuestionParameters(ScopeKey):
    """Parameters of `insert_question`; `evidence` is a JSON array as text."""

    question_id: str
    question: str
    evidence: str


class QuestionIdParameters(ScopeKey):
    """Parameters of `delete_question`."""

    question_id: str


class QuestionsParameters(ScopeKey):
    """Parameters of `select_questions`."""

    limit: int


@cache
def insert_question() -> Statement[QuestionParameters]:
    """Keeps a question; again, it does nothing."""
    return Statement(
        insert(saved_questions)
        .values(
            app_name=APP_NAME,
            user_id=USER_ID,
            question_id=_ID,
            question=bindparam("question", type_=Text),
            evidence=cast(bindparam("evidence", type_=Text), JSONB),
        )
        .on_conflict_do_nothing()
    )


@cache
def delete_question() -> Statement[QuestionIdParameters]:
    """Deletes a question."""
    return Statement(
        delete(saved_questions).where(
            in_scope(saved_questions), saved_questions.c.question_id == _ID
        )
    )


@cache
def select_questions() -> Statement[QuestionsParameters]:
    """Reads a scope's questions, the oldest first."""
    return Statement(
        select(
            cast(saved_questions.c.question_id, Text).label("question_id"),
            saved_questions.c.question,
            cast(saved_questions.c.evidence, Text).label("evidence"),
            saved_questions.c.created_at,
        )
        .where(in_scope(saved_questions))
        .order_by(saved_questions.c.created_at, saved_questions.c.question_id)
        .limit(bindparam("limit", type_=Integer))
    )
