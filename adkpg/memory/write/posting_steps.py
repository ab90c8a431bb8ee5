"""Postings: the steps that make a memory's words of its text, and write them. No I/O."""

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Text,
    column,
    func,
    literal_column,
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


def word_vectors(source: Any) -> list[ColumnElement[Any]]:
    """The tsvectors ``words`` and ``date_words`` of given rows' words, script and timestamp."""
    date = func.to_char(func.timezone("UTC", source.c.timestamp), "FMDD FMMonth YYYY")
    config = config_of(source.c.script)
    return [
        func.to_tsvector(config, source.c.words).label("words"),
        func.to_tsvector(config, date).label("date_words"),
    ]


def length_of(words: ColumnElement[Any]) -> Any:
    """How many words a tsvector has, repeated ones each time."""
    lexemes = _lexemes(words, "body_words")
    total = func.coalesce(func.sum(_occurrences(lexemes)), 0)
    return select(total).select_from(lexemes).scalar_subquery()


def posted_words(stored: CTE, given: CTE, same: ColumnElement[bool]) -> CTE:
    """The step that writes memories' words, but for those that their date alone has.

    Args:
      stored: The memories' app_name, user_id, position and length.
      given: The rows that their tsvectors are in.
      same: Which of them is a memory's.
    """
    # One vector whose weights tell the two apart, rather than two and a grouping.
    marked = func.setweight(given.c.words, literal_column("'A'")).op("||")(
        func.setweight(given.c.date_words, literal_column("'B'"))
    )
    words = _lexemes(marked, "marked_words")

    def occurrences(weight: str) -> Any:
        return func.cardinality(func.array_positions(words.c.weights, literal_column(weight)))

    rows = (
        select(
            stored.c.app_name,
            stored.c.user_id,
            words.c.lexeme,
            stored.c.position,
            occurrences("'A'"),
            occurrences("'B'"),
            stored.c.length,
        )
        .select_from(stored.join(given, same).join(words, true()))
        .where(
            literal_column("'A'") == func.any(words.c.weights),
            func.octet_length(words.c.lexeme) <= _MAX_LEXEME_BYTES,
        )
        # As the index has them: neighbours' pages are found in the caches.
        .order_by(
            stored.c.app_name, stored.c.user_id, words.c.lexeme.collate("C"), stored.c.position
        )
    )
    columns = ["app_name", "user_id", "lexeme", "position"]
    columns += ["frequency", "date_frequency", "memory_length"]
    return insert(memory_lexemes).from_select(columns, rows).cte("posted")


def _lexemes(vector: ColumnElement[Any], name: str) -> TableValuedAlias:
    return func.unnest(vector).table_valued(
        column("lexeme", Text), column("positions"), column("weights"), name=name
    )


def _occurrences(lexemes: TableValuedAlias) -> Any:
    return func.cardinality(lexemes.c.positions)
