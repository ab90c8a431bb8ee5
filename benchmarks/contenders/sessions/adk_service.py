"""Session services of ADK's interface, as they are measured."""

from collections.abc import Sequence
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService
from google.adk.sessions.session import Session

from benchmarks.contenders.sessions.contender import APP, Seen, content


class AdkService:
    """A service of ADK's interface.

    Args:
      service: The service.
    """

    def __init__(self, service: BaseSessionService) -> None:
        self._service = service

    async def create(self, user_id: str, session_id: str, state: dict[str, Any]) -> Session:
        return await self._service.create_session(
            app_name=APP, user_id=user_id, session_id=session_id, state=state
        )

    async def append(self, live: Session, event: Event) -> None:
        await self._service.append_event(live, event)

    async def get(self, user_id: str, session_id: str) -> Session:
        found = await self._service.get_session(
            app_name=APP, user_id=user_id, session_id=session_id
        )
        assert found is not None
        return found

    async def list_sessions(self, user_id: str, limit: int) -> Sequence[str]:
        # ADK's interface has no pages: all come, oldest update first.
        found = await self._service.list_sessions(app_name=APP, user_id=user_id)
        return [session.id for session in found.sessions[: -limit - 1 : -1]]

    def prepared(self, event: Event) -> Event:
        return event

    def seen(self, live: Session) -> Seen:
        return Seen([(event.id, content(event)) for event in live.events], dict(live.state))
