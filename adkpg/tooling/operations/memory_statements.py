"""Statements on memories: what waits, lacks a vector, or has outgrown the exact search. No I/O."""

from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Integer,
    Text,
    and_,
    bindparam,
    cast,
    extract,
    func,
    literal_column,
    or_,
    select,
)

from adkpg.sql import NoParameters, Statement
from adkpg.tables import (
    app_settings,
    approximate_scopes,
    embedding_models,
    memory_jobs,
    memory_vectors,
)
from adkpg.tooling.models.statements import embedded_by_model, memories_by_app


class LimitParameters(TypedDict):
    """How many memories are answered for exactly."""

    exact_limit: int


_EMBED = literal_column("'embed'", Text)
_FIRST = literal_column("0", Integer)


@cache
def select_queue() -> Statement[NoParameters]:
    """Reads what waits: task, waiting, dead, oldest_s (of what waits), error; by task."""
    waits = ~memory_jobs.c.dead
    age = extract("epoch", func.now() - func.min(memory_jobs.c.created_at).filter(waits))
    counts: list[ColumnElement[Any]] = [
        memory_jobs.c.task,
        func.count().filter(waits).label("waiting"),
        func.count().filter(~waits).label("dead"),
        cast(func.coalesce(age, _FIRST), Double).label("oldest_s"),
        func.max(memory_jobs.c.error).label("error"),
    ]
    return Statement(select(*counts).group_by(memory_jobs.c.task).order_by(memory_jobs.c.task))


@cache
def select_lacking() -> Statement[NoParameters]:
    """Reads, of each app with an active model, the memories that lack its vector.

    Returns app_name, name (of the model), dimensions, memories, lacking, unqueued (how many more
    lack it than wait for one); by app.
    """
    stored, embedded = memories_by_app(), embedded_by_model()
    queued = (
        select(memory_jobs.c.app_name, func.count().label("jobs"))
        .where(memory_jobs.c.task == _EMBED)
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
        .order_by(app_settings.c.app_name)
    )


@cache
def count_large() -> Statement[LimitParameters]:
    """Counts the users with too many vectors of their active model that no index answers for."""
    limit = bindparam("exact_limit", type_=BigInteger)
    listed = and_(
        approximate_scopes.c.app_name == memory_vectors.c.app_name,
        approximate_scopes.c.user_id == memory_vectors.c.user_id,
        approximate_scopes.c.model_id == memory_vectors.c.model_id,
        approximate_scopes.c.ready,
    )
    active = and_(
        app_settings.c.app_name == memory_vectors.c.app_name,
        app_settings.c.model_id == memory_vectors.c.model_id,
    )
    unlisted = approximate_scopes.c.user_id.is_(None)
    fresh = func.count().filter(~memory_vectors.c.approximate)
    large = (
        select(memory_vectors.c.app_name, memory_vectors.c.user_id)
        .select_from(
            memory_vectors.join(app_settings, active).outerjoin(approximate_scopes, listed)
        )
        .where(memory_vectors.c.passage == _FIRST)
        .group_by(
            memory_vectors.c.app_name,
            memory_vectors.c.user_id,
            memory_vectors.c.model_id,
            approximate_scopes.c.user_id,
        )
        .having(or_(and_(func.count() > limit, unlisted), fresh > limit))
        .subquery("large")
    )
    return Statement(select(func.count().label("large")).select_from(large))
