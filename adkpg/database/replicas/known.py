"""Known: what this process has written and seen, so that no read goes back behind it. Pure.

Of a session it is the revision and how many of its events are gone, of states a digest, and of
everything else the moment: a standby shows it if it has reached a later one (`horizon`). It is
bounded: what is forgotten counts as known at the last moment of all that was forgotten, so a bound
costs reads on the primary and never an answer that is too old.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from adkpg.keys import APP_WIDE

_MOST = 20_000
_MOST_SCOPES = 1_000
_MOST_ANSWERS = 5_000

Key = tuple[str | None, ...]


class Floor(NamedTuple):
    """A revision of a session that an answer may not be older than; names as `Marker` has them."""

    incarnation: str
    revision: int
    token: str | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Floor":
        """Returns the revision that a session's row tells."""
        return cls(row["incarnation"], row["revision"], row["revision_token"])


class Gone(NamedTuple):
    """How many of a session's events an answer is without: those that were deleted.

    Attributes:
      events: At most so many, up to where the answer ends.
      whole: Whether the answer has all that are there, so that it is neither more nor fewer.
      filtered: Whether it is without those before a time alone, besides.
    """

    events: int
    whole: bool
    filtered: bool = False


class Moment(NamedTuple):
    """Something that an answer must show.

    Attributes:
      at: When it was known here, in monotonic seconds.
      server: The standby that showed it, which goes on showing it; None: the primary did.
      written_at: When this process itself wrote something of the kind last, likewise.
    """

    at: float
    server: float | None = None
    written_at: float = -math.inf

    def shown_by(self, server: float, reached: Mapping[float, float]) -> bool:
        """Whether a standby shows it, by the moments that standbys have reached."""
        return self.server == server or reached.get(server, -math.inf) >= self.at


