"""Figures: how much an app, a user and a table have, and how fast it grows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from adkpg.database import Database
from adkpg.errors import InvalidInput
from adkpg.keys import APP_WIDE, require_storable
from adkpg.limits import require_rows
from adkpg.operations import figures_statements as statements
from adkpg.operations.nodes.measures import measure
from adkpg.sampling_statements import (
    FEW,
    MOST_APPS,
    few_of,
    percent,
    select_app_names,
    select_pages,
)
from adkpg.tables import events, memories, sessions
from adkpg.telemetry.calls import on, traced_function

_LONGEST = timedelta(days=36_500)
_CANDIDATES = 3  # for each user that is named, so many are counted


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
      estimated: Whether some of these are estimates, from samples of large tables.
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
    estimated: bool = False


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
    exact: bool = True,
) -> Statistics:
    """Counts what there is.

    Args:
      database: Where it is.
      app_name: An app; None is all.
      users: How many of the largest users are named.
      span: Of the rates.
      exact: Whether everything is counted: that reads the keys of all sessions and memories, so
        ask now and then. False estimates apps from samples of tables above some 100 MB, and counts
        what those users have who have most in the samples; it names 1,000 apps at most.

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
      InvalidInput: The app's name cannot be stored, or `users` or `span` is out of range.
    """
    require_storable(app_name=app_name)
    require_rows(database.settings, "users", users)
    if not timedelta() < span <= _LONGEST:
        raise InvalidInput(f"span={span} is not within {_LONGEST.days:,} days; give a shorter one.")
    database.require_every_scope()
    since = datetime.now(UTC) - span
    shares = {} if exact else await _shares(database)
    if shares:
        estimate = _Estimate(database, app_name, since, shares)
        apps = await estimate.apps()
        largest = await estimate.largest(users)
    else:
        timeout_s = database.settings.migration_timeout_s
        rows = await database.fetch(
            statements.select_apps(), {"app_name": app_name, "since": since}, timeout_s=timeout_s
        )
        apps = [AppFigures(**dict(row)) for row in rows]
        largest = await database.fetch(
            statements.select_largest(), {"app_name": app_name, "limit": users}, timeout_s=timeout_s
        )
    return Statistics(
        span,
        tuple(apps),
        tuple(UserFigures(**{**row, "user_id": _user(row["user_id"])}) for row in largest),
        await table_sizes(database),
    )


@traced_function(on("pg_class"))
async def table_sizes(database: Database) -> tuple[TableFigures, ...]:
    """Returns how large each of adkpg's tables is, largest first; the server's catalogs know it.

    On a cluster, all parts of a table together; of one that is copied, the largest copy.

    Raises:
      DatabaseUnavailable: A node of a cluster does not answer; the message names it.
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
    """
    database.require_every_scope()
    rows = await measure(database, statements.select_sizes())
    found = [
        TableFigures(row["name"], row["rows"], row["bytes"], row["index_bytes"]) for row in rows
    ]
    return tuple(sorted(found, key=lambda each: (-each.bytes - each.index_bytes, each.name)))


@traced_function(on("sessions"))
async def growth(
    database: Database, *, app_name: str | None = None, days: int = 30, exact: bool = True
) -> tuple[Day, ...]:
    """Returns what came on each of the last days, today included; a day without anything is 0.

    Args:
      database: Where it is.
      app_name: An app; None is all.
      days: How many, from 1 on.
      exact: Whether everything is counted. False estimates the days from samples of tables above
        some 100 MB, unless it is about an app that has little there.

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
      InvalidInput: The app's name cannot be stored, or `days` is out of range.
    """
    require_storable(app_name=app_name)
    require_rows(database.settings, "days", days)
    database.require_every_scope()
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = today - timedelta(days=days - 1)
    shares = {} if exact else await _shares(database)
    came: dict[str, dict[date, int]] = {}
    for table in (sessions, events, memories):
        share = shares.get(table.name)
        if share is not None and app_name is not None:
            count = await database.fetch_one(
                statements.count_few(table), {"app_name": app_name, "limit": FEW}
            )
            share = None if count is not None and count["counted"] < FEW else share
        rows = await database.fetch(
            statements.select_days(table, app=app_name is not None, whole=share is None),
            {"app_name": app_name, "since": first, "percent": share or 100.0},
            timeout_s=database.settings.migration_timeout_s,
        )
        came[table.name] = {row["day"]: _scaled(row["came"], share) for row in rows}
    each = [(first + timedelta(days=n)).date() for n in range(days)]
    return tuple(
        Day(day, *(came[table.name].get(day, 0) for table in (sessions, events, memories)))
        for day in each
    )


class _Estimate:
    """Figures from samples: a statement for each table, which reads as much of a large one.

    Args:
      database: Where it is.
      app_name: An app; None is all.
      since: From when on something is new.
      shares: How much of each large table is read, in percent.
    """

    def __init__(
        self, database: Database, app_name: str | None, since: datetime, shares: dict[str, float]
    ) -> None:
        self._database = database
        self._app_name = app_name
        self._since = since
        self._shares = shares

    async def apps(self) -> list[AppFigures]:
        """Returns the apps, by name. What one has little of is counted."""
        names = await self._names()
        few = few_of(len(names))
        found: dict[str, Counter[str]] = {name: Counter() for name in names}
        estimated: set[str] = set()
        for table in (*statements.COUNTED, events):
            asked = names
            if table is events:  # of few sessions: those of others are not all that there are
                asked = [name for name in names if found[name]["sessions"] < few]
            counted, large = await self._table(table, names, asked, few)
            for name, figures in counted.items():
                found[name].update(figures)
            estimated |= large
        users = await self._users(names, few)
        return [
            AppFigures(
                name,
                users=users.get(name, 0),
                **{each: found[name][each] for each in statements.FIGURES},
                estimated=name in estimated,
            )
            for name in names
        ]

    async def largest(self, users: int) -> Sequence[Any]:
        """Returns what those have who have most in the samples."""
        most: Counter[tuple[str, str]] = Counter()
        for table in (sessions, memories):
            share = self._shares.get(table.name)
            rows = await self._database.fetch(
                statements.select_largest_of(table, whole=share is None),
                {
                    "app_name": self._app_name,
                    "limit": _CANDIDATES * users,
                    "percent": share or 100.0,
                },
            )
            for row in rows:
                most[row["app_name"], row["user_id"]] += _scaled(row["most"], share)
        chosen = [key for key, _ in most.most_common(_CANDIDATES * users)]
        rows = await self._database.fetch(
            statements.select_some_users(),
            {"app_names": [app for app, _ in chosen], "user_ids": [user for _, user in chosen]},
        )
        return rows[:users]

    async def _names(self) -> list[str]:
        rows = await self._database.fetch(
            select_app_names(), {"app_name": self._app_name, "limit": MOST_APPS}
        )
        return [row["app_name"] for row in rows]

    async def _table(
        self, table: Any, names: list[str], asked: list[str], few: int
    ) -> tuple[dict[str, dict[str, int]], set[str]]:
        """Returns the figures of a table by app, and of which apps they are estimates."""
        share = self._shares.get(table.name)
        rows = await self._database.fetch(
            statements.select_some(table, whole=share is None),
            {"app_name": self._app_name, "since": self._since, "percent": share or 100.0},
        )
        found = {
            row["app_name"]: {
                name: _scaled(row[name], share) for name in statements.FIGURES if row[name]
            }
            for row in rows
            if row["app_name"] in names
        }
        if share is None:
            return found, set()
        large = set(names)
        for row in await self._database.fetch(
            statements.select_few(table),
            {"app_names": asked, "limit": few, "since": self._since},
        ):
            if row["counted"] < few:
                found[row["app_name"]] = {
                    name: value or 0 for name, value in row.items() if name in statements.FIGURES
                }
                large.discard(row["app_name"])
        return found, large

    async def _users(self, names: list[str], few: int) -> dict[str, int]:
        """Returns how many users the apps have; of large ones those of sessions or of memories."""
        found: Counter[str] = Counter()
        for table in (sessions, memories):
            share = self._shares.get(table.name)
            rows = await self._database.fetch(
                statements.select_user_numbers(table, whole=share is None),
                {"app_name": self._app_name, "percent": share or 100.0},
            )
            for row in rows:
                number = row["users"] if share is None else _all_users(row, share)
                found[row["app_name"]] = max(found[row["app_name"]], number)
        rows = await self._database.fetch(
            statements.select_few_users(), {"app_names": names, "limit": few}
        )
        for row in rows:
            # All of them, where they are few; else some.
            found[row["app_name"]] = max(found[row["app_name"]], row["users"])
        return dict(found)


async def _shares(database: Database) -> dict[str, float]:
    """Returns how much of each large table a sample reads, in percent."""
    rows = await database.fetch(select_pages(), {"schema": database.schema})
    shares = {row["name"]: percent(row["pages"]) for row in rows}
    return {name: share for name, share in shares.items() if share is not None}


def _scaled(count: int, share: float | None) -> int:
    return count if share is None else round(count * 100 / share)


def _all_users(row: Any, share: float) -> int:
    """Estimates how many users there are from those of a sample of pages, as ANALYZE does.

    That is the estimator of Haas and Stokes, over pairs of page and user.
    """
    users, once, places = int(row["users"]), int(row["once"]), int(row["places"])
    return round(users * places / (places - once + once * share / 100))


def _user(user_id: str) -> str | None:
    return None if user_id == APP_WIDE else user_id
