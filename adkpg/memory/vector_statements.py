"""Statements of vectors: storing them, models, and the HNSW index. No I/O.

The HNSW index is only for users whose memories are too many for an exact answer. A shared one
filters by user after it has found neighbours among everybody's vectors; for the many small users
it is slower than the exact answer and wrong. So this one is partial: it holds the vectors of listed
users alone, and everybody else's writes never touch it.
"""

from functools import cache
from typing import Any

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    Boolean,
    Insert,
    Integer,
    Select,
    SmallInteger,
    Text,
    Update,
    and_,
    bindparam,
    cast,
    column,
    delete,
    exists,
    func,
    literal_column,
    null,
    select,
    table,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIT, insert

from adkpg.memory.statements import APP_NAME, given_rows
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

# Of the 100 candidates a search asks for, a wider scan finds nearly all of the true ones.
EF_SEARCH = 200


@cache
def store_vectors(*, large: bool) -> Select[Any]:
    """Stores vectors of memories that have not changed since they were read; their job is done.

    Only where the app's active model is this one: a change of models waits for it, and it for the
    change. A memory that a writer holds is left pending: waiting for it could deadlock with one
    that moves several.

    Parameters: model_id, and in parallel arrays app_names, user_ids, positions, digests, vectors
    (text). `large` is for vectors above 1,300 dimensions. Returns the number of vectors stored.
    """
    given = given_rows(
        app_names=Text, user_ids=Text, positions=BigInteger, digests=Text, vectors=Text
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
    unchanged = (
        select(
            memories.c.app_name,
            memories.c.user_id,
            memories.c.position,
            cast(given.c.vectors, HALFVEC()).label("vector"),
        )
        .select_from(
            given.join(
                memories,
                and_(
                    memories.c.app_name == given.c.app_names,
                    memories.c.user_id == given.c.user_ids,
                    memories.c.position == given.c.positions,
                    memories.c.digest == given.c.digests,
                ),
            ).join(active, active.c.app_name == memories.c.app_name)
        )
        .order_by(memories.c.app_name, memories.c.user_id, memories.c.position)
        .with_for_update(of=memories, read=True, key_share=True, skip_locked=True)
        .cte("unchanged")
    )
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
            "embedding",
            "bits",
            "large",
            "approximate",
        ],
        source,
    )
    stored = (
        upsert.on_conflict_do_update(
            index_elements=["app_name", "user_id", "model_id", "position"],
            set_={name: upsert.excluded[name] for name in ("embedding", "bits", "large")},
        )
        .returning(memory_vectors.c.app_name, memory_vectors.c.user_id, memory_vectors.c.position)
        .cte("stored")
    )
    done = (
        delete(memory_jobs)
        .where(
            memory_jobs.c.app_name == stored.c.app_name,
            memory_jobs.c.user_id == stored.c.user_id,
            memory_jobs.c.position == stored.c.position,
            memory_jobs.c.task == literal_column("'embed'"),
        )
        .cte("done")
    )
    return select(func.count().label("stored")).select_from(stored).add_cte(done)


@cache
def select_model() -> Select[Any]:
    """Reads a model's number. Parameters: model, dimensions."""
    return select(embedding_models.c.model_id).where(
        embedding_models.c.name == bindparam("model", type_=Text),
        embedding_models.c.dimensions == bindparam("dimensions", type_=Integer),
    )


@cache
def insert_model() -> Insert:
    """Registers a model unless it is there. Parameters: model, dimensions."""
    return (
        insert(embedding_models)
        .values(
            name=bindparam("model", type_=Text), dimensions=bindparam("dimensions", type_=Integer)
        )
        .on_conflict_do_nothing()
    )


@cache
def activate_first_model() -> Insert:
    """Makes a model the active one of an app that has none. Parameters: app_name, model_id."""
    upsert = insert(app_settings).values(app_name=APP_NAME, model_id=MODEL_ID)
    return upsert.on_conflict_do_update(
        index_elements=["app_name"],
        set_={"model_id": upsert.excluded.model_id},
        where=app_settings.c.model_id.is_(None),
    )


@cache
def select_active_model() -> Select[Any]:
    """Reads an app's active model. Parameters: app_name. No row if it has none yet."""
    return (
        select(embedding_models.c.model_id, embedding_models.c.name, embedding_models.c.dimensions)
        .join(app_settings, app_settings.c.model_id == embedding_models.c.model_id)
        .where(app_settings.c.app_name == APP_NAME)
    )


@cache
def insert_approximate_scopes() -> Insert:
    """Lists the users whose memories are too many for an exact answer.

    Parameters: model_id, exact_limit.
    """
    large = (
        select(memory_vectors.c.app_name, memory_vectors.c.user_id, memory_vectors.c.model_id)
        .where(memory_vectors.c.model_id == MODEL_ID)
        .group_by(memory_vectors.c.app_name, memory_vectors.c.user_id, memory_vectors.c.model_id)
        .having(func.count() > bindparam("exact_limit", type_=BigInteger))
    )
    return (
        insert(approximate_scopes)
        .from_select(["app_name", "user_id", "model_id"], large)
        .on_conflict_do_nothing()
    )


@cache
def mark_approximate() -> Select[Any]:
    """Puts the vectors of listed users into the HNSW index. Parameters: model_id.

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
    return select(func.count().label("marked")).select_from(marked)


@cache
def open_approximate_scopes() -> Update:
    """Lets searches of listed users use the HNSW index. Parameters: model_id."""
    return (
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


@cache
def select_broken_index() -> Select[Any]:
    """Finds an index that a build left invalid. Parameters: schema, index."""
    pg_index = table("pg_index", column("indexrelid"), column("indisvalid", Boolean))
    pg_class = table("pg_class", column("oid"), column("relname"), column("relnamespace"))
    pg_namespace = table("pg_namespace", column("oid"), column("nspname"))
    return (
        select(pg_class.c.relname)
        .select_from(
            pg_index.join(pg_class, pg_class.c.oid == pg_index.c.indexrelid).join(
                pg_namespace, pg_namespace.c.oid == pg_class.c.relnamespace
            )
        )
        .where(
            pg_namespace.c.nspname == bindparam("schema", type_=Text),
            pg_class.c.relname == bindparam("index", type_=Text),
            pg_index.c.indisvalid.is_(False),
        )
    )


@cache
def tune_search() -> Select[Any]:
    """Sets how far the index is searched, to the transaction's end (pgvector README, HNSW)."""
    return select(
        func.set_config("hnsw.ef_search", str(EF_SEARCH), True),
        func.set_config("hnsw.iterative_scan", "relaxed_order", True),
    )
