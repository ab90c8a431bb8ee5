"""Statements of models: what they cover and lack, changing an app's, dropping one. No I/O."""

from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    SmallInteger,
    Subquery,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    false,
    func,
    literal_column,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from adkpg.keys import AppKey
from adkpg.memory.vectors.statements import (
    MODEL_ID,
    ActivateParameters,
    ModelIdParameters,
    is_of,
)
from adkpg.sql import APP_NAME, NoParameters, Statement, given_rows
from adkpg.tables import (
    app_settings,
    approximate_scopes,
    embedding_models,
    memories,
    memory_jobs,
    memory_vectors,
)

_EMBED: ColumnElement[str] = literal_column("'embed'", Text)
_NONE = literal_column("0", Integer)
_LIMIT = bindparam("limit", type_=Integer)
_AFTER = (bindparam("after_user", type_=Text), bindparam("after_position", type_=BigInteger))


class NameParameters(TypedDict):
    """A model's name."""

    name: str


class LackingParameters(ActivateParameters):
    """Parameters of `select_lacking`: some memories after a place."""

    after_user: str
    after_position: int
    limit: int


class TextsParameters(ActivateParameters):
    """Parameters of `select_texts`: memories in parallel arrays."""

    user_ids: list[str]
    positions: list[int]


class SomeVectorsParameters(ModelIdParameters):
    """Parameters of `delete_some_vectors`: some vectors after a place."""

    after_app: str
    after_user: str
    after_position: int
    after_passage: int
    limit: int


def memories_by_app() -> Subquery:
    """Each app's memories: app_name, memories."""
    return (
        select(memories.c.app_name, func.count().label("memories"))
        .group_by(memories.c.app_name)
        .subquery("remembered")
    )


def embedded_by_model() -> Subquery:
    """Memories that have a vector of a model: app_name, model_id, vectors.

    Each of them has passage 0 once. A look for each memory's vector takes some forty times as long.
    """
    return (
        select(memory_vectors.c.app_name, memory_vectors.c.model_id, func.count().label("vectors"))
        .where(memory_vectors.c.passage == _NONE)
        .group_by(memory_vectors.c.app_name, memory_vectors.c.model_id)
        .subquery("counted")
    )


@cache
def select_coverage() -> Statement[NoParameters]:
    """Reads all models and, of each, the apps that have its vectors or are searched with it.

    Returns model_id, name, dimensions, created_at, and app_name, active, vectors, memories, which
    are null in the row of a model that no app uses; by name, dimensions, app_name.
    """
    counted = embedded_by_model()
    remembered = memories_by_app()
    of_either = (
        select(counted.c.app_name, counted.c.model_id)
        .union(
            select(app_settings.c.app_name, app_settings.c.model_id).where(
                app_settings.c.model_id.is_not(None)
            )
        )
        .subquery("of_either")
    )
    active = app_settings.c.app_name.is_not(None)
    return Statement(
        select(
            *embedding_models.c,
            of_either.c.app_name,
            active.label("active"),
            func.coalesce(counted.c.vectors, 0).label("vectors"),
            func.coalesce(remembered.c.memories, 0).label("memories"),
        )
        .select_from(
            embedding_models.outerjoin(
                of_either, of_either.c.model_id == embedding_models.c.model_id
            )
            .outerjoin(
                counted,
                and_(
                    counted.c.model_id == of_either.c.model_id,
                    counted.c.app_name == of_either.c.app_name,
                ),
            )
            .outerjoin(remembered, remembered.c.app_name == of_either.c.app_name)
            .outerjoin(
                app_settings,
                and_(
                    app_settings.c.model_id == of_either.c.model_id,
                    app_settings.c.app_name == of_either.c.app_name,
                ),
            )
        )
        .order_by(embedding_models.c.name, embedding_models.c.dimensions, of_either.c.app_name)
    )


@cache
def select_apps() -> Statement[NoParameters]:
    """Reads the apps that have memories or an active model, by name."""
    settled = select(app_settings.c.app_name).where(app_settings.c.model_id.is_not(None))
    either = select(memories.c.app_name).distinct().union(settled).subquery("either")
    return Statement(select(either.c.app_name).order_by(either.c.app_name))


@cache
def select_named() -> Statement[NameParameters]:
    """Reads the models of one name, by dimensions."""
    return Statement(
        select(embedding_models.c.model_id, embedding_models.c.dimensions)
        .where(embedding_models.c.name == bindparam("name", type_=Text))
        .order_by(embedding_models.c.dimensions)
    )


