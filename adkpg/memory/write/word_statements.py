"""Statements that set an app's configuration, and derive its memories' words again. No I/O."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Text,
    and_,
    bindparam,
    cast,
    column,
    delete,
    func,
    select,
    table,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from adkpg.keys import AppKey
from adkpg.memory.write.posting_steps import length_of, posted_words, words_of
from adkpg.sql import APP_NAME, NoParameters, Statement, given_rows
from adkpg.tables import app_settings, memories, memory_lexemes


class ConfigParameters(AppKey):
    """An app's own configuration; None for none."""

    own: str | None


class BodiesParameters(AppKey):
    """A page of an app's memories."""

    limit: int
    after_user: str
    after_position: int


class PlacesParameters(AppKey):
    """Memories of several users, in parallel."""

    user_ids: list[str]
    positions: list[int]


class WordsParameters(PlacesParameters):
    """Their texts as `searchable` prepares them, in parallel."""

    config: str
    words: list[str]
    scripts: list[str | None]


@cache
def select_configs() -> Statement[NoParameters]:
    """Reads the names of the text search configurations, plain where the connection finds them."""
    configs = table("pg_ts_config", column("oid"), column("cfgname"), column("cfgnamespace"))
    schemas = table("pg_namespace", column("oid"), column("nspname"))
    name = cast(configs.c.cfgname, Text)
    qualified = func.concat(schemas.c.nspname, ".", configs.c.cfgname)
    visible = select(name.label("name")).where(func.pg_ts_config_is_visible(configs.c.oid))
    every = select(qualified).select_from(
        configs.join(schemas, schemas.c.oid == configs.c.cfgnamespace)
    )
    return Statement(visible.union_all(every))


@cache
def select_config() -> Statement[AppKey]:
    """Reads an app's own text search configuration; no row or null if it has none."""
    return Statement(
        select(app_settings.c.text_search_config).where(app_settings.c.app_name == APP_NAME)
    )


@cache
def set_config() -> Statement[ConfigParameters]:
    """Sets an app's own text search configuration."""
    own = bindparam("own", type_=Text)
    upsert = insert(app_settings).values(app_name=APP_NAME, text_search_config=own)
    return Statement(
        upsert.on_conflict_do_update(
            index_elements=["app_name"],
            set_={
                "text_search_config": upsert.excluded.text_search_config,
                "updated_at": upsert.excluded.updated_at,
            },
        )
    )


@cache
def hold_writers(schema: str) -> Statement[NoParameters]:
    """Makes whoever writes memories wait, to the transaction's end; searches go on.

    Those that wait take their snapshot after it, so they see what it wrote.

    Args:
      schema: Where the tables are; a lock's table is no parameter.
    """
    return Statement(text(f'LOCK TABLE "{schema}".memories IN EXCLUSIVE MODE'))


@cache
def count_app() -> Statement[AppKey]:
    """Counts an app's memories, dead ones too."""
    return Statement(select(func.count().label("memories")).where(memories.c.app_name == APP_NAME))


@cache
def select_bodies() -> Statement[BodiesParameters]:
    """Reads some of an app's memories, by user and position, after a place."""
    return Statement(
        select(
            memories.c.user_id,
            memories.c.position,
            memories.c.author,
            memories.c.body,
        )
        .where(
            memories.c.app_name == APP_NAME,
            tuple_(memories.c.user_id, memories.c.position)
            > tuple_(
                bindparam("after_user", type_=Text),
                bindparam("after_position", type_=BigInteger),
            ),
        )
        .order_by(memories.c.user_id, memories.c.position)
        .limit(bindparam("limit", type_=Integer))
    )


def _given() -> Any:
    return given_rows(
        user_ids=Text,
        positions=BigInteger,
        words=Text,
        scripts=Text,
    )


def _is(row: Any, given: Any) -> ColumnElement[bool]:
    return and_(
        row.app_name == APP_NAME,
        row.user_id == given.c.user_id,
        row.position == given.c.position,
    )


@cache
def delete_words() -> Statement[PlacesParameters]:
    """Deletes memories' words."""
    given = given_rows(user_ids=Text, positions=BigInteger)
    return Statement(
        delete(memory_lexemes).where(
            memory_lexemes.c.app_name == APP_NAME,
            memory_lexemes.c.user_id == given.c.user_ids,
            memory_lexemes.c.position == given.c.positions,
        )
    )


@cache
def write_words() -> Statement[WordsParameters]:
    """Writes the words of memories that have none; returns how many memories have new ones."""
    unnested = _given()
    source = select(
        unnested.c.user_ids.label("user_id"),
        unnested.c.positions.label("position"),
        unnested.c.words,
        unnested.c.scripts.label("script"),
    ).subquery("source")
    given = select(source.c.user_id, source.c.position, words_of(source)).cte("given")
    measured = (
        update(memories)
        .where(_is(memories.c, given))
        .values(length=length_of(given.c.words))
        .returning(*(memories.c[each] for each in ("app_name", "user_id", "position", "length")))
        .cte("measured")
    )
    posted = posted_words(measured, given, _is(measured.c, given))
    return Statement(select(func.count().label("written")).select_from(measured).add_cte(posted))
