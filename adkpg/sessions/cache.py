"""SharedEvents: events that were read once, for later readers of their session."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.adk.events.event import Event

from adkpg.jsontext import UNREADABLE
from adkpg.queries import Query
from adkpg.sessions.history import History
from adkpg.sessions.reading_statements import StoredSessionAgain, select_session_again

Key = tuple[str, str, str]

EVENT_BYTES = 6_000
"""Bytes of an ADK event in Python besides its texts: about 18 objects, most of them half empty."""


@dataclass(frozen=True)
class Prefix:
    """All events of a session up to a revision, which never change while they are stored.

    Attributes:
      incarnation: The session's; one created again under the same id has another.
      revision: The session's when they were read; the seq of the last event.
      token: The last event's; an event of the same number in another history has another.
      events: In append order; never empty.
      size: An estimate, in bytes.
    """

    incarnation: str
    revision: int
    token: str
    events: tuple[Event, ...]
    size: int


def again(key: Key, prefix: Prefix | None) -> Query[StoredSessionAgain]:
    """Returns what reads of a session that which is not kept."""
    return select_session_again(
        app_name=key[0],
        user_id=key[1],
        session_id=key[2],
        incarnation=prefix.incarnation if prefix else None,
        revision=prefix.revision if prefix else None,
        revision_token=prefix.token if prefix else None,
        count=len(prefix.events) if prefix else None,
    )


class SharedEvents:
    """The events of the sessions that were read last, up to a size.

    All readers share them: a reader that changed one would change it for the others. The events
    kept may be out of date; the statement that reads the rest tells. Safe to use from many tasks,
    event loops and threads.

    Args:
      max_bytes: Estimated size, at least 0; the session unused for longest goes first, and one
        that is larger by itself is not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._prefixes: OrderedDict[Key, Prefix] = OrderedDict()
        self._size = 0

    def get(self, key: Key) -> Prefix | None:
        """Returns what is kept of a session."""
        with self._lock:
            prefix = self._prefixes.get(key)
            if prefix is not None:
                self._prefixes.move_to_end(key)
            return prefix

    def keep(self, key: Key, row: Mapping[str, Any], before: Prefix | None, new: History) -> None:
        """Keeps what a session's reader has now, instead of what was kept of it.

        Nothing is kept of a session whose last event was deleted, or with new events that could
        not be read: another time they may be.

        Args:
          key: App, user and session.
          row: From `reading_statements.select_session_again`.
          before: The events that the reader had already; None if the new ones are all.
          new: The events of the row, and those that it had no room for.
        """
        token = row["revision_token"]
        if token is None or any(event.error_code == UNREADABLE for event in new.events):
            self.drop(key)
            return
        prefix = Prefix(
            incarnation=row["incarnation"],
            revision=row["revision"],
            token=token,
            events=(*(before.events if before else ()), *new.events),
            size=(before.size if before else 0) + new.size + EVENT_BYTES * len(new.events),
        )
        with self._lock:
            self._remove(key)
            if prefix.size > self._max_bytes:
                return
            self._prefixes[key] = prefix
            self._size += prefix.size
            while self._size > self._max_bytes:
                self._remove(next(iter(self._prefixes)))

    def drop(self, key: Key) -> None:
        """Forgets a session."""
        with self._lock:
            self._remove(key)

    def erased(self, app_name: str, user_id: str, session_id: str | None) -> None:
        """Forgets a person's sessions, or one of them."""
        with self._lock:
            for key in list(self._prefixes):
                if key[:2] == (app_name, user_id) and session_id in (None, key[2]):
                    self._remove(key)

    def _remove(self, key: Key) -> None:
        prefix = self._prefixes.pop(key, None)
        if prefix is not None:
            self._size -= prefix.size
