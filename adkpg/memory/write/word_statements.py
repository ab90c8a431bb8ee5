"""Statements that derive memories' words anew, and change their text in place. No I/O."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Delete,
    Executable,
    Integer,
    Select,
    Text,
    Update,
    and_,
    bindparam,
    cast,
    column,
    delete,
    func,
    literal_column,
    select,
    table,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import JSON, TIMESTAMP, insert

from adkpg.memory.write.postings import length_of, posted_words, word_vectors
from adkpg.memory.write.statements import erased
from adkpg.sql import APP_NAME, given_rows, in_scope, to_be_extracted
from adkpg.tables import (
    app_settings,
    memories,
    memory_jobs,
    memory_lexemes,
    memory_provenance,
    memory_vectors,
)

_POSITION = bindparam("position", type_=BigInteger)


@cache
def select_configs() -> CompoundSelect[Any]:
    """Reads the names of the text search configurations, plain where the connection finds them."""
    configs = table("pg_ts_config", column("oid"), column("cfgname"), column("cfgnamespace"))
    schemas = table("pg_namespace", column("oid"), column("nspname"))
    name = cast(configs.c.cfgname, Text)
    qualified = func.concat(schemas.c.nspname, ".", configs.c.cfgname)
    return (
        select(name.label("name"))
        .where(func.pg_ts_config_is_visible(configs.c.oid))
        .union_all(
            select(qualified).select_from(
                configs.join(schemas, schemas.c.oid == configs.c.cfgnamespace)
            )
        )
    )


@cache
def select_config() -> Select[Any]:
    """Reads an app's own text search configuration; no row or null if it has none.

    Parameters: app_name.
    """
    return select(app_settings.c.text_search_config).where(app_settings.c.app_name == APP_NAME)


@cache
def set_config() -> Executable:
    """Sets an app's own text search configuration. Parameters: app_name, own (null for none)."""
    own = bindparam("own", type_=Text)
    upsert = insert(app_settings).values(app_name=APP_NAME, text_search_config=own)
    return upsert.on_conflict_do_update(
        index_elements=["app_name"],
        set_={"text_search_config": upsert.excluded.text_search_config, "updated_at": func.now()},
    )


@cache
def hold_writers(schema: str) -> Executable:
    """Makes whoever writes memories wait, to the transaction's end; searches go on.

    Those that wait take their snapshot behind it, so they see what it wrote.

    Args:
      schema: Where the tables are; a lock's table is no parameter.
    """
    return text(f'LOCK TABLE "{schema}".memories IN EXCLUSIVE MODE')


@cache
def count_app() -> Select[Any]:
    """Counts an app's memories, dead ones too. Parameters: app_name."""
    return select(func.count().label("memories")).where(memories.c.app_name == APP_NAME)


@cache
def select_bodies() -> Select[Any]:
    """Reads some of an app's memories, by user and position, behind a place.

    Parameters: app_name, limit, after_user, after_position.
    """
    return (
        select(
            memories.c.user_id,
            memories.c.position,
            memories.c.author,
            memories.c.body,
            memories.c.timestamp,
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
        timestamps=TIMESTAMP(timezone=True),
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
def delete_words() -> Delete:
    """Deletes memories' words. Parameters: app_name, and parallel user_ids, positions."""
    given = given_rows(user_ids=Text, positions=BigInteger)
    return delete(memory_lexemes).where(
        memory_lexemes.c.app_name == APP_NAME,
        memory_lexemes.c.user_id == given.c.user_ids,
        memory_lexemes.c.position == given.c.positions,
    )


@cache
def write_words() -> Select[Any]:
    """Writes the words of memories that have none.

    Parameters: app_name, config, and in parallel arrays user_ids, positions, timestamps, words (as
    `searchable` prepares them), scripts. Returns how many memories have new words.
    """
    unnested = _given()
    source = select(
        unnested.c.user_ids.label("user_id"),
        unnested.c.positions.label("position"),
        unnested.c.timestamps.label("timestamp"),
        unnested.c.words,
        unnested.c.scripts.label("script"),
    ).subquery("source")
    given = select(source.c.user_id, source.c.position, *word_vectors(source)).cte("given")
    measured = (
        update(memories)
        .where(_is(memories.c, given))
        .values(length=length_of(given.c.words))
        .returning(memories.c.app_name, memories.c.user_id, memories.c.position)
        .cte("measured")
    )
    posted = posted_words(measured, given, _is(measured.c, given))
    return select(func.count().label("written")).select_from(measured).add_cte(posted)


@cache
def update_text() -> Update:
    """Changes a memory's text. Parameters: app_name, user_id, position, content, body."""
    return (
        update(memories)
        .where(in_scope(memories), memories.c.position == _POSITION)
        .values(
            content=cast(bindparam("content", type_=Text), JSON),
            body=bindparam("body", type_=Text),
        )
    )


@cache
def forget_derived() -> Select[Any]:
    """Deletes what was made of a memory's text: its vectors, and the facts drawn from it.

    Parameters: app_name, user_id, position, memory_id.
    """
    vectors = (
        delete(memory_vectors)
        .where(in_scope(memory_vectors), memory_vectors.c.position == _POSITION)
        .cte("vectors")
    )
    drawn = (
        select(
            memory_provenance.c.app_name, memory_provenance.c.user_id, memory_provenance.c.memory_id
        )
        .where(
            in_scope(memory_provenance),
            memory_provenance.c.origin_id == bindparam("memory_id", type_=Text),
        )
        .cte("drawn")
    )
    gone = erased(drawn).returning(memories.c.memory_id).cte("erased")
    return select(func.count().label("erased")).select_from(gone).add_cte(vectors)


@cache
def queue_again() -> Executable:
    """Makes a memory wait for what its text is used for, whatever became of it before.

    Parameters: app_name, user_id, position.
    """
    here = [in_scope(memories), memories.c.position == _POSITION]
    key = [memories.c.app_name, memories.c.user_id, memories.c.position]
    rows = (
        select(*key, literal_column("'embed'"))
        .where(*here)
        .union_all(
            select(*key, literal_column("'extract'")).where(*here, to_be_extracted(memories.c.kind))
        )
    )
    upsert = insert(memory_jobs).from_select(["app_name", "user_id", "position", "task"], rows)
    return upsert.on_conflict_do_update(
        index_elements=["app_name", "user_id", "position", "task"],
        set_={
            "due_at": func.now(),
            "lease_expires_at": None,
            "attempts": 0,
            "error": None,
            "dead": False,
        },
    )
