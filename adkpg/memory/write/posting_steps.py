"""Postings: the steps that make a memory's words of its text, and write them. No I/O."""

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Text,
    column,
    func,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.selectable import TableValuedAlias

from adkpg.sql import config_of
from adkpg.tables import (
    memory_lexemes,
)

_MAX_LEXEME_BYTES = 512  # a key of app, user and lexeme must fit a B-tree entry


def words_of(source: Any) -> ColumnElement[Any]:
    """The tsvector ``words`` of given rows' words and script."""
    return func.to_tsvector(config_of(source.c.script), source.c.words).label("words")


def length_of(words: ColumnElement[Any]) -> Any:
    """How many words a tsvector has, repeated ones each time."""
    lexemes = _lexemes(words, "body_words")
    total = func.coalesce(func.sum(_occurrences(lexemes)), 0)
    return select(total).select_from(lexemes).scalar_subquery()


def posted_words(stored: CTE, given: CTE, same: ColumnElement[bool]) -> CTE:
    """The step that writes memories' words.

    Args:
      stored: The memories' app_name, user_id, position and length.
      given: The rows that their words are in.
      same: Which of them is a memory's.
    """
    words = _lexemes(given.c.words, "posted_words")
    rows = (
        select(
            stored.c.app_name,
            stored.c.user_id,
            words.c.lexeme,
            stored.c.position,
            _occurrences(words),
            stored.c.length,
        )
        .select_from(stored.join(given, same).join(words, true()))
        .where(func.octet_length(words.c.lexeme) <= _MAX_LEXEME_BYTES)
        # As the index has them: neighbours' pages are found in the caches.
        .order_by(
            stored.c.app_name, stored.c.user_id, words.c.lexeme.collate("C"), stored.c.position
        )
    )
    columns = ["app_name", "user_id", "lexeme", "position"]
    columns += ["frequency", "memory_length"]
    return insert(memory_lexemes).from_select(columns, rows).cte("posted")


def _lexemes(vector: ColumnElement[Any], name: str) -> TableValuedAlias:
    return func.unnest(vector).table_valued(
        column("lexeme", Text), column("positions"), column("weights"), name=name
    )


def _occurrences(lexemes: TableValuedAlias) -> Any:
    return func.cardinality(lexemes.c.positions)