def _with_vector() -> Any:
    """A model's vector of the memory at hand, looked up by key: what is estimated may be old."""
    return (
        select(literal_column("1").label("one"))
        .where(
            memory_vectors.c.app_name == memories.c.app_name,
            memory_vectors.c.user_id == memories.c.user_id,
            is_of(memory_vectors, MODEL_ID),
            memory_vectors.c.position == memories.c.position,
            memory_vectors.c.passage == _NONE,
        )
        .correlate(memories)
        .offset(_NONE)
        .lateral("vector")
    )


def _lacking(*columns: ColumnElement[Any]) -> Select[Any]:
    """An app's memories without a vector of the model, by user and position."""
    vector = _with_vector()
    return (
        select(*columns)
        .select_from(memories.outerjoin(vector, true()))
        .where(memories.c.app_name == APP_NAME, vector.c.one.is_(None))
        .order_by(memories.c.user_id, memories.c.position)
    )


@cache
def count_covered() -> Statement[ActivateParameters]:
    """Counts an app's memories, and those with a vector of a model.

    Returns memories, covered.
    """
    vector = _with_vector()
    counts: list[ColumnElement[Any]] = [
        func.count().label("memories"),
        func.count(vector.c.one).label("covered"),
    ]
    return Statement(
        select(*counts)
        .select_from(memories.outerjoin(vector, true()))
        .where(memories.c.app_name == APP_NAME)
    )


@cache
def select_lacking() -> Statement[LackingParameters]:
    """Reads the keys of memories without a vector of a model, after a place.

    Many together: before the first ANALYZE the planner may sort all that an app has for them.

    Returns user_id, position, by
    these.
    """
    return Statement(
        _lacking(memories.c.user_id, memories.c.position)
        .where(tuple_(memories.c.user_id, memories.c.position) > tuple_(*_AFTER))
        .limit(_LIMIT)
    )


@cache
def select_texts() -> Statement[TextsParameters]:
    """Reads memories by their keys, those that still are without a vector of a model.

    Returns app_name,
    user_id, position, author, body, digest.
    """
    asked = given_rows(user_ids=Text, positions=BigInteger)
    read = (
        _lacking(
            memories.c.app_name,
            memories.c.user_id,
            memories.c.position,
            memories.c.author,
            memories.c.body,
            memories.c.digest,
        )
        .where(memories.c.user_id == asked.c.user_ids, memories.c.position == asked.c.positions)
        .correlate(asked)
        .offset(_NONE)
        .lateral("read")
    )
    return Statement(select(*read.c).select_from(asked.join(read, true())))


@cache
def lock_app() -> Statement[AppKey]:
    """Keeps an app's active model, and its vectors, as they are to the transaction's end.

    Returns model_id, the active one.
    """
    upsert = insert(app_settings).values(app_name=APP_NAME)
    return Statement(
        upsert.on_conflict_do_update(
            index_elements=["app_name"], set_={"updated_at": upsert.excluded.updated_at}
        ).returning(app_settings.c.model_id)
    )


@cache
def lock_lacking() -> Statement[ActivateParameters]:
    """Keeps memories without a vector of a model from being deleted, to the transaction's end.

    Before their jobs are touched, in the order of every writer, so that none deadlocks.

    Returns how many there are.
    """
    locked = (
        _lacking(memories.c.position)
        .with_for_update(of=memories, read=True, key_share=True)
        .subquery("locked")
    )
    return Statement(select(func.count().label("lacking")).select_from(locked))


@cache
def queue_lacking() -> Statement[ActivateParameters]:
    """Queues the memories without a vector of a model, unless they are queued already."""
    lacking = _lacking(memories.c.app_name, memories.c.user_id, memories.c.position, _EMBED)
    return Statement(
        insert(memory_jobs)
        .from_select(["app_name", "user_id", "position", "task"], lacking)
        .on_conflict_do_nothing()
    )


def _own_jobs() -> Select[Any]:
    """An app's queued embeddings but those that somebody is changing: waiting could deadlock."""
    return (
        select(memory_jobs.c.app_name, memory_jobs.c.user_id, memory_jobs.c.position)
        .where(memory_jobs.c.app_name == APP_NAME, memory_jobs.c.task == _EMBED)
        .with_for_update(skip_locked=True)
    )


def _is_one_of(chosen: Any) -> ColumnElement[bool]:
    return and_(
        memory_jobs.c.app_name == chosen.c.app_name,
        memory_jobs.c.user_id == chosen.c.user_id,
        memory_jobs.c.position == chosen.c.position,
        memory_jobs.c.task == _EMBED,
    )


