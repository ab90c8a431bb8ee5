"""Statements of vectors: storing them, models, and the HNSW index. No I/O.

The HNSW index is only for users whose memories are too many for an exact answer. A shared one
filters by user after it has found neighbours among everybody's vectors; for the many small users
it is slower than the exact answer and wrong. So this one is partial: it holds the vectors of listed
users alone, and everybody else's writes never touch it. A listed user's new vectors are *fresh* at
first: a search looks at each, until a worker puts them into the index.
"""

from functools import cache
from typing import Any, TypedDict

from pgvector.sqlalchemy import HALFVEC, VECTOR
from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Integer,
    Select,
    SmallInteger,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    delete,
    exists,
    false,
    func,
    literal_column,
    null,
    select,
    table,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIT, insert

from adkpg.keys import AppKey, ScopeKey
from adkpg.queries import Place
from adkpg.sql import APP_NAME, NoParameters, Statement, given_rows, in_scope, set_for_person
from adkpg.tables import (
    INLINE_DIMENSIONS,
    app_settings,
    approximate_scopes,
    embedding_models,
    memories,
    memory_jobs,
    memory_vectors,
)

MODEL_ID = bindparam("model_id", type_=SmallInteger)

MOST_APPROXIMATE = 500
"""Most vectors that a search asks of the HNSW index; more are found exactly."""


def ef_search(candidates: int) -> int:
    """Returns how wide the index is scanned: that finds nearly all of the true candidates."""
    return 2 * candidates


class ModelKey(TypedDict):
    """A model: its name and the length of its vectors."""

    model: str
    dimensions: int


class ModelIdParameters(TypedDict):
    """A model's number."""

    model_id: int


class ActivateParameters(AppKey, ModelIdParameters):
    """An app, and a model's number."""


class AppModelParameters(AppKey, ModelKey):
    """An app, and a model."""


class ListingParameters(ModelIdParameters):
    """Parameters of `insert_approximate_scopes`."""

    exact_limit: int


class SchemaParameters(TypedDict):
    """The schema of the tables."""

    schema: str


class IndexParameters(SchemaParameters):
    """An index, by its name."""

    index: str


class StoreParameters(ModelIdParameters):
    """Memories in parallel arrays, once for each of their passages, and their vectors.

    Attributes:
      passages: Numbers of the passages, from 0.
      starts, ends: Which characters of the text each has; null is all.
      vectors: Texts, of `records.vector_text`.
    """

    app_names: list[str]
    user_ids: list[str]
    positions: list[int]
    digests: list[str]
    passages: list[int]
    starts: list[int | None]
    ends: list[int | None]
    vectors: list[str]


