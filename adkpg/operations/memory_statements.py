"""Statements of checks on memories: what waits, lacks a vector, or is not found. No I/O."""

from functools import cache
from typing import Any, TypedDict

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Integer,
    SmallInteger,
    Text,
    and_,
    bindparam,
    cast,
    exists,
    extract,
    func,
    literal_column,
    or_,
    select,
)

from adkpg.memory.vectors.statements import is_of
from adkpg.sql import NoParameters, ScopeParameters, Statement, in_scope, set_for_person
from adkpg.tables import (
    app_settings,
    approximate_scopes,
    embedding_models,
    memories,
    memory_jobs,
    memory_vectors,
)


class LimitParameters(TypedDict):
    """How many memories are answered for exactly."""

    exact_limit: int


class ProbesParameters(ScopeParameters):
    """A scope, a model, and how many vectors."""

    model_id: int
    limit: int


class NearestParameters(ScopeParameters):
    """A scope, a model, a vector as text, and how many."""

    model_id: int
    probe: str
    limit: int


_EMBED = literal_column("'embed'", Text)
_FIRST = literal_column("0", Integer)
_MODEL = bindparam("model_id", type_=SmallInteger)
_LIMIT = bindparam("limit", type_=Integer)


@cache
def select_queue() -> Statement[NoParameters]:
    """Reads what waits: task, waiting, failed, dead, oldest_s (of what waits), error; by task."""
    waits = ~memory_jobs.c.dead
    age = extract("epoch", func.now() - func.min(memory_jobs.c.created_at).filter(waits))
    counts: list[ColumnElement[Any]] = [
        memory_jobs.c.task,
        func.count().filter(waits).label("waiting"),
        func.count().filter(waits, memory_jobs.c.error.is_not(None)).label("failed"),
        func.count().filter(~waits).label("dead"),
        cast(func.coalesce(age, _FIRST), Double).label("oldest_s"),
        func.max(memory_jobs.c.error).label("error"),
    ]
    return Statement(select(*counts).group_by(memory_jobs.c.task).order_by(memory_jobs.c.task))


@cache
def select_lacking() -> Statement[NoParameters]:
    """Reads, of each app with an active model, the memories that lack its vector.

    Returns app_name, name (of the model), dimensions, memories, lacking, unqueued (of the lacking,
    those for which no work waits); by app.
    """
    # Counted apart and subtracted, since passage 0 is there once of each memory with a vector: to
    # look for each memory's vector takes some forty times as long.
    stored = (
        select(memories.c.app_name, func.count().label("memories"))
        .group_by(memories.c.app_name)
        .subquery("stored")
    )
    embedded = (
        select(memory_vectors.c.app_name, memory_vectors.c.model_id, func.count().label("vectors"))
        .where(memory_vectors.c.passage == _FIRST)
        .group_by(memory_vectors.c.app_name, memory_vectors.c.model_id)
        .subquery("embedded")
    )
    vector = exists().where(
        memory_vectors.c.app_name == memory_jobs.c.app_name,
        memory_vectors.c.user_id == memory_jobs.c.user_id,
        memory_vectors.c.position == memory_jobs.c.position,
        memory_vectors.c.passage == _FIRST,
        is_of(memory_vectors, app_settings.c.model_id),
    )
    queued = (
        select(memory_jobs.c.app_name, func.count().label("jobs"))
        .join(app_settings, app_settings.c.app_name == memory_jobs.c.app_name)
        .where(memory_jobs.c.task == _EMBED, ~vector)
        .group_by(memory_jobs.c.app_name)
        .subquery("queued")
    )
    all_of_them = func.coalesce(stored.c.memories, _FIRST)
    lacking = all_of_them - func.coalesce(embedded.c.vectors, _FIRST)
    return Statement(
        select(
            app_settings.c.app_name,
            embedding_models.c.name,
            embedding_models.c.dimensions,
            all_of_them.label("memories"),
            lacking.label("lacking"),
            (lacking - func.coalesce(queued.c.jobs, _FIRST)).label("unqueued"),
        )
        .select_from(
            app_settings.join(
                embedding_models, embedding_models.c.model_id == app_settings.c.model_id
            )
            .outerjoin(stored, stored.c.app_name == app_settings.c.app_name)
            .outerjoin(
                embedded,
                and_(
                    embedded.c.app_name == app_settings.c.app_name,
                    embedded.c.model_id == app_settings.c.model_id,
                ),
            )
            .outerjoin(queued, queued.c.app_name == app_settings.c.app_name)
        )
        .order_by(app_settings.c.app_name),
        over_nodes=_lacking_of_nodes(),
    )


