"""Queries of models: what they cover and lack, changing an app's, dropping one.

Their SQL is in statements.sql.
"""

from datetime import datetime
from typing import TypedDict

from adkpg.keys import AppKey
from adkpg.memory.vectors.statements import ModelId
from adkpg.queries import Nothing, Queries, Query

_sql = Queries(__file__)


class Covered(TypedDict):
    """A model, and an app that has its vectors or is searched with it; null if there is none."""

    model_id: int
    name: str
    dimensions: int
    created_at: datetime
    app_name: str | None
    active: bool
    vectors: int
    memories: int


class Sized(ModelId):
    """A model's number, and the length of its vectors."""

    dimensions: int


class Counted(TypedDict):
    """How many memories there are, and how many have a vector of a model."""

    memories: int
    covered: int


class Place(TypedDict):
    """A memory's place."""

    user_id: str
    position: int


class Text(AppKey, Place):
    """A memory's text."""

    author: str | None
    body: str
    digest: str


class ActiveModel(TypedDict):
    """An app's active model."""

    model_id: int | None


class Lacking(TypedDict):
    """How many memories have no vector of a model."""

    lacking: int


class Vector(AppKey, Place):
    """Which vector."""

    passage: int


class Deleted(TypedDict):
    """How many vectors went."""

    deleted: int


@_sql.query()
def select_coverage() -> Query[Covered]:
    """Reads all models and, of each, the apps that have its vectors or are searched with it.

    By name, dimensions, app_name.
    """


@_sql.query()
def select_apps() -> Query[AppKey]:
    """Reads the apps that have memories or an active model, by name."""


@_sql.query()
def select_named(*, name: str) -> Query[Sized]:
    """Reads the models of one name, by dimensions."""


@_sql.query()
def count_covered(*, app_name: str, model_id: int) -> Query[Counted]:
    """Counts an app's memories, and those with a vector of a model."""


@_sql.query()
def select_lacking(
    *, app_name: str, model_id: int, after_user: str, after_position: int, limit: int
) -> Query[Place]:
    """Reads the keys of memories without a vector of a model, after a place, by these.

    Many together: before the first ANALYZE the planner may sort all that an app has for them.
    """


@_sql.query()
def select_texts(
    *, app_name: str, model_id: int, user_ids: list[str], positions: list[int]
) -> Query[Text]:
    """Reads memories by their keys, those that still are without a vector of a model."""


@_sql.query()
def lock_app(*, app_name: str) -> Query[ActiveModel]:
    """Keeps an app's active model, and its vectors, as they are to the transaction's end."""


@_sql.query()
def lock_lacking(*, app_name: str, model_id: int) -> Query[Lacking]:
    """Keeps memories without a vector of a model from being deleted, to the transaction's end.

    Before their jobs are touched, in the order of every writer, so that none deadlocks.
    """


@_sql.query()
def queue_lacking(*, app_name: str, model_id: int) -> Query[Nothing]:
    """Queues the memories without a vector of a model, unless they are queued already."""


@_sql.query()
def renew_jobs(*, app_name: str) -> Query[Nothing]:
    """Lets an app's queued embeddings begin again: claims and failures were another model's."""


@_sql.query()
def end_covered_jobs(*, app_name: str, model_id: int) -> Query[Nothing]:
    """Ends an app's queued embeddings where the model's vector is there."""


@_sql.query()
def set_active(*, app_name: str, model_id: int) -> Query[Nothing]:
    """Makes a model the active one of an app."""


@_sql.query()
def hold_model(*, model_id: int) -> Query[ModelId]:
    """Keeps others from activating or dropping a model to the transaction's end; no row if gone."""


@_sql.query()
def lock_model(*, model_id: int) -> Query[ModelId]:
    """Keeps others from storing vectors of a model, too."""


@_sql.query()
def select_active_apps(*, model_id: int) -> Query[AppKey]:
    """Reads the apps that are searched with a model, by name."""


@_sql.query()
def delete_scopes(*, model_id: int) -> Query[Nothing]:
    """Lets no user's searches use a model's index any more."""


@_sql.query()
def delete_some_vectors(
    *,
    model_id: int,
    after_app: str,
    after_user: str,
    after_position: int,
    after_passage: int,
    limit: int,
) -> Query[Vector]:
    """Deletes some of a model's vectors after a place, by app, user, position and passage."""


@_sql.query()
def delete_vectors(*, model_id: int) -> Query[Deleted]:
    """Deletes all vectors of a model."""


@_sql.query()
def delete_model(*, model_id: int) -> Query[Nothing]:
    """Deletes a model that has no vectors left."""