def is_of(vectors: Any, model_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether a vector that was found by its memory's position is a model's.

    No equality that an index answers: before the first ANALYZE the planner takes all vectors of a
    user and a model for one row, too, and would read them all.
    """
    its_model: ColumnElement[int] = vectors.c.model_id
    return (its_model == model_id).is_(True)


def unit_halfvec(text: ColumnElement[Any]) -> ColumnElement[Any]:
    """A vector of unit length, given by its direction, as `records.vector_text` writes it."""
    return cast(func.l2_normalize(cast(text, VECTOR())), HALFVEC())


@cache
def store_vectors(*, large: bool, ahead: bool = False) -> Statement[StoreParameters]:
    """Stores vectors of memories that have not changed since they were read; their job is done.

    Only where the app's active model is this one: a change of models waits for it, and it for the
    change. A memory that a writer holds is left pending: waiting for it could deadlock with one
    that moves several. All passages of a memory are given together.

    Returns how many memories' vectors were stored, of several users maybe in several rows.

    Args:
      large: For vectors above 1,024 dimensions.
      ahead: For a model that may become the active one: whatever is, and the jobs are left to it.
    """
    given = given_rows(
        app_names=Text,
        user_ids=Text,
        positions=BigInteger,
        digests=Text,
        passages=SmallInteger,
        starts=Integer,
        ends=Integer,
        vectors=Text,
    )
    active = (
        select(app_settings.c.app_name)
        .where(
            app_settings.c.app_name == func.any(bindparam("app_names", type_=ARRAY(Text))),
            app_settings.c.model_id == MODEL_ID,
        )
        .order_by(app_settings.c.app_name)
        .with_for_update(read=True)
        .cte("active")
    )
    as_given = given.join(
        memories,
        and_(
            memories.c.app_name == given.c.app_names,
            memories.c.user_id == given.c.user_ids,
            memories.c.position == given.c.positions,
            memories.c.digest == given.c.digests,
        ),
    )
    if not ahead:
        as_given = as_given.join(active, active.c.app_name == memories.c.app_name)
    unchanged = (
        select(
            memories.c.app_name,
            memories.c.user_id,
            memories.c.position,
            given.c.passages.label("passage"),
            case((given.c.ends.is_not(None), func.int4range(given.c.starts, given.c.ends))).label(
                "span"
            ),
            unit_halfvec(given.c.vectors).label("vector"),
        )
        .select_from(as_given)
        .order_by(memories.c.app_name, memories.c.user_id, memories.c.position)
        .with_for_update(of=memories, read=True, key_share=True, skip_locked=True)
        .cte("unchanged")
    )
    # Entering the HNSW index takes longer than all else, so vectors come fresh, and `mark_fresh`
    # has them enter; but no search waits for those of a model that is not active yet.
    approximate: ColumnElement[bool] = false()
    if ahead:
        approximate = exists(
            select(approximate_scopes.c.model_id).where(
                approximate_scopes.c.app_name == unchanged.c.app_name,
                approximate_scopes.c.user_id == unchanged.c.user_id,
                approximate_scopes.c.model_id == MODEL_ID,
            )
        )
    vector = unchanged.c.vector
    source = select(
        unchanged.c.app_name,
        unchanged.c.user_id,
        MODEL_ID,
        unchanged.c.position,
        unchanged.c.passage,
        unchanged.c.span,
        null() if large else vector,
        cast(func.binary_quantize(vector), BIT(varying=True)) if large else null(),
        vector if large else null(),
        approximate,
    )
    upsert = insert(memory_vectors).from_select(
        [
            "app_name",
            "user_id",
            "model_id",
            "position",
            "passage",
            "span",
            "embedding",
            "bits",
            "large",
            "approximate",
        ],
        source,
    )
    stored = (
        upsert.on_conflict_do_update(
            index_elements=["app_name", "user_id", "position", "passage", "model_id"],
            set_={
                name: upsert.excluded[name]
                for name in ("span", "embedding", "bits", "large", "approximate")
            },
        )
        .returning(
            memory_vectors.c.app_name,
            memory_vectors.c.user_id,
            memory_vectors.c.position,
            memory_vectors.c.passage,
        )
        .cte("stored")
    )
    count = select(func.count().label("stored")).where(stored.c.passage == literal_column("0"))
    if ahead:
        return Statement(count)
    done = (
        delete(memory_jobs)
        .where(
            memory_jobs.c.app_name == stored.c.app_name,
            memory_jobs.c.user_id == stored.c.user_id,
            memory_jobs.c.position == stored.c.position,
            stored.c.passage == literal_column("0"),
            memory_jobs.c.task == literal_column("'embed'"),
        )
        .cte("done")
    )
    return Statement(count.add_cte(done))


@cache
def select_model() -> Statement[ModelKey]:
    """Reads a model's number."""
    return Statement(model_number())


def model_number() -> Select[Any]:
    """The number of the model of a `ModelKey`, for other statements too."""
    return select(embedding_models.c.model_id).where(
        embedding_models.c.name == bindparam("model", type_=Text),
        embedding_models.c.dimensions == bindparam("dimensions", type_=Integer),
    )


@cache
def insert_model() -> Statement[ModelKey]:
    """Registers a model unless it is there; of several servers one gives the numbers."""
    inserted = insert(embedding_models).values(
        name=bindparam("model", type_=Text), dimensions=bindparam("dimensions", type_=Integer)
    )
    return Statement(inserted.on_conflict_do_nothing().inline(), place=Place.FIRST)


@cache
def activate_first_model() -> Statement[ActivateParameters]:
    """Makes a model the active one of an app that has none.

    Nothing happens if the model was dropped meanwhile.
    """
    registered = (
        select(APP_NAME.label("app_name"), embedding_models.c.model_id)
        .where(embedding_models.c.model_id == MODEL_ID)
        .with_for_update(read=True, key_share=True)
        .cte("registered")
    )
    upsert = insert(app_settings).from_select(["app_name", "model_id"], select(registered))
    return Statement(
        upsert.on_conflict_do_update(
            index_elements=["app_name"],
            set_={"model_id": upsert.excluded.model_id},
            where=app_settings.c.model_id.is_(None),
        ),
    )


@cache
def select_active_model() -> Statement[AppKey]:
    """Reads an app's active model. No row if it has none yet."""
    return Statement(_active_model())


def _active_model() -> Select[Any]:
    return (
        select(embedding_models.c.model_id, embedding_models.c.name, embedding_models.c.dimensions)
        .join(app_settings, app_settings.c.model_id == embedding_models.c.model_id)
        .where(app_settings.c.app_name == APP_NAME)
    )


@cache
def select_app_models() -> Statement[AppModelParameters]:
    """Reads a model's number and an app's active model; one row, with nulls for what is not there.

    Returns own, active (numbers), name, dimensions (of
    the active one).
    """
    own = model_number().scalar_subquery()
    active = _active_model().subquery("active")
    one = select(own.label("own")).subquery("one")
    return Statement(
        select(
            one.c.own, active.c.model_id.label("active"), active.c.name, active.c.dimensions
        ).select_from(one.outerjoin(active, true()))
    )


@cache
def insert_approximate_scopes(*, ahead: bool) -> Statement[ListingParameters]:
    """Lists the users whose memories are too many for an exact answer.

    Args:
      ahead: Counts memories, whether they have a vector of the model yet or not.
    """
    counted = memories if ahead else memory_vectors
    large = (
        select(counted.c.app_name, counted.c.user_id, MODEL_ID)
        .group_by(counted.c.app_name, counted.c.user_id)
        .having(func.count() > bindparam("exact_limit", type_=BigInteger))
    )
    if not ahead:
        large = large.where(memory_vectors.c.model_id == MODEL_ID)
    return Statement(
        insert(approximate_scopes)
        .from_select(["app_name", "user_id", "model_id"], large)
        .on_conflict_do_nothing(),
    )


@cache
def mark_approximate() -> Statement[ModelIdParameters]:
    """Puts the vectors of listed users into the HNSW index.

    Returns how many were put in.
    """
    marked = (
        update(memory_vectors)
        .where(
            memory_vectors.c.app_name == approximate_scopes.c.app_name,
            memory_vectors.c.user_id == approximate_scopes.c.user_id,
            memory_vectors.c.model_id == approximate_scopes.c.model_id,
            memory_vectors.c.model_id == MODEL_ID,
            memory_vectors.c.approximate.is_(False),
        )
        .values(approximate=true())
        .returning(literal_column("1"))
        .cte("marked")
    )
    return Statement(select(func.count().label("marked")).select_from(marked))


class FreshParameters(ScopeKey):
    """Parameters of `mark_fresh`: some vectors of a listed user."""

    model_id: int
    limit: int


@cache
def select_listed() -> Statement[NoParameters]:
    """Reads the users whom an HNSW index answers for: app_name, user_id, model_id."""
    scopes = approximate_scopes
    return Statement(
        select(scopes.c.app_name, scopes.c.user_id, scopes.c.model_id)
        .where(scopes.c.ready)
        .order_by(scopes.c.model_id, scopes.c.app_name, scopes.c.user_id)
    )


@cache
def mark_fresh() -> Statement[FreshParameters]:
    """Puts some of a listed user's fresh vectors into the HNSW index.

    What others hold is passed over. Returns ``marked``, how many were put in.
    """
    vectors = memory_vectors
    fresh = (
        select(vectors.c.position, vectors.c.passage)
        .where(in_scope(vectors), vectors.c.model_id == MODEL_ID, ~vectors.c.approximate)
        .limit(bindparam("limit", type_=BigInteger))
        .with_for_update(skip_locked=True)
        .cte("fresh")
    )
    marked = (
        update(vectors)
        .where(
            in_scope(vectors),
            vectors.c.model_id == MODEL_ID,
            vectors.c.position == fresh.c.position,
            vectors.c.passage == fresh.c.passage,
        )
        .values(approximate=true())
        .returning(literal_column("1"))
        .cte("marked")
    )
    return Statement(select(func.count().label("marked")).select_from(marked))


@cache
def open_approximate_scopes() -> Statement[ModelIdParameters]:
    """Lets searches of listed users use the HNSW index."""
    return Statement(
        update(approximate_scopes)
        .where(approximate_scopes.c.model_id == MODEL_ID, approximate_scopes.c.ready.is_(False))
        .values(ready=true())
    )


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


_PG_CLASS = table("pg_class", column("oid"), column("relname"), column("relnamespace"))
_PG_NAMESPACE = table("pg_namespace", column("oid"), column("nspname"))
_IN_SCHEMA = and_(
    _PG_NAMESPACE.c.oid == _PG_CLASS.c.relnamespace,
    _PG_NAMESPACE.c.nspname == bindparam("schema", type_=Text),
)


@cache
def select_index() -> Statement[IndexParameters]:
    """Finds an index, and whether its build was finished."""
    pg_index = table("pg_index", column("indexrelid"), column("indisvalid", Boolean))
    return Statement(
        select(pg_index.c.indisvalid.label("valid"))
        .select_from(
            pg_index.join(_PG_CLASS, _PG_CLASS.c.oid == pg_index.c.indexrelid).join(
                _PG_NAMESPACE, _IN_SCHEMA
            )
        )
        .where(_PG_CLASS.c.relname == bindparam("index", type_=Text))
    )


@cache
def select_owner() -> Statement[SchemaParameters]:
    """Reads who owns the vectors, who asks, and whether that role may act as the owner."""
    owner: Any = column("relowner")
    read: list[ColumnElement[Any]] = [
        cast(func.pg_get_userbyid(owner), Text).label("owner"),
        cast(func.current_user(), Text).label("role"),
        func.pg_has_role(owner, literal_column("'USAGE'"), type_=Boolean).label("may"),
    ]
    return Statement(
        select(*read)
        .select_from(_PG_CLASS.join(_PG_NAMESPACE, _IN_SCHEMA))
        .where(_PG_CLASS.c.relname == literal_column(f"'{memory_vectors.name}'"))
    )


class TuneParameters(ScopeKey):
    """Parameters of `tune_search`."""

    ef_search: str


@cache
def tune_search() -> Statement[TuneParameters]:
    """Sets how far the index is searched, to the transaction's end (pgvector README, HNSW).

    A plan made for any user would take each for small, and not use the index.
    """
    return set_for_person(
        plan_cache_mode="force_custom_plan",
        hnsw__ef_search=bindparam("ef_search", type_=Text),
        hnsw__iterative_scan="relaxed_order",
    )