def _lacking_of_nodes() -> Any:
    """As `select_lacking`, where each node counts what it has."""

    def beside(table: Any, *its: Any) -> Any:
        return and_(
            table.c.app_name == memories.c.app_name,
            table.c.user_id == memories.c.user_id,
            table.c.position == memories.c.position,
            *its,
        )

    vector = beside(
        memory_vectors,
        is_of(memory_vectors, app_settings.c.model_id),
        memory_vectors.c.passage == _FIRST,
    )
    lacks = memory_vectors.c.position.is_(None)
    counts = (
        select(
            memories.c.app_name,
            func.count().label("memories"),
            func.count().filter(lacks).label("lacking"),
            func.count().filter(lacks, memory_jobs.c.position.is_(None)).label("unqueued"),
        )
        .select_from(
            memories.join(app_settings, app_settings.c.app_name == memories.c.app_name)
            .outerjoin(memory_vectors, vector)
            .outerjoin(memory_jobs, beside(memory_jobs, memory_jobs.c.task == _EMBED))
        )
        .group_by(memories.c.app_name)
        .cte("counts")
    )
    return (
        select(
            app_settings.c.app_name,
            embedding_models.c.name,
            embedding_models.c.dimensions,
            *(
                func.coalesce(each, literal_column("0")).label(each.name)
                for each in counts.c
                if each.name != "app_name"
            ),
        )
        .select_from(
            app_settings.join(
                embedding_models, embedding_models.c.model_id == app_settings.c.model_id
            ).outerjoin(counts, counts.c.app_name == app_settings.c.app_name)
        )
        .order_by(app_settings.c.app_name)
    )


@cache
def select_models() -> Statement[NoParameters]:
    """Reads the models: model_id, name, dimensions, active (whether an app is searched with it)."""
    active = exists().where(app_settings.c.model_id == embedding_models.c.model_id)
    return Statement(
        select(
            embedding_models.c.model_id,
            embedding_models.c.name,
            embedding_models.c.dimensions,
            active.label("active"),
        ).order_by(embedding_models.c.model_id)
    )


@cache
def count_large() -> Statement[LimitParameters]:
    """Counts the users with too many vectors of their active model that no index answers for."""
    listed = exists().where(
        approximate_scopes.c.app_name == memory_vectors.c.app_name,
        approximate_scopes.c.user_id == memory_vectors.c.user_id,
        approximate_scopes.c.model_id == memory_vectors.c.model_id,
        approximate_scopes.c.ready,
    )
    limit = bindparam("exact_limit", type_=BigInteger)
    fresh = func.count().filter(~memory_vectors.c.approximate)
    # Their memories are counted first, of a much smaller index than that of the vectors.
    many = (
        select(memories.c.app_name, memories.c.user_id)
        .group_by(memories.c.app_name, memories.c.user_id)
        .having(func.count() > limit)
        .cte("many")
        .prefix_with("MATERIALIZED")
    )
    large = (
        select(memory_vectors.c.app_name, memory_vectors.c.user_id)
        .select_from(
            many.join(
                memory_vectors,
                and_(
                    memory_vectors.c.app_name == many.c.app_name,
                    memory_vectors.c.user_id == many.c.user_id,
                ),
            ).join(
                app_settings,
                and_(
                    app_settings.c.app_name == memory_vectors.c.app_name,
                    app_settings.c.model_id == memory_vectors.c.model_id,
                ),
            )
        )
        .where(memory_vectors.c.passage == _FIRST)
        .group_by(memory_vectors.c.app_name, memory_vectors.c.user_id, memory_vectors.c.model_id)
        .having(or_(and_(func.count() > limit, ~listed), fresh > limit))
        .subquery("large")
    )
    scopes = approximate_scopes
    pair = and_(
        scopes.c.app_name == memory_vectors.c.app_name,
        scopes.c.user_id == memory_vectors.c.user_id,
        scopes.c.model_id == memory_vectors.c.model_id,
        scopes.c.ready,
    )
    settled = and_(
        app_settings.c.app_name == memory_vectors.c.app_name,
        app_settings.c.model_id == memory_vectors.c.model_id,
    )
    # Citus knows no HAVING that asks of another table.
    of_nodes = (
        select(memory_vectors.c.app_name, memory_vectors.c.user_id)
        .select_from(memory_vectors.join(app_settings, settled).outerjoin(scopes, pair))
        .where(memory_vectors.c.passage == _FIRST)
        .group_by(
            memory_vectors.c.app_name,
            memory_vectors.c.user_id,
            memory_vectors.c.model_id,
            scopes.c.user_id,
        )
        .having(or_(and_(func.count() > limit, scopes.c.user_id.is_(None)), fresh > limit))
        .subquery("large")
    )
    return Statement(
        select(func.count().label("large")).select_from(large),
        over_nodes=select(func.count().label("large")).select_from(of_nodes),
    )