@dataclass(frozen=True, slots=True)
class Need:
    """What an answer must not be older than.

    Attributes:
      known_at: When this was all that was known, in monotonic seconds; what was noted since may be
        newer than the answer.
      moments: All of them must be shown.
      states: Of the app and of the user: the digest that was seen, or a moment as above.
      scope: App and user, of a read of sessions; the user is None of a whole app's.
      place: App, user and session, of the read of one session.
      floor: Its revision; None if nothing is known of it, or `moments` say it.
      gone: How many of its events are gone at least: none comes back.
      shown: Whether it was a standby that showed the floor.
      written_at: When this process last wrote to the session, in monotonic seconds.
      of_session: Whether it may be answered whatever the lag, if the primary does not answer.
    """

    known_at: float
    moments: tuple[Moment, ...]
    states: tuple[tuple[int, Moment] | None, ...] = (None, None)
    scope: tuple[str, str | None] | None = None
    place: tuple[str, str, str] | None = None
    floor: Floor | None = None
    gone: int = 0
    shown: bool = False
    written_at: float = -math.inf
    of_session: bool = True

    def shown_by(self, server: float, reached: Mapping[float, float]) -> bool:
        """Whether a standby's answer is new enough, the floor and the states aside."""
        return all(moment.shown_by(server, reached) for moment in self.moments)

    def states_shown(self, row: Any, server: float, reached: Mapping[float, float]) -> bool:
        """Whether the states of a session's row are none that others have replaced."""
        return all(
            known is None or digest(row[name]) == known[0] or known[1].shown_by(server, reached)
            for name, known in zip(("app_state", "user_state"), self.states, strict=True)
        )


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is known by a key: a floor, a digest, or that it has changed at a moment.

    With a floor comes how many of the session's events are gone at least, and since when that is
    known.
    """

    moment: Moment
    floor: Floor | None = None
    digest: int | None = None
    written_at: float = -math.inf
    gone: int = 0
    gone_at: float = -math.inf


class Known:
    """What was written and seen here, up to a number of things. Threads may share it.

    Args:
      most: How many things.
      clock: Tells seconds that only grow.

    Attributes:
      went_back_at: When the primary lacked what was known last, in monotonic seconds.
    """

    def __init__(self, most: int = _MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()  # the oldest moment first
        self._answers: OrderedDict[tuple[str, str | None, int], int] = OrderedDict()
        self._forgotten_at = -math.inf
        self.went_back_at = -math.inf

    def now(self) -> float:
        """Returns the moment, in monotonic seconds."""
        return self._clock()

    def wrote(self, parameters: Mapping[str, Any]) -> None:
        """Notes that a statement may have changed anything of the scopes that it names.

        With an ``app_delta`` it is the app's state, too, which all its users see.
        """
        keys: set[Key]
        apps, users = parameters.get("app_names"), parameters.get("user_ids")
        app_name, user_id = parameters.get("app_name"), parameters.get("user_id")
        if isinstance(app_name, str):
            keys = {("anybody", app_name)}
            keys.add(("any", app_name, user_id) if isinstance(user_id, str) else ("any", app_name))
            if parameters.get("app_delta") is not None:
                keys.add(("state", app_name))
        elif apps is not None and users is not None and len(apps) <= _MOST_SCOPES:
            keys = {("any", app, user) for app, user in zip(apps, users, strict=False)}
            keys |= {("anybody", app) for app in apps}
        else:
            keys = {("any",)}
        with self._lock:
            self._note(keys, written=True)

    def wrote_session(
        self,
        place: Mapping[str, Any],
        floor: Floor,
        *,
        user: bool = False,
        app: bool = False,
        memory: bool = False,
    ) -> None:
        """Notes a revision of a session that was written here.

        Args:
          place: App, user and session.
          floor: The revision.
          user: Whether the user's state was changed too.
          app: Whether the app's was.
          memory: Whether something was remembered.
        """
        app_name, user_id = place["app_name"], place["user_id"]
        written: dict[Key, bool] = {
            ("sessions", app_name, user_id): True,
            ("sessions", app_name): True,
            ("state", app_name, user_id): user,
            ("state", app_name): app,
            ("memories", app_name, user_id): memory,
        }
        with self._lock:
            self._note((key for key, changed in written.items() if changed), written=True)
            key = ("session", app_name, user_id, place["session_id"])
            known = self._entries.get(key)
            if known is None or not _later(known.floor, floor):
                now = self._clock()
                self._put(key, _with_floor(known, _Entry(Moment(now), floor, written_at=now)))

    def saw_session(
        self,
        place: tuple[str, str, str],
        row: Mapping[str, Any] | None,
        *,
        asked_at: float,
        server: float | None,
        gone: Gone | None = None,
    ) -> None:
        """Notes what an answer said of a session, and of the states that came with it.

        Args:
          place: App, user and session.
          row: None: there is no such session.
          asked_at: Since when what was noted may be newer than the answer: when the primary was
            asked, or `Need.known_at` of what a standby was asked for.
          server: The standby that answered; None is the primary, whose word counts even if it went
            back (a failover).
          gone: Of the session's events; None if the answer is without events.
        """
        app_name, user_id, _ = place
        key = ("session", *place)
        with self._lock:
            moment = Moment(self._clock(), server)
            known = self._entries.get(key)
            floor = None if row is None else Floor.of(row)
            news = known is None or known.floor != floor or floor is None
            if known is not None and known.moment.at > asked_at:
                # Of the two only a later revision of the same session is known to be newer.
                if news and not _later(floor, known.floor) and not _later(known.floor, floor):
                    self._put(key, _Entry(Moment(moment.at), written_at=known.written_at))
                news = _later(floor, known.floor)
            elif server is None and known is not None and went_back(known.floor, floor):
                # A failover lost what was known; whatever followed the old primary may have it.
                self.went_back_at = self._clock()
                self._note([("any",)])
            if news:
                written_at = -math.inf if known is None else known.written_at
                self._put(key, _with_floor(known, _Entry(moment, floor, written_at=written_at)))
                self._note([("sessions", app_name, user_id), ("sessions", app_name)])
            if row is None:
                return
            if gone is not None and gone.whole:
                primary = server is None
                self._saw_gone(key, floor, gone.events, asked_at=asked_at, primary=primary)
            elif gone is not None and gone.filtered:
                entry = self._entries.get(key)
                if gone.events != (0 if entry is None else entry.gone):
                    # Nobody knows which of those are deleted; but their number stays as it is when
                    # events come, and grows when some of the others are deleted.
                    question = hash(("events that the session is without", *place))
                    self._saw(place[:2], question, gone.events, asked_at=asked_at, server=server)
            for name, of in (("app_state", (app_name,)), ("user_state", (app_name, user_id))):
                state = ("state", *of)
                seen, had = digest(row[name]), self._entries.get(state)
                if had is not None and had.moment.at > asked_at:
                    if had.digest != seen:  # nobody knows which of both is newer
                        self._note([state])
                    continue
                changed = had is None or had.digest != seen
                # A state may return to what it was; a standby may still show the first of both.
                if changed or server is None:
                    self._put(state, _Entry(moment, digest=seen))
                if changed:
                    self._note([("anybody", app_name)])

    def _saw_gone(
        self, key: Key, floor: Floor | None, events: int, *, asked_at: float, primary: bool
    ) -> None:
        """Notes how many of a session's events are gone, if the floor is still what was seen."""
        entry = self._entries.get(key)
        if entry is None or entry.floor != floor:
            return
        # Only a primary that went back has events again.
        if events > entry.gone or (primary and events < entry.gone and asked_at > entry.gone_at):
            self._entries[key] = replace(entry, gone=events, gone_at=self._clock())
            # Pages and searches do not tell how many are gone.
            self._note([("sessions", *key[1:3]), ("sessions", key[1])])

    def saw(
        self,
        scope: tuple[str, str | None],
        question: int,
        answer: int,
        *,
        asked_at: float,
        server: float | None,
    ) -> None:
        """Notes what else an answer said of sessions: a listing, a search in them, a state.

        An answer that is what it was when the same was asked before adds nothing.

        Args:
          scope: App and user; None is the whole app.
          question: What tells what was asked from anything else.
          answer: What tells its rows from any others.
          asked_at: As for `saw_session`.
          server: The standby that answered; None is the primary.
        """
        with self._lock:
            self._saw(scope, question, answer, asked_at=asked_at, server=server)

    def _saw(
        self,
        scope: tuple[str, str | None],
        question: int,
        answer: int,
        *,
        asked_at: float,
        server: float | None,
    ) -> None:
        app_name, user_id = scope
        asked = (app_name, user_id, question)
        key: Key = ("seen", app_name) if user_id is None else ("seen", app_name, user_id)
        known = self._answers.pop(asked, None)
        self._answers[asked] = answer
        if len(self._answers) > _MOST_ANSWERS:
            self._answers.popitem(last=False)
        if known == answer:
            return
        had = self._entries.get(key)
        at = self._clock()
        if had is not None and had.moment.at > asked_at and had.moment.server != server:
            server = None  # of two that answered at once, nobody knows which is ahead
        self._put(key, _Entry(Moment(at, server)))
        by_users: Key = ("seen by users", app_name)
        if user_id is not None:
            # What others were shown it shows for certain only if it was the one to show it.
            had = self._entries.get(by_users)
            if server != (had.moment.server if had else server) or (
                had is None and self._forgotten_at > -math.inf
            ):
                server = None
        self._put(by_users, _Entry(Moment(at, server)))

    def of_session(self, app_name: str, user_id: str, session_id: str) -> Need:
        """Returns what a session with its states must not be older than."""
        key: Key = ("session", app_name, user_id, session_id)
        with self._lock:
            known_at = self._clock()
            entry = self._entries.get(key)
            floor = None if entry is None else entry.floor
            moments = self._of_anything(app_name, user_id)
            if floor is None:
                moments += self._moments(key)
            states: list[tuple[int, Moment] | None] = []
            for state in (("state", app_name), ("state", app_name, user_id)):
                of_state = self._entries.get(state)
                if of_state is None or of_state.digest is None:
                    states.append(None)
                    moments += self._moments(state)
                else:
                    states.append((of_state.digest, of_state.moment))
            moments += self._seen(app_name, user_id)
        return Need(
            known_at,
            tuple(moments),
            tuple(states),
            (app_name, user_id),
            (app_name, user_id, session_id),
            floor,
            0 if entry is None else entry.gone,
            floor is not None and entry is not None and entry.moment.server is not None,
            -math.inf if entry is None else entry.written_at,
        )

    def of_events(self, app_name: str, user_id: str, session_id: str) -> Need:
        """Returns what a page of a session's events must show; it does not tell which are gone."""
        need = self.of_session(app_name, user_id, session_id)
        with self._lock:
            entry = self._entries.get(("session", app_name, user_id, session_id))
        if entry is None or not entry.gone:
            return need
        return replace(need, moments=(*need.moments, Moment(entry.gone_at)))

    def of_sessions(self, app_name: str, user_id: str | None) -> Need:
        """Returns what a listing of sessions, a search in their events, or a state must show."""
        scope: Key = (app_name,) if user_id is None else (app_name, user_id)
        with self._lock:
            known_at = self._clock()
            moments = self._of_anything(app_name, user_id)
            if user_id is None:
                moments += self._moments(("anybody", app_name))
                moments += self._moments(("seen by users", app_name))
            moments += self._moments(("sessions", *scope))
            moments += self._moments(("state", app_name))
            moments += self._moments(("state", *scope))
            moments += self._seen(app_name, user_id)
        return Need(known_at, tuple(moments), scope=(app_name, user_id))

    def of_memories(self, app_name: str, user_id: str) -> Need:
        """Returns what a read of a user's memories, and of the app's, must show."""
        with self._lock:
            known_at = self._clock()
            moments = self._of_anything(app_name, user_id) + self._moments(
                ("any", app_name, APP_WIDE)
            )
            for scope in (user_id, APP_WIDE):
                moments += self._moments(("memories", app_name, scope))
        return Need(known_at, tuple(moments), of_session=False)

    def erased(self, app_name: str, user_id: str, session_id: str | None) -> None:
        """Drops what is kept of a person, or of one session; no standby brings it back."""
        with self._lock:
            if session_id is not None:
                self._entries.pop(("session", app_name, user_id, session_id), None)
                self._note([("any", app_name, user_id), ("anybody", app_name)], written=True)
                return
            for key in [key for key in self._entries if key[1:3] == (app_name, user_id)]:
                del self._entries[key]
            for asked in [each for each in self._answers if each[:2] == (app_name, user_id)]:
                del self._answers[asked]
            self._forgotten_at = self._clock()

    def _of_anything(self, app_name: str, user_id: str | None) -> list[Moment]:
        keys: list[Key] = [("any",), ("any", app_name)]
        if user_id is not None:
            keys.append(("any", app_name, user_id))
        return [moment for key in keys for moment in self._moments(key)]

    def _seen(self, app_name: str, user_id: str | None) -> list[Moment]:
        keys: list[Key] = [("seen", app_name)]
        if user_id is not None:
            keys.append(("seen", app_name, user_id))
        return [moment for key in keys for moment in self._moments(key)]

    def _moments(self, key: Key) -> list[Moment]:
        entry = self._entries.get(key)
        if entry is not None:
            return [entry.moment]
        return [] if self._forgotten_at == -math.inf else [Moment(self._forgotten_at)]

    def _note(self, keys: Iterable[Key], *, written: bool = False) -> None:
        now = self._clock()
        for key in keys:
            had = self._entries.get(key)
            written_at = now if written else -math.inf if had is None else had.moment.written_at
            self._put(key, _Entry(Moment(now, written_at=written_at)))

    def _put(self, key: Key, entry: _Entry) -> None:
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            _, oldest = self._entries.popitem(last=False)
            self._forgotten_at = max(self._forgotten_at, oldest.moment.at, oldest.gone_at)


def digest(state: str | None) -> int:
    """Returns what tells a state from another, in this process."""
    return hash(state)


def _with_floor(known: _Entry | None, entry: _Entry) -> _Entry:
    """Returns a session's new entry, with the events that are gone of the same session."""
    if known is None or known.floor is None or entry.floor is None:
        return entry
    if known.floor.incarnation != entry.floor.incarnation:
        return entry
    return replace(entry, gone=known.gone, gone_at=known.gone_at)


def went_back(known: Floor | None, said: Floor | None) -> bool:
    """Whether a session has less than was known of it, or another history."""
    if known is None or said is None or known.incarnation != said.incarnation:
        return False
    if said.revision == known.revision:
        # The token goes with its event, which may have been deleted.
        return said.token is not None and said.token != known.token
    return said.revision < known.revision


def _later(one: Floor | None, other: Floor | None) -> bool:
    """Whether one is a later revision of the same session."""
    if one is None or other is None:
        return False
    return one.incarnation == other.incarnation and one.revision > other.revision
