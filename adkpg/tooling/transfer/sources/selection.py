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
      since: Sessions that were updated at this time or later.
    """

    app_name: str | None = None
    user_id: str | None = None
    since: datetime | None = None

    def takes(self, app_name: str, user_id: str | None) -> bool:
        """Whether what belongs to a user, or for None to all users of an app, is wanted."""
        return self.app_name in (None, app_name) and self.user_id in (None, user_id)

    def takes_session(self, session: SessionRecord) -> bool:
        """Whether a session is wanted; one of unknown age is."""
        if not self.takes(session.app_name, session.user_id):
            return False
        return self.since is None or session.updated_at is None or session.updated_at >= self.since