@cache
def renew_jobs() -> Statement[AppKey]:
    """Lets an app's queued embeddings begin again: claims and failures were another model's."""
    chosen = _own_jobs().cte("chosen")
    return Statement(
        update(memory_jobs)
        .where(_is_one_of(chosen))
        .values(attempts=0, dead=false(), error=None, lease_expires_at=None, due_at=func.now())
    )


@cache
def end_covered_jobs() -> Statement[ActivateParameters]:
    """Ends an app's queued embeddings where the model's vector is there."""
    covered = exists(
        select(memory_vectors.c.position).where(
            memory_vectors.c.app_name == memory_jobs.c.app_name,
            memory_vectors.c.user_id == memory_jobs.c.user_id,
            is_of(memory_vectors, MODEL_ID),
            memory_vectors.c.position == memory_jobs.c.position,
            memory_vectors.c.passage == _NONE,
        )
    )
    return Statement(
        delete(memory_jobs).where(_is_one_of(_own_jobs().where(covered).cte("chosen")))
    )


@cache
def set_active() -> Statement[ActivateParameters]:
    """Makes a model the active one of an app."""
    return Statement(
        update(app_settings).where(app_settings.c.app_name == APP_NAME).values(model_id=MODEL_ID)
    )


@cache
def hold_model() -> Statement[ModelIdParameters]:
    """Keeps others from activating or dropping a model to the transaction's end; no row if gone.

    It writes the row as it is: each server of a cluster has a copy, and a lock would hold only one.
    """
    same = update(embedding_models).where(embedding_models.c.model_id == MODEL_ID)
    same = same.values(name=embedding_models.c.name)
    return Statement(same.returning(embedding_models.c.model_id))


@cache
def lock_model() -> Statement[ModelIdParameters]:
    """Keeps others from storing vectors of a model, too."""
    found = select(embedding_models.c.model_id).where(embedding_models.c.model_id == MODEL_ID)
    return Statement(found.with_for_update())


@cache
def select_active_apps() -> Statement[ModelIdParameters]:
    """Reads the apps that are searched with a model, by name."""
    return Statement(
        select(app_settings.c.app_name)
        .where(app_settings.c.model_id == MODEL_ID)
        .order_by(app_settings.c.app_name)
    )


@cache
def delete_scopes() -> Statement[ModelIdParameters]:
    """Lets nobody's searches use a model's index any more."""
    return Statement(delete(approximate_scopes).where(approximate_scopes.c.model_id == MODEL_ID))


@cache
def delete_some_vectors() -> Statement[SomeVectorsParameters]:
    """Deletes some of a model's vectors after a place, by app, user, position and passage.

    Those that a writer holds are passed over: waiting for it could deadlock.

    Returns app_name, user_id,
    position and passage of each.
    """
    named = (
        memory_vectors.c.app_name,
        memory_vectors.c.user_id,
        memory_vectors.c.position,
        memory_vectors.c.passage,
    )
    after = tuple_(
        bindparam("after_app", type_=Text), *_AFTER, bindparam("after_passage", type_=SmallInteger)
    )
    chosen = (
        select(*named)
        .where(memory_vectors.c.model_id == MODEL_ID, tuple_(*named) > after)
        .order_by(*named)
        .limit(_LIMIT)
        .with_for_update(skip_locked=True)
        .cte("chosen")
    )
    deleted = (
        delete(memory_vectors)
        .where(
            memory_vectors.c.app_name == chosen.c.app_name,
            memory_vectors.c.user_id == chosen.c.user_id,
            is_of(memory_vectors, MODEL_ID),
            memory_vectors.c.position == chosen.c.position,
            memory_vectors.c.passage == chosen.c.passage,
        )
        .returning(*named)
        .cte("deleted")
    )
    return Statement(select(*deleted.c).order_by(*deleted.c))


@cache
def delete_vectors() -> Statement[ModelIdParameters]:
    """Deletes all vectors of a model. Returns how many went."""
    deleted = (
        delete(memory_vectors)
        .where(memory_vectors.c.model_id == MODEL_ID)
        .returning(literal_column("1", SmallInteger))
        .cte("deleted")
    )
    return Statement(select(func.count().label("deleted")).select_from(deleted))


@cache
def delete_model() -> Statement[ModelIdParameters]:
    """Deletes a model that has no vectors left."""
    return Statement(delete(embedding_models).where(embedding_models.c.model_id == MODEL_ID))
