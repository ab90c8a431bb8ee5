"""Figures: how much an app, a user and a table have."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from adkpg.database import LOOK, Database
from adkpg.errors import InvalidInput
from adkpg.keys import APP_WIDE, require_storable
from adkpg.limits import require_rows
from adkpg.telemetry.calls import on, traced_function
from adkpg.tooling.operations import figures_statements as statements
from adkpg.tooling.operations.catalog_statements import select_sizes

_LONGEST = timedelta(days=36_500)


@dataclass(frozen=True)
class AppFigures:
    """What an app has.

    Attributes:
      app_name: The app.
      users: Who have sessions or memories.
      sessions: Its sessions.
      events: Ever appended to these.
      payload_bytes: Size of these events, as JSON.
      memories: All kinds, expired ones included.
      vectors: Memories that have a vector, by model: of two models they count twice.
      files: Versions of files that agents saved.
      file_bytes: Size of these files, wherever they are.
      waiting: Work of memories that is still to be done.
      dead: Dead letters: work of memories that failed too often.
      new_sessions: Created within the span that was asked for.
      new_events: Said within it, in sessions that still exist.
      new_memories: Stored within it.
    """

    app_name: str
    users: int
    sessions: int
    events: int
    payload_bytes: int
    memories: int
    vectors: int
    files: int
    file_bytes: int
    waiting: int
    dead: int
    new_sessions: int
    new_events: int
    new_memories: int


@dataclass(frozen=True)
class UserFigures:
    """What a user has; the attributes are those of `AppFigures`.

    Attributes:
      user_id: The user; None is what the app knows for all of them.
    """

    app_name: str
    user_id: str | None
    sessions: int
    events: int
    payload_bytes: int
    memories: int
    vectors: int
    files: int
    file_bytes: int
    waiting: int
    dead: int


@dataclass(frozen=True)
class Statistics:
    """What apps and users have.

    Attributes:
      span: What came within it, until now, is new.
      apps: All of them, or the one that was asked for, by name.
      users: Those with most events and memories, most first.
    """

    span: timedelta
    apps: tuple[AppFigures, ...]
    users: tuple[UserFigures, ...]


@dataclass(frozen=True)
class TableFigures:
    """How large a table is.

    Attributes:
      name: Without its schema.
      rows: As the server's catalog estimates them; of a table that it has not looked at, 1 or more
        if the table has any page.
      bytes: Size of the table with the values outside of its rows.
      index_bytes: Size of its indexes.
    """

    name: str
    rows: int
    bytes: int
    index_bytes: int


@traced_function(on("sessions"))
async def statistics(
    database: Database,
    *,
    app_name: str | None = None,
    users: int = 10,
    span: timedelta = timedelta(days=1),
) -> Statistics:
    """Counts what there is, one by one.

    It reads the keys of all sessions and memories, for at most ``ADKPG_MIGRATION_TIMEOUT_S`` in
    each of two statements: ask now and then. `table_sizes` costs nothing.

    Args:
      database: Where it is.
      app_name: An app; None is all.
      users: How many of the largest users are named.
      span: What came within it is new.

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
      InvalidInput: The app's name cannot be stored, or `users` or `span` is out of range.
    """
    require_storable(app_name=app_name)
    require_rows(database.settings, "users", users)
    if not timedelta() < span <= _LONGEST:
        raise InvalidInput(f"span={span} is not within {_LONGEST.days:,} days; give a shorter one.")
    database.run.require_every_scope()
    timeout_s = database.settings.migration_timeout_s
    apps = await database.run.fetch(
        statements.select_apps(app_name=app_name, since=datetime.now(UTC) - span),
        timeout_s=timeout_s,
    )
    largest = await database.run.fetch(
        statements.select_largest(app_name=app_name, limit=users), timeout_s=timeout_s
    )
    return Statistics(
        span,
        tuple(AppFigures(**row) for row in apps),
        tuple(
            replace(figures, user_id=None) if figures.user_id == APP_WIDE else figures
            for figures in (UserFigures(**row) for row in largest)
        ),
    )


@traced_function(on("pg_class"))
async def table_sizes(database: Database) -> tuple[TableFigures, ...]:
    """Returns how large each of adkpg's tables is, largest first; the server's catalog knows it.

    On a cluster it returns none: what lies on its nodes, Citus tells (``citus_tables``).

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
    """
    database.run.require_every_scope()
    if await database.installation.is_distributed():
        return ()
    rows = await database.run.fetch(select_sizes(schema=database.schema), policy=LOOK)
    return tuple(TableFigures(**row) for row in rows)
