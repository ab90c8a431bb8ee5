"""Selection: what of a source is wanted."""

from dataclasses import dataclass
from datetime import datetime

from adkpg.tooling.transfer.records import SessionRecord


@dataclass(frozen=True)
class Selection:
    """What of a source is wanted; None is all.

    Attributes:
      app_name: One app.
      user_id: One user.
      since: Sessions and tasks that were updated at this time or later.
    """

    app_name: str | None = None
    user_id: str | None = None
    since: datetime | None = None

    def takes(self, app_name: str, user_id: str | None) -> bool:
        """Whether what belongs to a user, or for None to all users of an app, is wanted."""
        return self.app_name in (None, app_name) and self.user_id in (None, user_id)

    def takes_session(self, session: SessionRecord) -> bool:
        """Whether a session is wanted; one of unknown age is."""
        return self.takes(session.app_name, session.user_id) and self.takes_time(session.updated_at)

    def takes_time(self, updated_at: datetime | None) -> bool:
        """Whether what was updated at a time is wanted; what is of unknown age is."""
        return self.since is None or updated_at is None or updated_at >= self.since
