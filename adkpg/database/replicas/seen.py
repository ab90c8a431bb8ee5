"""Seen: when this process saw something new, so that no read goes back behind it. Pure.

What was written or seen is remembered as a time for each scope: a user of an app, or an app. A
standby may answer if it has all that the primary had at a later time (`horizon`), or if it is the
one that showed what was seen. It is bounded: what is evicted raises one floor, so a bound costs
reads on the primary and never an answer that is too old.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from adkpg.keys import APP_WIDE

_MOST = 20_000
_MOST_SCOPES = 1_000

Key = tuple[Hashable, ...]


class Subject(NamedTuple):
    """What a read is about.

    Attributes:
      app_name: The app.
      user_id: None: all users of the app.
      session_id: The one session that is read with its states, if it is one.
      memories: Whether it reads memories, the app's too, and not sessions.
    """

    app_name: str
    user_id: str | None
    session_id: str | None = None
    memories: bool = False


class Sight(NamedTuple):
    """When something new was seen last.

    Attributes:
      at: In monotonic seconds, after the answer came.
      server: The standby that showed it, which goes on showing it; None: any other server.
    """

    at: float
    server: float | None = None


class Revision(NamedTuple):
    """What tells a session from an older or another one; names as `Marker` has them."""

    incarnation: str
    revision: int
    token: str | None

    def lacks(self, known: "Revision") -> bool:
        """Whether it is less than what was known of the same session, or of another history."""
        if known.incarnation != self.incarnation:
            return False
        if known.revision == self.revision:
            # The token goes with its event, which may have been deleted.
            return self.token is not None and self.token != known.token
        return self.revision < known.revision


@dataclass(frozen=True, slots=True)
class Need:
    """What an answer must not be older than.

    Attributes:
      subject: What is read.
      at: When this was all that had been seen, in monotonic seconds.
      sights: All of them must be shown.
      revision: That of the session, if it was seen.
      shown: Whether it was a standby that showed it.
    """

    subject: Subject
    at: float
    sights: tuple[Sight, ...]
    revision: Revision | None = None
    shown: bool = False

    def met_by(self, server: float, reached_at: float) -> bool:
        """Whether a standby shows it that has all until a moment."""
        return all(sight.server == server or sight.at <= reached_at for sight in self.sights)


class Told(NamedTuple):
    """What an answer tells of its subject.

    Attributes:
      question: What tells apart what was asked of the subject.
      stamp: What changes with the answer; None: the answer may be new whenever it comes.
      revision: That of the session.
      versions: Those of the states that it has: ``app_state_version`` and ``user_state_version``.
    """

    question: Hashable = None
    stamp: Hashable = None
    revision: Revision | None = None
    versions: Mapping[str, int | None] = MappingProxyType({})


class _Known(NamedTuple):
    """The last revision of a session that was seen."""

    revision: Revision
    sight: Sight


class Seen:
    """What this process has written and seen, up to a number of things. Threads may share it.

    Args:
      most: How many things.
      clock: Tells seconds that only grow.

    Attributes:
      lost_at: When the primary had lost what was seen, in monotonic seconds.
    """

    def __init__(self, most: int = _MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, Any] = OrderedDict()  # what was put first is evicted first
        self._floor = Sight(-math.inf)
        self.lost_at = -math.inf

    def now(self) -> float:
        """Returns the moment, in monotonic seconds."""
        return self._clock()

    def need(self, subject: Subject) -> Need:
        """Returns what an answer must not be older than."""
        app_name, user_id = subject.app_name, subject.user_id
        keys: list[Key] = [("at", app_name)]
        if user_id is None:
            keys.append(("users", app_name))
        else:
            keys.append(("at", app_name, user_id))
        if subject.memories:
            keys.append(("at", app_name, APP_WIDE))
        with self._lock:
            found = [self._entries.get(key) for key in keys]
            sights = (self._floor, *(sight for sight in found if sight is not None))
            known = self._entries.get(("session", app_name, user_id, subject.session_id))
            at = self._clock()
        if known is None:
            return Need(subject, at, sights)
        return Need(subject, at, sights, known.revision, known.sight.server is not None)

    def wrote(self, parameters: Mapping[str, Any]) -> None:
        """Notes that a statement may have changed anything of the scopes that it names.

        With an ``app_delta`` it is the app's state, too, which all its users see.
        """
        apps, users = parameters.get("app_names"), parameters.get("user_ids")
        app_name, user_id = parameters.get("app_name"), parameters.get("user_id")
        with self._lock:
            at = self._clock()
            if isinstance(app_name, str):
                of_app = not isinstance(user_id, str) or parameters.get("app_delta") is not None
                self._raise(app_name, user_id, Sight(at), also_app=of_app)
            elif apps is not None and users is not None and len(apps) <= _MOST_SCOPES:
                for each in set(zip(apps, users, strict=False)):
                    self._raise(*each, Sight(at))
            else:
                self._floor = Sight(at)

    def saw(
        self,
        need: Need,
        told: Told,
        *,
        since: float,
        server: float | None = None,
        reached_at: float = -math.inf,
    ) -> bool:
        """Notes what an answer told; returns whether it may be something new.

        Args:
          need: That of the read.
          told: What it told.
          since: Since when what was noted may be newer than the answer.
          server: The standby that answered; None is the primary, whose word counts even if it lost
            what was seen.
          reached_at: Until when the standby was known to have all as it was asked.
        """
        app_name, user_id, session_id, memories = need.subject
        if memories:
            return False  # those that others wrote have the lag alone
        with self._lock:
            at = self._clock()
            if told.revision is not None:
                self._keep(app_name, user_id, session_id, told.revision, Sight(at, server), since)
            news = told.stamp is None or self._changes(
                ("shown", app_name, user_id, session_id, told.question), told.stamp
            )
            of_app = user_id is None
            for name, version in told.versions.items():
                if name == "app_state_version":
                    of_app |= self._changes(("version", app_name), version)
                else:
                    news |= self._changes(("version", app_name, user_id), version)
            if news or of_app:
                whose = user_id if news else None
                self._raise(app_name, whose, Sight(at, server), reached_at, also_app=of_app)
        return news or of_app

    def void(self) -> None:
        """Forgets what answers told, since the primary has another history; all must be newer."""
        with self._lock:
            self._void()

    def erased(self, app_name: str, user_id: str, session_id: str | None) -> None:
        """Drops what is kept of a person, or of one session; no standby brings it back."""
        with self._lock:
            place = (app_name, user_id) if session_id is None else (app_name, user_id, session_id)
            for key in [key for key in self._entries if key[1 : 1 + len(place)] == place]:
                del self._entries[key]
            if session_id is None:
                self._floor = Sight(self._clock())
            else:
                self._raise(app_name, user_id, Sight(self._clock()))

    def _keep(
        self,
        app_name: str,
        user_id: str | None,
        session_id: str | None,
        revision: Revision,
        sight: Sight,
        since: float,
    ) -> None:
        """Keeps a session's revision, unless a later one was noted since it was asked for."""
        key = ("session", app_name, user_id, session_id)
        known = self._entries.get(key)
        if known is not None and revision.lacks(known.revision):
            if known.sight.at > since:
                return
            if sight.server is None:
                # A failover lost it; whatever followed the old primary may have it.
                self.lost_at = sight.at
                self._void()
        if known is None or known.revision != revision:
            self._put(key, _Known(revision, sight))

    def _void(self) -> None:
        self._entries.clear()
        self._floor = Sight(self._clock())

    def _changes(self, key: Key, value: Hashable) -> bool:
        """Notes a value; returns whether it is another one than was known."""
        known = self._entries.get(key)
        if known is not None and known == (value,):
            return False
        self._put(key, (value,))
        return True

    def _raise(
        self,
        app_name: str,
        user_id: str | None,
        sight: Sight,
        reached_at: float = -math.inf,
        *,
        also_app: bool = False,
    ) -> None:
        """Notes that something new was seen of a user, of an app, or of both."""
        keys: list[Key] = []
        if also_app or user_id is None:
            keys.append(("at", app_name))
        if user_id is not None:
            keys += [("at", app_name, user_id), ("users", app_name)]
        for key in keys:
            had = self._entries.get(key)
            shown = had is None or had.server == sight.server or had.at <= reached_at
            # The standby shows what it showed, but perhaps not what was seen there before.
            self._put(key, sight if shown else Sight(sight.at))

    def _put(self, key: Key, entry: Any) -> None:
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            _, oldest = self._entries.popitem(last=False)
            if isinstance(oldest, Sight):
                self._floor = Sight(max(self._floor.at, oldest.at))
