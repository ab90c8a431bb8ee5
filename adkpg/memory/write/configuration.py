"""Configuration: the text search configuration of all an app's words."""

from collections.abc import Callable

from adkpg.database import Database, Transaction
from adkpg.errors import ConfigurationError
from adkpg.keys import require_storable, storable
from adkpg.memory.drafts import script_of, words_of
from adkpg.memory.write import word_statements as statements
from adkpg.telemetry.calls import on, traced_function

_BATCH = 500


@traced_function(on("app_settings"))
async def text_search_config(database: Database, *, app_name: str) -> str | None:
    """Returns an app's own text search configuration; None if each text's script chooses.

    Args:
      database: Where the memories are.
      app_name: The app.
    """
    if not storable(app_name=app_name):
        return None
    row = await database.run.fetch_one(statements.select_config(app_name=app_name))
    config: str | None = row["text_search_config"] if row else None
    return config


@traced_function(on("app_settings"))
async def set_text_search_config(
    database: Database,
    *,
    app_name: str,
    config: str | None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Sets an app's text search configuration, and derives the words of its memories again.

    In one transaction: a search finds by the old words or by the new ones, never by both. Searches
    go on meanwhile; writers of memories, of any app, wait. Idempotent; it is also what brings
    memories to date after ``ADKPG_TEXT_SEARCH_CONFIG`` was changed.

    Args:
      database: Where the memories are.
      app_name: The app.
      config: A configuration that Postgres has, as ``german``; None goes by each text's script, and
        by ``ADKPG_TEXT_SEARCH_CONFIG`` where that says nothing.
      progress: Is told how many memories are done, and of how many.

    Returns:
      How many memories have new words.

    Raises:
      ConfigurationError: Postgres has no such configuration; nothing was changed.
      InvalidInput: The app's name cannot be stored.
    """
    require_storable(app_name=app_name)
    database.run.require_every_scope()
    if config is not None:
        known = [row["name"] for row in await database.run.fetch(statements.select_configs())]
        if config not in known:
            plain = ", ".join(sorted(name for name in known if "." not in name))
            raise ConfigurationError(
                f"Postgres has no text search configuration {config!r}; it has {plain}."
            )
    # A transaction that stores vectors locks the table of memories and then waits for the app's
    # settings, so no order of the two is safe; a deadlock ends before any word is written.
    return await database.run.transact(
        lambda transaction: _derived(transaction, database, app_name, config, progress)
    )


async def _derived(
    transaction: Transaction,
    database: Database,
    app_name: str,
    config: str | None,
    progress: Callable[[int, int], None] | None,
) -> int:
    # In the order of who changes an app's model: its settings, then its memories.
    await transaction.fetch(statements.set_config(app_name=app_name, own=config))
    await transaction.fetch(statements.hold_writers())
    (counted,) = await transaction.fetch(statements.count_app(app_name=app_name))
    total, done = int(counted["memories"]), 0
    after_user, after_position = "", -(2**63)
    while done < total:
        rows = await transaction.fetch(
            statements.select_bodies(
                app_name=app_name,
                after_user=after_user,
                after_position=after_position,
                limit=_BATCH,
            )
        )
        user_ids = [row["user_id"] for row in rows]
        positions = [row["position"] for row in rows]
        await transaction.fetch(
            statements.delete_words(app_name=app_name, user_ids=user_ids, positions=positions)
        )
        await transaction.fetch(
            statements.write_words(
                app_name=app_name,
                user_ids=user_ids,
                positions=positions,
                words=[words_of(row["author"], row["body"]) for row in rows],
                scripts=[script_of(row["author"], row["body"]) for row in rows],
                config=database.settings.text_search_config,
            )
        )
        after_user, after_position = rows[-1]["user_id"], rows[-1]["position"]
        done += len(rows)
        if progress is not None:
            progress(done, total)
    return total
