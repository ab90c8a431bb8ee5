"""People: the users of one app or of all, page by page, and the apps that keep a user."""

from dataclasses import dataclass
from datetime import datetime

from adkpg.database import Database
from adkpg.keys import storable
from adkpg.limits import page_rows
from adkpg.pages import Page, cursor_of, place_of
from adkpg.telemetry.calls import on, traced_function
from adkpg.tooling.operations import people_statements as statements

_WALKED = 10_000  # users that are looked at for one page, some 0.2 s


@dataclass(frozen=True)
class UserCount:
    """What a user has.

    Attributes:
      app_name: In which app.
      user_id: The user.
      sessions: Sessions that have not ended.
      memories: Memories, expired and superseded ones included.
      updated_at: When the last of the sessions was updated; None without one.
    """

    app_name: str
    user_id: str
    sessions: int
    memories: int
    updated_at: datetime | None


@dataclass(frozen=True)
class AppCount:
    """What an app keeps of a user.

    Attributes:
      app_name: The app.
      sessions: Sessions, expired ones included.
      memories: Memories, expired and superseded ones included.
      files: Saved files, all versions of one counted as one.
      seen_at: When a session was last updated or the latest memory was said; None without both.
    """

    app_name: str
    sessions: int
    memories: int
    files: int
    seen_at: datetime | None


async def app_names(database: Database, *, most: int) -> list[str]:
    """Returns the first apps by name that have a session or a memory.

    Each is looked up after the one before, in one statement, and no table is read through.

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
    """
    database.run.require_every_scope()
    rows = await database.run.fetch(statements.select_app_names(limit=most))
    # Each part of the tables has its own, and some apps are in several.
    return sorted({row["app_name"] for row in rows})[:most]


@traced_function(on("sessions"))
async def list_users(
    database: Database,
    *,
    app_name: str | None,
    part: str = "",
    limit: int = 50,
    cursor: str | None = None,
) -> Page[UserCount]:
    """Returns some users, by app and id: who have a session, a memory or a state.

    Args:
      database: Where they are.
      app_name: The app; None is all apps.
      part: Only those whose id contains this; 10,000 ids are looked at for a page.
      limit: At most this many, at least 1, and at most ``ADKPG_MAX_RESULTS``.
      cursor: The `next_cursor` of the page before; None starts at the first.

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
      InvalidInput: `limit` is below 1, or `cursor` did not come from a page.
    """
    database.run.require_every_scope()
    limit = page_rows(database.settings, limit)
    if not storable(app_name=app_name, part=part):
        return Page([], None)
    first_app, first = app_name or "", ""
    if cursor is not None:
        first_app, last = place_of(cursor, str, str)
        first = last + "\x01"  # the next id by its bytes, because no id has NUL
    rows = await database.run.fetch(
        statements.select_users(
            app_name=app_name,
            first_app=first_app,
            first=first,
            part=part,
            # One of them may be the app's own id.
            walked=max(_WALKED, limit + 2) if part else limit + 2,
            limit=limit + 1,
        )
    )
    # Each part of the tables looked at its own users, up to the one that it reached.
    ends = [
        (app, user)
        for row in rows
        if (app := row["reached_app"]) is not None and (user := row["reached"]) is not None
    ]
    reached = min(ends, default=None)
    found = sorted(
        (
            UserCount(app, user, row["sessions"], row["memories"], row["updated_at"])
            for row in rows
            if (app := row["app_name"]) is not None
            and (user := row["user_id"]) is not None
            and (reached is None or (app, user) <= reached)
        ),
        key=lambda each: (each.app_name, each.user_id),
    )
    if len(found) > limit:
        reached = found[limit - 1].app_name, found[limit - 1].user_id
    return Page(found[:limit], None if reached is None else cursor_of(*reached))


@traced_function(on("sessions"))
async def apps_of(database: Database, *, user_id: str) -> list[AppCount]:
    """Returns the apps that keep anything of a user, by name: rows of any table of persons.

    An app may have files of the user in another artifact service alone. That is not known here.

    Args:
      database: Where they are.
      user_id: The user. Users of two apps with one id are taken for one person.

    Raises:
      ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
    """
    database.run.require_every_scope()
    if not storable(user_id=user_id):
        return []
    rows = await database.run.fetch(statements.select_apps_of(user_id=user_id))
    return [AppCount(**row) for row in rows]
