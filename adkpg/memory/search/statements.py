"""The queries of a search: what speaks for memories, and the memories that are found.

Words and vectors put memories forward. What each is worth is ranked elsewhere
(`adkpg.memory.search.ranking`); then the best are read. The SQL is in statements.sql.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TypedDict, Unpack

from adkpg.keys import APP_WIDE
from adkpg.memory.filters import Conditions
from adkpg.memory.records import StoredMemory
from adkpg.memory.search.counts import CountParameters
from adkpg.memory.search.ranking import ASKS, RANKING, Ranking
from adkpg.memory.vectors.passages import PASSAGE_TOKENS
from adkpg.queries import Queries, Query, Statement

CONTENT_LIMIT = 500_000
"""Longest content of a hit, in bytes of JSON; of a longer one, the text that is searched."""

_sql = Queries(
    __file__,
    content_limit=CONTENT_LIMIT,
    passage_tokens=PASSAGE_TOKENS,
    app_wide="E'" + APP_WIDE.replace("\x01", "\\x01") + "'",
    asking=ASKS,
)


@dataclass(frozen=True)
class Shape:
    """Which evidence to ask for. There are few: what costs nothing is a parameter.

    Attributes:
      lexical: By words.
      vector: By vectors.
      large: The model's vectors have more than 1,024 dimensions.
      approximate: The model's number and dimensions, to answer by vectors for some scopes from its
        HNSW index instead of exactly; not with filters.
      filters: The conditions that memories must meet, as `SearchFilters.shape` names them.
      dated: The question names a time; by words alone, or by words and vectors.
    """

    lexical: bool
    vector: bool
    large: bool = False
    approximate: tuple[int, int] | None = None
    filters: frozenset[str] = frozenset()
    dated: bool = False


class ScopesKey(TypedDict):
    """The scopes that a search asks for; twice the same if it is one."""

    app_name: str
    user_id: str
    also_user_id: str


class EvidenceParameters(ScopesKey, Conditions, CountParameters):
    """Parameters of `evidence`; each shape reads its own.

    Attributes:
      top_k: As many memories are wanted.
      invocation_id: The agent's run whose memories are left out.
      query, script, config: By words.
      query_vector, model, dimensions: By vectors, the first as `records.vector_text` writes it.
      inactive: Vectors of the embedder's model are compared also if the app has another.
      passages: By vectors: how many passages are compared closely.
      exact_user_ids, approximate_user_ids: Which scopes are answered from the HNSW index.
      wordiness: How many times as many words a text has as one in English that says as much.
      since, until: The times that the question names, in parallel; the ends are excluded.
      first: Whether it asks about the first conversation.
    """

    top_k: int
    invocation_id: str | None
    query: str
    script: str | None
    config: str
    query_vector: str | None
    model: str
    dimensions: int
    inactive: bool
    passages: int
    exact_user_ids: list[str]
    approximate_user_ids: list[str]
    wordiness: float
    since: list[datetime]
    until: list[datetime]
    first: bool


class EvidenceRow(TypedDict):
    """What speaks for the memories that may answer a question.

    Attributes:
      positions, lengths, speeches, answer, cosines, timely, by_user, ages_s, importances: For each
        memory, in parallel. `answer` says whether the turn before asks, `timely` whether it is of a
        time that the question names. A cosine is null without a vector.
      size, mean_length: How many memories the scopes have and how long they are on average, as
        counted or as given.
      at, word, weight: For each word that a memory has: the memory's position, the word's number.
      asked, number, found_in, touched: For each of the question's words: the lexeme, in how many
        memories it is (null if it does not occur), how many it touches (null if not counted).
      seen, mean_cosine, deviation: Those of some cosines.
      of_time: How many memories are of the times that the question names.
      active_model: The app's; null if it has none yet.
      compared_model: Null if no vectors are compared, because the app has another.
      crowded: Whether more passages are to be compared.
    """

    positions: list[int] | None
    lengths: list[float] | None
    speeches: list[int] | None
    answer: list[bool] | None
    cosines: list[float | None] | None
    timely: list[bool] | None
    by_user: list[bool] | None
    ages_s: list[float] | None
    importances: list[float] | None
    size: float | None
    mean_length: float | None
    at: list[int] | None
    word: list[int] | None
    weight: list[float] | None
    asked: list[str] | None
    number: list[int] | None
    found_in: list[float | None] | None
    touched: list[float | None] | None
    seen: int | None
    mean_cosine: float | None
    deviation: float | None
    of_time: int | None
    active_model: int | None
    compared_model: int | None
    crowded: bool


class IndexedScope(TypedDict):
    """A scope that the HNSW index holds."""

    user_id: str


class Waiting(TypedDict):
    """Whether memories wait for a vector."""

    waiting: bool


class CutMemory(StoredMemory):
    """A memory; of a content above `CONTENT_LIMIT` there is the text that is searched, and `cut`.

    That is its first 100,000 characters.
    """

    cut: bool


class Neighbour(CutMemory):
    """A memory, and the position that it is next to."""

    of_position: int


class FoundMemory(CutMemory):
    """A memory that a search found.

    Attributes:
      position: Its own.
      drawn: The facts drawn from it, each with its heir, which superseded it; null without any.
      parts: Its passages, each as start, end and cosine; null or empty without any.
    """

    position: int
    drawn: list[str | None] | None
    parts: list[float] | None


@_sql.query()
def select_indexed(
    *, app_name: str, user_id: str, also_user_id: str, model: str, dimensions: int
) -> Query[IndexedScope]:
    """Reads which of the scopes asked for the HNSW index of the embedder's model holds."""


