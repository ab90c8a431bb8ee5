"""Queries of vectors: storing them, models, and the HNSW index. The SQL is in statements.sql.

The HNSW index is only for users whose memories are too many for an exact answer. A shared one
filters by user after it has found neighbours among all users' vectors; for the many small users it
is slower than the exact answer and wrong. So this one is partial: it holds the vectors of listed
users alone, and other users' writes never touch it. A listed user's new vectors are *fresh* at
first: a search looks at each, until a worker puts them into the index.
"""

from typing import TypedDict

from adkpg.queries import Nothing, Place, Queries, Query
from adkpg.tables import INLINE_DIMENSIONS

MOST_APPROXIMATE = 500
"""Most vectors that a search asks of the HNSW index; more are found exactly."""

_sql = Queries(__file__)


def ef_search(candidates: int) -> int:
    """Returns how wide the index is scanned: that finds nearly all of the true candidates."""
    return 2 * candidates


class ModelKey(TypedDict):
    """A model: its name and the length of its vectors."""

    model: str
    dimensions: int


class Stored(TypedDict):
    """How many memories' vectors were stored."""

    stored: int


class ModelId(TypedDict):
    """A model's number."""

    model_id: int


class Model(ModelId):
    """A model."""

    name: str
    dimensions: int


class AppModels(TypedDict):
    """The numbers of a model and of an app's active one, which is the one described."""

    own: int | None
    active: int | None
    name: str | None
    dimensions: int | None


class Marked(TypedDict):
    """How many vectors were put into the index."""

    marked: int


class Listed(TypedDict):
    """A user whom an HNSW index answers for."""

    app_name: str
    user_id: str
    model_id: int


class Built(TypedDict):
    """Whether the build of an index was finished."""

    valid: bool


class Owner(TypedDict):
    """Who owns the vectors, who asks, and whether that role may act as the owner."""

    owner: str
    role: str
    may: bool


@_sql.query()
def store_vectors(
    *,
    model_id: int,
    app_names: list[str],
    user_ids: list[str],
    positions: list[int],
    digests: list[str],
    passages: list[int],
    starts: list[int | None],
    ends: list[int | None],
    vectors: list[str],
    large: bool,
) -> Query[Stored]:
    """Stores vectors of memories that have not changed since they were read; their job is done.

    Only where the app's active model is this one: a change of models waits for it, and it for the
    change. Memories are given in parallel lists, once for each of their passages, and all passages
    of one together. A memory that a writer holds is left pending.

    Args:
      model_id: The model's number.
      app_names: The memories'.
      user_ids: The memories'.
      positions: The memories'.
      digests: The memories', as they were read.
      passages: Numbers of the passages, from 0.
      starts: From which character of the text each passage is; null is all of it.
      ends: Up to which one.
      vectors: Texts, of `records.vector_text`.
      large: For vectors above 1,024 dimensions.

    Returns:
      The number of memories, of several users maybe in several rows.
    """


@_sql.query()
def store_vectors_ahead(
    *,
    model_id: int,
    app_names: list[str],
    user_ids: list[str],
    positions: list[int],
    digests: list[str],
    passages: list[int],
    starts: list[int | None],
    ends: list[int | None],
    vectors: list[str],
    large: bool,
) -> Query[Stored]:
    """Stores vectors like `store_vectors`, of a model that may become the active one.

    Whatever the active model is, and the jobs are left to it.
    """


@_sql.query()
def select_model(*, model: str, dimensions: int) -> Query[ModelId]:
    """Reads a model's number."""


@_sql.query(place=Place.FIRST)
def insert_model(*, model: str, dimensions: int) -> Query[Nothing]:
    """Registers a model unless it is there; of several servers one gives the numbers."""


@_sql.query()
def activate_first_model(*, app_name: str, model_id: int) -> Query[Nothing]:
    """Makes a model the active one of an app that has none.

    Nothing happens if the model was dropped meanwhile.
    """


@_sql.query()
def select_active_model(*, app_name: str) -> Query[Model]:
    """Reads an app's active model. No row if it has none yet."""


@_sql.query()
def select_app_models(*, app_name: str, model: str, dimensions: int) -> Query[AppModels]:
    """Reads a model's number and an app's active model; one row, null for what is not there."""


@_sql.query()
def list_approximate_scopes(*, model_id: int, exact_limit: int) -> Query[Nothing]:
    """Lists the users who have too many vectors of a model for an exact answer."""


@_sql.query()
def list_approximate_scopes_ahead(*, model_id: int, exact_limit: int) -> Query[Nothing]:
    """Lists the users who have too many memories, whether they have vectors of the model or not."""


@_sql.query()
def mark_approximate(*, model_id: int) -> Query[Marked]:
    """Puts the vectors of listed users into the HNSW index."""


@_sql.query()
def select_listed() -> Query[Listed]:
    """Reads the users whom an HNSW index answers for."""


@_sql.query()
def mark_fresh(*, app_name: str, user_id: str, model_id: int, limit: int) -> Query[Marked]:
    """Puts some of a listed user's fresh vectors into the HNSW index, but none that others hold."""


@_sql.query()
def open_approximate_scopes(*, model_id: int) -> Query[Nothing]:
    """Lets searches of listed users use the HNSW index."""


@_sql.query()
def select_index(*, schema: str, index: str) -> Query[Built]:
    """Finds an index, and whether its build was finished."""


@_sql.query()
def select_owner(*, schema: str) -> Query[Owner]:
    """Reads who owns the vectors, who asks, and whether that role may act as the owner."""


@_sql.query()
def tune_search(*, app_name: str, user_id: str, ef_search: str) -> Query[Nothing]:
    """Sets how far the index is searched, to the transaction's end (pgvector README, HNSW)."""


def index_name(model_id: int) -> str:
    """Returns the name of a model's HNSW index."""
    return f"memory_vectors_hnsw_{model_id}"


def create_index(schema: str, model_id: int, dimensions: int) -> str:
    """Returns the DDL of a model's index: partial, and cast to the model's dimensions."""
    column = "large" if dimensions > INLINE_DIMENSIONS else "embedding"
    return (
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {index_name(model_id)} "
        f'ON "{schema}".memory_vectors '
        f"USING hnsw (({column}::halfvec({dimensions:d})) halfvec_cosine_ops) "
        f"WHERE model_id = {model_id:d} AND approximate"
    )


def drop_index(schema: str, model_id: int) -> str:
    """Returns the DDL that drops a model's index."""
    return f'DROP INDEX CONCURRENTLY IF EXISTS "{schema}".{index_name(model_id)}'