@cache
def select_approximate() -> Statement[NoParameters]:
    """Reads some users whom an HNSW index answers for: app_name, user_id, model_id, dimensions."""
    return Statement(
        select(
            approximate_scopes.c.app_name,
            approximate_scopes.c.user_id,
            approximate_scopes.c.model_id,
            embedding_models.c.dimensions,
        )
        .select_from(
            approximate_scopes.join(
                embedding_models, embedding_models.c.model_id == approximate_scopes.c.model_id
            )
        )
        .where(approximate_scopes.c.ready)
        .order_by(func.md5(approximate_scopes.c.user_id), approximate_scopes.c.app_name)
        .limit(literal_column("5"))
    )


@cache
def select_probes(*, large: bool) -> Statement[ProbesParameters]:
    """Reads some of a user's vectors in the HNSW index, spread over all: probe (as text)."""
    column = memory_vectors.c.large if large else memory_vectors.c.embedding
    return Statement(
        select(cast(column, Text).label("probe"))
        .where(
            in_scope(memory_vectors),
            memory_vectors.c.model_id == _MODEL,
            memory_vectors.c.approximate,
        )
        .order_by(func.hashint8(memory_vectors.c.position), memory_vectors.c.passage)
        .limit(_LIMIT)
    )


@cache
def select_nearest(*, large: bool) -> Statement[NearestParameters]:
    """Reads how near the nearest of these vectors are, by looking at each: distance, by it."""
    column: Any = memory_vectors.c.large if large else memory_vectors.c.embedding
    # Without the index's cast, so that no plan answers from it.
    distance = column.op("<=>", return_type=Double)(cast(_PROBE, HALFVEC())).label("distance")
    return Statement(
        select(distance)
        .where(
            in_scope(memory_vectors),
            memory_vectors.c.model_id == _MODEL,
            memory_vectors.c.approximate,
        )
        .order_by(distance)
        .limit(_LIMIT)
    )


_PROBE = bindparam("probe", type_=Text)


def select_nearest_in_index(
    model_id: int, dimensions: int, *, large: bool
) -> "Statement[NearestParameters]":
    """Reads the same from a model's HNSW index, as a search does."""
    column: Any = memory_vectors.c.large if large else memory_vectors.c.embedding
    own = literal_column(str(int(model_id)), SmallInteger)
    probe = cast(_PROBE, HALFVEC(int(dimensions)))
    distance = (
        cast(column, HALFVEC(int(dimensions)))
        .op("<=>", return_type=Double)(probe)
        .label("distance")
    )
    return Statement(
        select(distance)
        .where(
            in_scope(memory_vectors),
            memory_vectors.c.model_id == own,
            memory_vectors.c.approximate,
            own == _MODEL,
        )
        .order_by(distance)
        .limit(_LIMIT)
    )


@cache
def avoid_sorting() -> Statement[ScopeParameters]:
    """Lets the planner sort only where nothing else is possible, to the transaction's end."""
    return set_for_person(enable_sort="off")