@_sql.query()
def select_waiting(*, app_name: str, user_id: str, also_user_id: str) -> Query[Waiting]:
    """Tells whether memories have waited for a vector for a minute, and no worker has come yet."""


@_sql.query()
def select_neighbours(
    *,
    app_name: str,
    user_id: str,
    also_user_id: str,
    invocation_id: str | None,
    positions: list[int],
    reach: int,
) -> Query[Neighbour]:
    """Reads the memories around some that a search may find, by position."""


@_sql.query(long=True)
def select_found(
    *,
    app_name: str,
    user_id: str,
    also_user_id: str,
    invocation_id: str | None,
    positions: list[int],
    query_vector: str | None,
    model_id: int | None,
    after: datetime | None,
    before: datetime | None,
    authors: list[str] | None,
    session_ids: list[str] | None,
    metadata: str | None,
    kinds: list[str] | None,
    topics: list[str] | None,
) -> Query[FoundMemory]:
    """Reads memories by position, in any order, with the cosines of their passages.

    Those that have gone meanwhile, or have become what is not asked for, are left out. Without
    `model_id`, the number of the model that was compared, there are no passages.
    """


def evidence(
    shape: Shape, ranking: Ranking = RANKING, **parameters: Unpack[EvidenceParameters]
) -> Query[EvidenceRow]:
    """Says what speaks for the memories that may answer a question; one row.

    Args:
      shape: What to ask for.
      ranking: The constants.
      **parameters: As `EvidenceParameters` says.
    """
    return Query(evidence_statement(shape, ranking), {**parameters})


@cache
def evidence_statement(shape: Shape, ranking: Ranking = RANKING) -> Statement:
    """Returns the statement of a shape, made of its steps."""
    shifts = [f"({shift}::bigint, {share}::float8)" for shift, share in ranking.spread]
    model_id, dimensions = shape.approximate or (None, None)
    inserted: dict[str, object] = {
        **vars(ranking),
        "sampled": ranking.sampled_of(large=shape.large),
        "spread": ", ".join(shifts),
        "shifts": len(shifts),
        "reached": "reached" if shape.filters else "leading_words",
        "places": "eligible" if shape.filters else "promising",
        "vector": "large" if shape.large else "embedding",
        "nearness": _sql.text("nearness_of_large" if shape.large else "nearness"),
        "among_eligible": _sql.text("among_eligible") if shape.filters else "",
        "model_id": model_id,
        "dimensions": dimensions,
    }
    steps = ",\n".join(_sql.text(step, **inserted) for step in _steps(shape))
    return Statement(f"WITH {steps}\n{_sql.text('evidence')}", EvidenceRow, long=True)


def _steps(shape: Shape) -> Iterator[str]:
    """Yields the names of a shape's steps, each after those that it reads."""
    indexed = shape.approximate is not None
    yield "dead"
    if "session_ids" in shape.filters:
        yield "eligible_of_sessions"
    elif "kinds" in shape.filters:
        yield "eligible_of_kinds"
    elif shape.filters:
        yield "eligible"
    if not shape.lexical:
        yield "no_words"
    else:
        yield from ("scope", "asked", "postings", "counted", "leading_words", "rarity")
        if shape.filters:
            yield from ("following_words", "reached", "promising")
        else:
            yield from ("promising", "following_words")
    if not shape.vector:
        yield "no_vectors"
    elif indexed:
        yield from ("models", "cosines_of_index", "nearest")
    else:
        yield from ("models", "nearest_passages", "cosines", "nearest")
    yield "dated" if shape.dated else "no_times"
    yield from ("rated", "candidates_of_index" if indexed else "candidates")
    if shape.lexical:
        yield "words"
