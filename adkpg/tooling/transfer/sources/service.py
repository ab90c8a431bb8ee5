"""A live session service as a source: whatever implements ADK's interface."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session

from adkpg import jsontext
from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.sessions.state import parted
from adkpg.timestamps import clamped
from adkpg.tooling.transfer.records import (
    AppState,
    EventRecord,
    Record,
    SessionRecord,
    Unread,
    UserState,
)
from adkpg.tooling.transfer.sources.selection import Selection


class ServiceSource:
    """Reads the sessions of an app, one at a time, through the service's own methods.

    A service reads a session whole, so memory holds the largest one.

    Args:
      service: The service; it stays open.
      selection: What of it is wanted; an app at least.

    Attributes:
      name: What the report calls it.

    Raises:
      ConfigurationError: No app is named: a service lists the sessions of one alone.
    """

    def __init__(self, service: BaseSessionService, selection: Selection) -> None:
        if selection.app_name is None:
            raise ConfigurationError(
                "A session service lists the sessions of one app alone; give app_name."
            )
        self._service = service
        self._app_name = selection.app_name
        self._selection = selection
        self.name = type(service).__name__

    async def close(self) -> None:
        """Does nothing: the service is the caller's."""

    async def total(self) -> int:
        """Returns how many sessions there are."""
        return len(await self._listed())

    async def _listed(self) -> list[Session]:
        found = await self._service.list_sessions(
            app_name=self._app_name, user_id=self._selection.user_id
        )
        return found.sessions

    async def records(self) -> AsyncGenerator[tuple[Record, int]]:
        """Yields sessions with their events, and the states that they share."""
        now = datetime.now(UTC)
        users: set[str] = set()
        done = 0
        for listed in await self._listed():
            done += 1
            session = await self._service.get_session(
                app_name=self._app_name, user_id=listed.user_id, session_id=listed.id
            )
            if session is None:  # deleted meanwhile
                continue
            own, app, user = parted(session.state)
            record = SessionRecord(
                app_name=self._app_name,
                user_id=session.user_id,
                session_id=session.id,
                state=own,
                updated_at=clamped(session.last_update_time),
            )
            if not self._selection.takes_session(record):
                continue
            if app and not users:
                yield AppState(app_name=self._app_name, state=app, updated_at=now), done
            if session.user_id not in users:
                users.add(session.user_id)
                if user:
                    shared = UserState(
                        app_name=self._app_name,
                        user_id=session.user_id,
                        state=user,
                        updated_at=now,
                    )
                    yield shared, done
            yield record, done
            for event in session.events:
                if event.partial:
                    continue
                try:
                    yield EventRecord(event, jsontext.write_event(event)), done
                except InvalidInput as exc:
                    yield (
                        Unread(
                            reason=str(exc),
                            app_name=self._app_name,
                            user_id=session.user_id,
                            session_id=session.id,
                            event_id=event.id,
                        ),
                        done,
                    )
