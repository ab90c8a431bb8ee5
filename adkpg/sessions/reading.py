"""Reading sessions: one, all, in pages; a user's state."""

from datetime import datetime
from typing import Any

from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session

from adkpg.database import Database
from adkpg.errors import InvalidInput
from adkpg.keys import storable
from adkpg.sessions import pages, reading_statements, records
from adkpg.sessions.cache import Key, SharedEvents, again
from adkpg.sessions.state import loads
from adkpg.timestamps import clamped


class StoredSessions:
    """What is stored of sessions, each answer from one snapshot."""

    _database: Database
    _shared: SharedEvents | None

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Returns a session with its merged state and its events in append order, or None.

        Args:
          app_name: The app.
          user_id: The user.
          session_id: The id, stripped of surrounding blanks.
          config: ``after_timestamp`` keeps events at or after it (Unix seconds, inclusive);
            ``num_recent_events`` the last so many of those, 0 none. The state is always whole.
        """
        session_id = session_id.strip()
        if not storable(app_name=app_name, user_id=user_id, session_id=session_id):
            return None
        recent = config.num_recent_events if config else None
        after = config.after_timestamp if config else None
        wanted = recent != 0
        if self._shared is not None and recent is None and after is None:
            return await self._get_again(self._shared, (app_name, user_id, session_id))
        statement = reading_statements.select_session(
            events_wanted=wanted, after=wanted and after is not None, recent=bool(recent)
        )
        row = await self._database.fetch_one(
            statement,
            {
                "app_name": app_name,
                "user_id": user_id,
                "session_id": session_id,
                "after": None if after is None else clamped(after),
                "limit": recent,
            },
        )
        if row is None:
            return None
        return records.session(
            app_name=app_name,
            row=row,
            app_state=row["app_state"],
            user_state=row["user_state"],
            payloads=row["payloads"] if wanted else (),
        )

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Returns all sessions of an app, or of one user, without events.

        Oldest update first, then by user and id; each with its whole merged state. For many
        sessions use `list_sessions_page`.
        """
        if not storable(app_name=app_name, user_id=user_id):
            return ListSessionsResponse()
        rows = await self._database.fetch(
            reading_statements.list_sessions(one_user=user_id is not None),
            {"app_name": app_name, "user_id": user_id},
        )
        return ListSessionsResponse(sessions=records.listed(app_name, rows))

    async def list_sessions_page(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> pages.SessionsPage:
        """Returns some sessions, newest first: a user's by last update, an app's by creation.

        Args:
          app_name: The app.
          user_id: One user's sessions; None for the whole app's.
          limit: At most so many, at least 1.
          after: The ``next`` of the page before; None starts at the newest.

        Raises:
          InvalidInput: `limit` is below 1, or `after` did not come from a page.
        """
        _require_limit(limit)
        if not storable(app_name=app_name, user_id=user_id):
            return pages.SessionsPage([], None)
        cursor: tuple[datetime, str, str] | tuple[None, None, None] = (None, None, None)
        if after is not None:
            cursor = pages.read_session_cursor(after)
        rows = await self._database.fetch(
            reading_statements.list_sessions_page(
                one_user=user_id is not None, after=after is not None
            ),
            {
                "app_name": app_name,
                "user_id": user_id,
                "limit": limit + 1,
                "after_time": cursor[0],
                "after_user_id": cursor[1],
                "after_session_id": cursor[2],
            },
        )
        following = None
        if len(rows) > limit:
            last = rows[limit - 1]
            moment = last["created_at" if user_id is None else "updated_at"]
            following = pages.session_cursor(moment, last["user_id"], last["session_id"])
        return pages.SessionsPage(records.listed(app_name, rows[:limit]), following)

    async def list_events_page(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        limit: int = 100,
        after: str | None = None,
    ) -> pages.EventsPage:
        """Returns some events of a session in append order; none if it does not exist.

        Args:
          app_name: The app.
          user_id: The user.
          session_id: The id, stripped of surrounding blanks.
          limit: At most so many, at least 1.
          after: The ``next`` of the page before; None starts at the first event.

        Raises:
          InvalidInput: `limit` is below 1, or `after` did not come from a page.
        """
        _require_limit(limit)
        session_id = session_id.strip()
        if not storable(app_name=app_name, user_id=user_id, session_id=session_id):
            return pages.EventsPage([], None)
        rows = await self._database.fetch(
            reading_statements.list_events_page(),
            {
                "app_name": app_name,
                "user_id": user_id,
                "session_id": session_id,
                "after_seq": pages.read_event_cursor(after) if after is not None else 0,
                "limit": limit + 1,
            },
        )
        following = str(rows[limit - 1]["seq"]) if len(rows) > limit else None
        return pages.EventsPage(records.events([row["payload"] for row in rows[:limit]]), following)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Returns a user's state without the ``user:`` prefix; a copy, ``{}`` if there is none."""
        if not storable(app_name=app_name, user_id=user_id):
            return {}
        row = await self._database.fetch_one(
            reading_statements.select_user_state(), {"app_name": app_name, "user_id": user_id}
        )
        return loads(row["state"] if row else None)

    async def _get_again(self, shared: SharedEvents, key: Key) -> Session | None:
        """Reads a whole session: only what is new of it, if its events are kept still."""
        before = shared.get(key)
        row = await self._database.fetch_one(
            reading_statements.select_session_again(), again(key, before)
        )
        if row is None:
            shared.drop(key)
            return None
        session = records.session(
            app_name=key[0],
            row=row,
            app_state=row["app_state"],
            user_state=row["user_state"],
            payloads=row["payloads"],
        )
        had = before if row["had"] else None
        if had is None or session.events:
            shared.keep(key, row, had, session.events)
        if had is not None:
            session.events = [*had.events, *session.events]
        return session


def _require_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidInput(f"limit={limit} is below 1; ask for at least one.")
