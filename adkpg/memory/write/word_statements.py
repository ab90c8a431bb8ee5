"""Queries that set an app's configuration and derive words; their SQL is in word_statements.sql."""

from typing import TypedDict

from adkpg.queries import Nothing, Queries, Query

_sql = Queries(__file__)


class Config(TypedDict):
    """The name of a text search configuration."""

    name: str


class AppConfig(TypedDict):
    """An app's own text search configuration."""

    text_search_config: str | None


class Count(TypedDict):
    """How many memories there are."""

    memories: int


class Body(TypedDict):
    """A memory's text, and its place."""

    user_id: str
    position: int
    author: str | None
    body: str


@_sql.query()
def select_configs() -> Query[Config]:
    """Reads the names of the text search configurations, plain where the connection finds them."""


@_sql.query()
def select_config(*, app_name: str) -> Query[AppConfig]:
    """Reads an app's own text search configuration; no row or null if it has none."""


@_sql.query()
def set_config(*, app_name: str, own: str | None) -> Query[Nothing]:
    """Sets an app's own text search configuration; null is none."""


@_sql.query()
def hold_writers() -> Query[Nothing]:
    """Makes writers of memories wait, to the transaction's end; searches go on.

    Those that wait take their snapshot after it, so they see what it wrote.
    """


@_sql.query()
def count_app(*, app_name: str) -> Query[Count]:
    """Counts an app's memories, dead ones too."""


@_sql.query()
def select_bodies(
    *, app_name: str, after_user: str, after_position: int, limit: int
) -> Query[Body]:
    """Reads some of an app's memories, by user and position, after a place."""


@_sql.query()
def delete_words(*, app_name: str, user_ids: list[str], positions: list[int]) -> Query[Nothing]:
    """Deletes the words of memories of several users, whose places are in parallel."""


@_sql.query()
def write_words(
    *,
    app_name: str,
    user_ids: list[str],
    positions: list[int],
    words: list[str],
    scripts: list[str | None],
    config: str,
) -> Query[Nothing]:
    """Writes the words of memories that have none.

    Args:
      app_name: The app.
      user_ids: Whose they are, in parallel with their places.
      positions: Their places.
      words: In parallel, their texts as `searchable` prepares them.
      scripts: In parallel, the configuration of each text's script; null if that says nothing.
      config: The configuration of words without another.
    """
