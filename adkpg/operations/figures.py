"""Figures: how much an app, a user and a table have, and how fast it grows."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from adkpg.database import Database
from adkpg.keys import APP_WIDE, require_storable
from adkpg.limits import require_rows
from adkpg.operations import figures_statements as statements
from adkpg.telemetry.calls import on, traced_function


@dataclass(frozen=True)
class AppFigures:
    """What an app has.

    Attributes:
      app_name: The app.
      users: Who have sessions or memories.
      sessions: Its sessions.
      events: Ever appended to these.
      payload_bytes: Of these events, as JSON.
      memories: All kinds, expired ones included.
      vectors: Memories that have a vector, by model: of two models they count twice.
      files: Versions of files that agents saved.
      file_bytes: Of these, wherever they lie.
      waiting: Work of memories that is still to be done.
      dead: Work that was given up.
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
class TableFigures:
    """How large a table is.

    Attributes:
      name: Without its schema.
      rows: As the server estimates them.
      bytes: Of the table and what lies outside of its rows.
      index_bytes: Of its indexes.
    """

    name: str
    rows: int
    bytes: int
    index_bytes: int


@dataclass(frozen=True)
class Day:
    """What came in a day, of what still exists.

    Attributes:
      day: In UTC.
      sessions: Created.
      events: Said.
      memories: Stored.
    """

    day: date
    sessions: int
    events: int
    memories: int


@dataclass(frozen=True)
class Statistics:
    """Sizes and rates of a database.

    Attributes:
      span: Of the rates: until now.
      apps: All of them, or the one that was asked for, by name.
      users: Those with most events and memories, most first.
      tables: All of adkpg's, largest first.
    """

    span: timedelta
    apps: tuple[AppFigures, ...]
    users: tuple[UserFigures, ...]
    tables: tuple[TableFigures, ...]


@traced_function(on("sessions"))
async def statistics(
    database: Database,
    *,
    app_name: str | None = None,
    users: int = 10,
    span: timedelta = timedelta(days=1),
) -> Statistics:
    """Counts what there is: reads the keys of all sessions and memories, so ask now and then.

    Args:
      database: Where it is.
      app_name: An app; None is all.
      users: How many of the largest users are named.
      span: Of the rates.

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
      InvalidInput: The app's name cannot be stored, or `users` is out of range.
    """
    require_storable(app_name=app_name)
    require_rows(database.settings, "users", users)
    database.require_every_scope()
    timeout_s = database.settings.migration_timeout_s
    apps = await database.fetch(
        statements.select_apps(),
        {"app_name": app_name, "since": datetime.now(UTC) - span},
        timeout_s=timeout_s,
    )
    largest = await database.fetch(
        statements.select_largest(), {"app_name": app_name, "limit": users}, timeout_s=timeout_s
    )
    tables = await database.look(
        statements.select_sizes(), {"schema": database.schema}, timeout_s=timeout_s
    )
    return Statistics(
        span,
        tuple(AppFigures(**dict(row)) for row in apps),
        tuple(UserFigures(**{**row, "user_id": _user(row["user_id"])}) for row in largest),
        tuple(TableFigures(**dict(row)) for row in tables),
    )


@traced_function(on("sessions"))
async def growth(
    database: Database, *, app_name: str | None = None, days: int = 30
) -> tuple[Day, ...]:
    """Returns what came on each of the last days, today included; a day without anything is 0.

    Args:
      database: Where it is.
      app_name: An app; None is all.
      days: How many, from 1 on.

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
      InvalidInput: The app's name cannot be stored, or `days` is out of range.
    """
    require_storable(app_name=app_name)
    require_rows(database.settings, "days", days)
    database.require_every_scope()
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = today - timedelta(days=days - 1)
    rows = await database.fetch(
        statements.select_growth(),
        {"app_name": app_name, "since": first},
        timeout_s=database.settings.migration_timeout_s,
    )
    came = {row["day"]: Day(**dict(row)) for row in rows}
    each = [(first + timedelta(days=n)).date() for n in range(days)]
    return tuple(came.get(day, Day(day, 0, 0, 0)) for day in each)


def _user(user_id: str) -> str | None:
    return None if user_id == APP_WIDE else user_id
