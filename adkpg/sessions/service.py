"""DatabaseSessionService: ADK sessions that outlive the process."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import date, datetime, timedelta
from typing import Any, Literal
from uuid import uuid4

from google.adk.events.event import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from sqlalchemy.ext.asyncio import AsyncEngine

from adkpg import jsontext
from adkpg.database import COMPARED, Database, Source, Subject, UsesDatabase
from adkpg.erasure.erasing import delete_session, forget_session
from adkpg.errors import (
    ConfigurationError,
    ConstraintViolated,
    EventConflict,
    InvalidInput,
    SessionExists,
    SessionNotFound,
    StaleSession,
)
from adkpg.keys import ScopeKey, SessionKey, require_storable, scope_user, storable
from adkpg.limits import bytes_of, page_rows, require_size
from adkpg.memory.drafts import text_length
from adkpg.memory.write import capture
from adkpg.memory.write.apply import off_loop
from adkpg.memory.write.capture import CaptureParameters
from adkpg.outages.cancellation import uninterrupted
from adkpg.pages import Page, cursor_of, place_of
from adkpg.queries import Answer, Query
from adkpg.remember.policy import Remember
from adkpg.sessions import (
    finding,
    forks,
    history,
    invocations,
    life_statements,
    reading_statements,
    records,
    statements,
)
from adkpg.sessions.append_queue import AppendQueues
from adkpg.sessions.cache import Key, SharedEvents, again
from adkpg.sessions.doors import Door, door_here
from adkpg.sessions.expiry import expiry
from adkpg.sessions.finding import FoundEvent
from adkpg.sessions.history import History
from adkpg.sessions.invocations import Invocation
from adkpg.sessions.records import Marker
from adkpg.sessions.state import merge, refuse_large, require_own, require_small, split
from adkpg.sessions.watching.watch import WatchedEvent, position, watch
from adkpg.tables import EVENT_ID_KEY
from adkpg.telemetry.calls import on, traced
from adkpg.timestamps import clamped, unix

_Append = Query[Answer[int | None]]
_MOST = 10**9  # events of a session
_SHARED = (State.APP_PREFIX, State.USER_PREFIX)


@traced(
    append_event=on("events"),
    create_session=on("sessions"),
    get_session=on("events"),
    list_sessions=on("sessions"),
    list_sessions_page=on("sessions"),
    list_events_page=on("events"),
    search_events=on("events"),
    fork_session=on("sessions"),
    update_state=on("user_states"),
    get_user_state=on("user_states"),
    get_initial_state=on("sessions"),
    delete_session=on("sessions"),
)
class DatabaseSessionService(UsesDatabase, BaseSessionService):
    """A complete ADK session service on Postgres.

    Every call is one statement: one round trip, one snapshot, all or nothing. Only an append that
    is refused, or whose Session was rebuilt from JSON, asks once more. Events come back in append
    order. State deltas are merged by the server, key by key, so concurrent writers never overwrite
    each other's keys. Returned objects are fresh and share nothing, unless `shared_events_mb` says
    so.

    Safe to use from many tasks, event loops, processes and machines simultaneously.

    Args:
      database: A `Database` to share (it stays open when the service closes), or a URL.
      db_url: The same as a URL, under ADK's own keyword.
      db_engine: An async engine of your own on asyncpg, under ADK's own keyword.
      on_conflict: ``"raise"`` is ADK's contract: an append through a Session object that storage
        has moved past raises `StaleSession`. ``"merge"`` appends whatever the revision, for voice
        and tool backends where several writers share a session.
      remember: Writes what is said into the user's memory, in the same statement as the event:
        True, ``"redacted"``, or a `RememberPolicy`, which becomes the Database's. It is found by
        its words immediately; a worker, or the memory service at its next ingest, adds vectors.
        None does what the Database itself was told; with False this service's appends remember
        nothing, whatever that was.
      shared_events_mb: Megabytes of events that are kept in this process, for the next reader of
        their session; estimated at 6 kB for each event, and its text. Sessions then share their
        event objects: never change one that `get_session` returned. 0 keeps and shares nothing.
      **engine_options: With a URL, as for ADK's service: passed to `create_async_engine`, except
        for `Database`'s own ``password``, ``settings`` and ``auto_upgrade``.

    Raises:
      ConfigurationError: No database is named, or more than one; an option is out of range.
    """

    def __init__(
        self,
        database: Database | str | None = None,
        *,
        db_url: str | None = None,
        db_engine: AsyncEngine | None = None,
        on_conflict: Literal["raise", "merge"] = "raise",
        remember: Remember | None = None,
        shared_events_mb: int = 0,
        **engine_options: Any,
    ) -> None:
        if on_conflict not in ("raise", "merge"):
            raise ConfigurationError(f"on_conflict is 'raise' or 'merge', not {on_conflict!r}.")
        if shared_events_mb < 0:
            raise ConfigurationError(
                f"shared_events_mb={shared_events_mb} is below 0; give 0 to share none."
            )
        if sum(given is not None for given in (database, db_url, db_engine)) > 1:
            raise ConfigurationError(
                "Name one database: a Database or URL, or db_url=, or db_engine=."
            )
        if isinstance(database, Database) and engine_options:
            raise ConfigurationError(
                f"Engine options {sorted(engine_options)} belong to the Database that was "
                "given; set them there."
            )
        if db_engine is not None:
            engine_options["engine"] = db_engine
        super().__init__(database or db_url, **engine_options)
        self._merge = on_conflict == "merge"
        self._captures = self._database.captures if remember is None else remember is not False
        self._database.installation.remembers |= self._captures
        if remember is not None and self._captures:
            self._database.remember_by(remember)
        self._queues = AppendQueues()
        self._shared = SharedEvents(shared_events_mb * 1_000_000) if shared_events_mb else None
        if self._shared is not None:
            self._database.keepers.add(self._shared)

    def _told(self) -> dict[str, object]:
        return {
            "on_conflict": "merge" if self._merge else "raise",
            "remember": self._captures,
        }

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
        ttl: str | float | timedelta | None = None,
        expire_time: date | str | float | None = None,
    ) -> Session:
        """Creates a session; ``app:`` and ``user:`` keys of its state go to the shared states.

        Args:
          user_id: ``""`` is a user like any other.
          state: The initial state; ``temp:`` keys are dropped.
          session_id: Stripped of surrounding whitespace; None or an empty one generates one.
          ttl: How long it lives after its creation, and after each append: ``"7200s"``, a number
            of seconds, or a timedelta. None: forever.
          expire_time: When it ends, whatever is appended: ISO 8601, a datetime, or Unix seconds.
            From its end on no caller sees it, its id is free, and a worker deletes it.

        Returns:
          The session with the merged state, equal to what `get_session` returns.

        Raises:
          SessionExists: This user of this app has a session of this id (also ADK's
            ``AlreadyExistsError``).
          InvalidInput: An id or a value cannot be stored, a state is too large, or both `ttl` and
            `expire_time` are given, or one that cannot be; nothing was written.
        """
        session_id = _stripped(session_id) or platform_uuid.new_uuid()
        place: SessionKey = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
        door = door_here()
        if door is None or not door.lacks(place):
            return await self._create(place, state, ttl, expire_time)
        # The first messages of a session come at once: one of them creates it for all.
        with suppress(SessionExists):
            await self._create(place, state, ttl, expire_time)
        found = await self._get_by(door, place)
        if found is None:
            raise SessionNotFound(f"Session {session_id} was deleted when just made; try again.")
        return found

    async def _create(
        self,
        place: SessionKey,
        state: dict[str, Any] | None,
        ttl: str | float | timedelta | None,
        expire_time: date | str | float | None,
    ) -> Session:
        """Does what `create_session` says."""
        app_name, user_id, session_id = place["app_name"], place["user_id"], place["session_id"]
        now = platform_time.get_time()
        end = expiry(ttl, expire_time, now)
        require_storable(app_name=app_name, user_id=user_id, session_id=session_id)
        delta = split(state)
        require_small(delta, self._database.settings)
        require_own(delta, self._database.settings)
        incarnation = str(uuid4())
        create = statements.create_session(
            **place,
            incarnation=incarnation,
            session_state=delta.session or "{}",
            initial_state=delta.session,
            app_delta=delta.app,
            user_delta=delta.user,
            state_limit=bytes_of(self._database.settings, "max_state_mb"),
            writer_limit=1_000 * self._database.settings.max_app_state_per_user_kb,
            timestamp=clamped(now),
            ttl=end.ttl,
            expires_at=end.expires_at,
        )
        try:
            (made,) = await self._database.run.fetch(create)
            while made["answer"] is None:
                found = await self._get(**place, primary=True)
                marker = None if found is None else Marker.of(found)
                if found is not None and marker is not None and marker.incarnation == incarnation:
                    return found  # by this call, whose answer was lost
                if found is not None:
                    raise SessionExists(
                        f"Session with id {session_id} already exists; use another id, or "
                        "get_session."
                    )
                # It has expired, or was deleted this moment.
                await self._database.run.fetch(statements.delete_expired_session(**place))
                (made,) = await self._database.run.fetch(create)
        except ConstraintViolated as exc:
            refuse_large(exc, self._database.settings)
            raise
        own, app_state, user_state = made["answer"]
        row = {
            **place,
            "incarnation": incarnation,
            "revision": 0,
            "revision_token": None,
            "updated_at": clamped(now),
            "state": own,
        }
        return records.session(
            app_name=app_name, row=row, app_state=app_state, user_state=user_state
        )

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str | None,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Returns a session with its merged state and its events in append order, or None.

        Args:
          session_id: Stripped of surrounding whitespace; None or an empty one is of no session.
          config: ``after_timestamp`` keeps events at or after it (Unix seconds, inclusive);
            ``num_recent_events`` at most that many of them, the newest. The state is always whole.
            None is all events.

        Raises:
          Busy: A request that `adk.QueuedRuns` serves asks for its first session, and its turn did
            not come in time.
        """
        session_id = _stripped(session_id)
        if not session_id or not storable(
            app_name=app_name, user_id=user_id, session_id=session_id
        ):
            return None
        place: SessionKey = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
        door = door_here()
        if door is None:
            return await self._get(**place, config=config)
        return await self._get_by(door, place, config)

    async def _get_by(
        self, door: Door, place: SessionKey, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Reads a session when it is the turn of the request that asks for it first."""
        while True:
            await door.enter(self._database, place)
            found = await self._get(**place, config=config)
            if found is None:
                return None
            if not door.lacks(place):  # else it was made between the two
                door.keep(found)
                return found

    async def _get(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
        primary: bool = False,
    ) -> Session | None:
        """Does what `get_session` says; `primary` reads past any standby."""
        place: SessionKey = {
            "app_name": app_name,
            "user_id": user_id,
            "session_id": session_id,
        }

        async def read(source: Source) -> Session | None:
            return await self._read(source, place, config)

        # Another's invocation may have ended this moment: what runs in turn reads what it wrote.
        in_turn = invocations.holder_here(self._database, place) is not None
        return await self._database.run.read(
            read,
            Subject(app_name, user_id, session_id),
            primary=primary or in_turn,
        )

    async def _read(
        self,
        source: Source,
        place: SessionKey,
        config: GetSessionConfig | None,
    ) -> Session | None:
        """Reads a session from a source."""
        app_name = place["app_name"]
        recent = config.num_recent_events if config else None
        after = config.after_timestamp if config else None
        if self._shared is not None and recent is None and after is None:
            return await self._get_again(source, self._shared, place)
        since = None if after is None else clamped(after)
        if recent is None:
            query = reading_statements.select_session(**place, after=since)
        else:
            query = reading_statements.select_recent_session(
                **place, after=since, limit=min(recent, _MOST)
            )
        while True:
            row = await source.fetch_one(query)
            if row is None:
                return None
            read = await history.read(source, place, row, after=since)
            if read is not None:
                break
        return _session(app_name, row, read.events)

    async def list_sessions(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
    ) -> ListSessionsResponse:
        """Returns the sessions of an app, or of one user, without events.

        Each comes with its whole merged state. They come oldest update first, then by user and id.

        Raises:
          InvalidInput: There are more than ``ADKPG_MAX_RESULTS``, or with their states more than
            ``ADKPG_MAX_ANSWER_MB``; `list_sessions_page` reads them by pages.
        """
        if not storable(app_name=app_name, user_id=user_id):
            return ListSessionsResponse()
        if user_id is None:
            self._database.run.require_every_scope()
        most = self._database.settings.max_results
        most_bytes = bytes_of(self._database.settings, "max_answer_mb")
        if user_id is None:
            query = reading_statements.list_sessions_of_app(
                app_name=app_name, limit=most + 1, most_bytes=most_bytes
            )
        else:
            query = reading_statements.list_sessions(
                app_name=app_name,
                user_id=user_id,
                after_time=None,
                after_session_id=None,
                limit=most + 1,
                most_bytes=most_bytes,
            )
        rows = await self._database.run.read(
            lambda source: source.fetch(query), Subject(app_name, user_id)
        )
        some, there = records.fitting(rows, most_bytes, "updated_at")
        if there > most:
            raise InvalidInput(
                f"There are more sessions than ADKPG_MAX_RESULTS={most}; read them by pages with "
                "list_sessions_page, or raise that setting."
            )
        if there > len(some):
            raise InvalidInput(
                f"{there:,} sessions, each with its user's and the app's state, have "
                "more bytes than ADKPG_MAX_ANSWER_MB="
                f"{self._database.settings.max_answer_mb} allows; read them by pages with "
                "list_sessions_page, or raise that setting."
            )
        newest_first = await records.listed(app_name, some)
        return ListSessionsResponse(sessions=newest_first[::-1])

    async def list_sessions_page(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Session]:
        """Returns some sessions, newest first: a user's by last update, an app's by creation.

        Args:
          user_id: One user's sessions; None for the whole app's.
          limit: At most this many, at least 1, and at most ``ADKPG_MAX_RESULTS``; fewer, at least
            one, if they have more than ``ADKPG_MAX_ANSWER_MB`` with their states.
          cursor: The ``next_cursor`` of the page before; None starts at the newest.

        Raises:
          InvalidInput: `limit` is below 1, or `cursor` did not come from a page.
        """
        limit = page_rows(self._database.settings, limit)
        if not storable(app_name=app_name, user_id=user_id):
            return Page([], None)
        if user_id is None:
            self._database.run.require_every_scope()
        after: Any = (None, None, None)
        if cursor is not None:
            after = place_of(cursor, datetime, str, str)
        after_time, after_user_id, after_session_id = after
        most_bytes = bytes_of(self._database.settings, "max_answer_mb")
        if user_id is None:
            order = "created_at"
            query = reading_statements.list_newest_sessions_of_app(
                app_name=app_name,
                after_time=after_time,
                after_user_id=after_user_id,
                after_session_id=after_session_id,
                limit=limit + 1,
                most_bytes=most_bytes,
            )
        else:
            order = "updated_at"
            query = reading_statements.list_sessions(
                app_name=app_name,
                user_id=user_id,
                after_time=after_time,
                after_session_id=after_session_id,
                limit=limit + 1,
                most_bytes=most_bytes,
            )
        rows = await self._database.run.read(
            lambda source: source.fetch(query), Subject(app_name, user_id)
        )
        next_cursor = None
        some, there = records.fitting(rows, most_bytes, order)
        some = some[:limit]
        if there > len(some):
            last = some[-1]
            next_cursor = cursor_of(last[order], last["user_id"], last["session_id"])
        return Page(await records.listed(app_name, some), next_cursor)

    async def list_events_page(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Event]:
        """Returns some events of a session in append order; none if it does not exist.

        Args:
          session_id: Stripped of surrounding whitespace.
          limit: At most this many, at least 1, and at most ``ADKPG_MAX_RESULTS``.
          cursor: The ``next_cursor`` of the page before; None starts at the first event.

        Raises:
          InvalidInput: `limit` is below 1, or `cursor` did not come from a page.
        """
        limit = page_rows(self._database.settings, limit)
        session_id = _stripped(session_id)
        if not storable(app_name=app_name, user_id=user_id, session_id=session_id):
            return Page([], None)
        (after_seq,) = (0,) if cursor is None else place_of(cursor, int)
        query = reading_statements.list_events_page(
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            after_seq=after_seq,
            limit=limit + 1,
        )
        rows = await self._database.run.read(
            lambda source: source.fetch(query), Subject(app_name, user_id)
        )
        next_cursor = cursor_of(rows[limit - 1]["seq"]) if len(rows) > limit else None
        page = History()
        await page.add([row["payload"] for row in rows[:limit]])
        return Page(page.events, next_cursor)

    async def search_events(
        self,
        *,
        app_name: str,
        user_id: str,
        query: str,
        session_id: str | None = None,
        authors: Sequence[str] | None = None,
        after: date | str | float | None = None,
        before: date | str | float | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[FoundEvent]:
        """Finds events of a user's sessions that hold all words of a query, newest first.

        It looks for parts of words, whatever their case, in texts, calls and answers of tools, and
        transcriptions. No index helps it, so that appends need keep none: it reads all of the
        user's events on the server. A memory finds by meaning.

        Args:
          query: Words, divided by white space.
          session_id: Only in this session; stripped of surrounding whitespace.
          authors: Only by any of these.
          after: Only at or after this time: a datetime, ISO 8601, or Unix seconds.
          before: Only before this time.
          limit: At most this many, at least 1, and at most ``ADKPG_MAX_RESULTS``.
          cursor: The ``next_cursor`` of the page before; None starts at the newest.

        Raises:
          InvalidInput: The query has no word, or too many; another argument is out of range, or
            `cursor` did not come from a page.
        """
        session_id = None if session_id is None else _stripped(session_id)
        if not storable(app_name=app_name, user_id=user_id, session_id=session_id):
            return Page([], None)
        return await self._database.run.read(
            lambda source: finding.find(
                source,
                self._database.settings,
                {"app_name": app_name, "user_id": user_id},
                query=query,
                session_id=session_id,
                authors=authors,
                after=after,
                before=before,
                limit=limit,
                cursor=cursor,
            ),
            Subject(app_name, user_id),
        )

    async def fork_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        event_id: str | None = None,
        fork_id: str | None = None,
        ttl: str | float | timedelta | None = None,
        expire_time: date | str | float | None = None,
    ) -> Session:
        """Copies a session up to an event, with its own state as it was there.

        The copy goes its own way: neither sees what is appended to the other. The user's and the
        app's state are shared with the original as with every session, and stay what they are now;
        saved files and memories stay the original's.

        Args:
          session_id: The session to copy; stripped of surrounding whitespace.
          event_id: The last event that is copied; None copies all.
          fork_id: The copy's id; None or an empty one generates one.
          ttl: How long the copy lives, as for `create_session`. It does not inherit an end.
          expire_time: When the copy ends, as for `create_session`.

        Returns:
          The copy, as `get_session` returns it.

        Raises:
          SessionNotFound: There is no such session.
          SessionExists: There is one of the id that the copy is to have.
          InvalidInput: The session has no such event, or an argument cannot be; nothing was
            written.
        """
        end = expiry(ttl, expire_time, platform_time.get_time())
        session_id = _stripped(session_id)
        fork_id = _stripped(fork_id) or platform_uuid.new_uuid()
        require_storable(app_name=app_name, user_id=user_id, session_id=session_id, fork_id=fork_id)
        place: ScopeKey = {"app_name": app_name, "user_id": user_id}
        source = await self._get(**place, session_id=session_id, primary=True)
        if source is None:
            raise SessionNotFound(
                f"Session {session_id} not found; list_sessions names those that are stored."
            )
        await forks.fork(self._database, source, fork_id=fork_id, event_id=event_id, end=end)
        copy = await self._get(**place, session_id=fork_id, primary=True)
        if copy is None:
            raise SessionNotFound(f"Session {fork_id} not found; it was deleted when just made.")
        return copy

    def watch_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        after: Session | str | None = None,
        poll_interval_s: float = 1.0,
        notified: bool = True,
    ) -> AsyncGenerator[WatchedEvent, None]:
        """Yields a session's new events as they are appended, by whatever process; without end.

        Each comes once, in append order, and none is missed, whatever happens to connections. The
        server tells of them at once (LISTEN), on one connection of each event loop beside its pool.
        Where that cannot be had, behind a pooler in transaction mode without
        ``ADKPG_DIRECT_URL``, or with an engine of your own, it is asked at intervals; it is now and
        then in any case. Appends to sessions without a watcher tell nothing.

        Args:
          session_id: Stripped of surrounding whitespace.
          after: A Session: events that it does not hold yet. The ``cursor`` of an event: those
            after it, also in another process. None: those after the first one is asked for.
          poll_interval_s: Pause between two questions where nothing is told, in seconds.
          notified: Whether the session's row notes, for a minute, that appends are to tell. False
            writes nothing, and asks at intervals.

        Raises:
          InvalidInput: An id cannot be, the interval is not above 0, or `after` is no place.
          SessionNotFound: While iterating: there is no such session, or none any more.
          StaleSession: While iterating: it was created again, or storage went back.
          DatabaseUnavailable: While iterating: the fault lasts; go on with the last cursor.
        """
        session_id = _stripped(session_id)
        require_storable(app_name=app_name, user_id=user_id, session_id=session_id)
        if not poll_interval_s > 0:
            raise InvalidInput(f"poll_interval_s={poll_interval_s} is not above 0; give seconds.")
        place: SessionKey = {
            "app_name": app_name,
            "user_id": user_id,
            "session_id": session_id,
        }
        return watch(
            self._database,
            place,
            after=position(after),
            poll_interval_s=poll_interval_s,
            notified=notified,
        )

    async def update_state(
        self, *, app_name: str, user_id: str | None = None, state_delta: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Sets keys of the app's state and of a user's, without a session; idempotent.

        They are merged as by an append: keys that are not named stay, and sessions that were loaded
        before see them when they are loaded again.

        Args:
          user_id: Whose ``user:`` keys are set; None if there are none.
          state_delta: Keys with the prefix ``app:`` or ``user:``, and no others.

        Returns:
          The states that were changed, with their prefixes.

        Raises:
          InvalidInput: A key has another prefix or none, a value cannot be stored, a state is too
            large, or there are ``user:`` keys and no user; nothing was written.
        """
        require_storable(app_name=app_name, user_id=user_id)
        delta = split(state_delta)
        alone = [key for key in state_delta if not key.startswith(_SHARED)]
        if alone:
            raise InvalidInput(
                f"State key {alone[0]!r} belongs to no user or app; begin it with 'user:' or "
                "'app:', or append it to a session."
            )
        if delta.user is not None and user_id is None:
            raise InvalidInput("There are user: keys and no user; give user_id.")
        if delta.app is None and delta.user is None:
            return {}
        settings = self._database.settings
        require_small(delta, settings)
        if user_id is not None:
            require_own(delta, settings)
        try:
            row = await self._database.run.fetch_one(
                life_statements.merge_states(
                    app_name=app_name,
                    user_id=scope_user(user_id),
                    app_delta=delta.app,
                    user_delta=delta.user,
                    state_limit=bytes_of(settings, "max_state_mb"),
                    writer_limit=1_000 * settings.max_app_state_per_user_kb,
                )
            )
        except ConstraintViolated as exc:
            refuse_large(exc, settings)
            raise
        assert row is not None
        return merge(None, *row["answer"])

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Returns a user's state without the ``user:`` prefix; a copy, ``{}`` if there is none."""
        if not storable(app_name=app_name, user_id=user_id):
            return {}
        query = reading_statements.select_user_state(app_name=app_name, user_id=user_id)
        row = await self._database.run.read(
            lambda source: source.fetch_one(query), Subject(app_name, user_id)
        )
        return jsontext.read_state(row["state"] if row else None)

    async def get_initial_state(self, session: Session) -> dict[str, Any] | None:
        """Returns a stored session's own state as it was before its first event.

        With the deltas of its events on top, it is the state at each of them. Keys of the user and
        of the app are not the session's own.

        Args:
          session: As this service returned it; its events do not matter.

        Returns:
          A copy, ``{}`` if it began without any; None if it was deleted since, or never stored.
        """
        marker = Marker.of(session)
        if marker is None:
            return None
        row = await self._database.run.fetch_one(
            life_statements.select_initial_state(**_place(session), incarnation=marker.incarnation)
        )
        return None if row is None else jsontext.read_state(row["state"])

    async def _get_again(
        self, source: Source, shared: SharedEvents, place: SessionKey
    ) -> Session | None:
        """Reads a whole session: only what is new of it, if its events are kept still."""
        key: Key = (place["app_name"], place["user_id"], place["session_id"])
        while True:
            before = shared.get(key)
            row = await source.fetch_one(again(key, before))
            if row is None:
                shared.drop(key)
                return None
            read = await history.read(source, place, row)
            if read is not None:
                break
        had = before if row["had"] else None
        if had is None or read.events:
            shared.keep(key, row, had, read)
        return _session(key[0], row, read.events if had is None else [*had.events, *read.events])

    async def delete_session(
        self, *, app_name: str, user_id: str, session_id: str | None, forget: bool = False
    ) -> None:
        """Deletes a session with its events and files; shared states and memories stay. Idempotent.

        Objects of its files that cannot be removed are noted for a sweep, and the log says so.

        Args:
          session_id: Stripped of surrounding whitespace; None or an empty one is of no session.
          forget: Erases the session's memories too, with the facts and summaries drawn from them,
            pending work and the marks of deleted ones: all or nothing.
        """
        session_id = _stripped(session_id)
        if not storable(app_name=app_name, user_id=user_id, session_id=session_id):
            return
        place: SessionKey = {
            "app_name": app_name,
            "user_id": user_id,
            "session_id": session_id,
        }
        if forget:
            await forget_session(self._database, **place)
        else:
            await delete_session(self._database, **place)

    def invocation(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        timeout_s: float | None = None,
        key: str | None = None,
    ) -> AbstractAsyncContextManager[Invocation]:
        """Lets runs of an agent take turns in a session, across tasks, processes and machines.

        ::

            async with sessions.invocation(**place, timeout_s=60):
                async for event in runner.run_async(...): ...

        Taking the session and freeing it are one round trip each. A waiting call asks again some
        times a second and holds nothing. A thread renews the lease of a run
        (``ADKPG_INVOCATION_LEASE_S``), so that a blocked event loop loses nothing. The first that
        came runs first. Once another has taken its place, the block writes nothing more to this
        database, by whatever call, also in tasks that it has started. After the block, what goes
        on of it writes where its revision allows, as do appends outside of any block.

        Args:
          session_id: Stripped of surrounding whitespace; the session must exist.
          timeout_s: Longest wait for the turn, in seconds; 0 asks once, and None is
            ``ADKPG_INVOCATION_TIMEOUT_S``.
          key: An idempotency key: of all invocations of this session with the same, one finishes.
            The others wait for it, and are told that it is `done`, with its `result`, for
            a day. One that raises has not finished: the next runs.

        Raises:
          Busy: Its turn did not come in time.
          SessionNotFound: There is no such session.
          InvalidInput: An id or the key cannot be stored, or the key is empty.
          InvocationLost: At the end of a block with a key, whose lease lapsed: its result is not
            stored, and another may run.
        """
        session_id = _stripped(session_id)
        require_storable(app_name=app_name, user_id=user_id, session_id=session_id)
        if key is not None:
            invocations.require_key(key)
        place: SessionKey = {
            "app_name": app_name,
            "user_id": user_id,
            "session_id": session_id,
        }
        return invocations.invocation(self._database, place, timeout_s=timeout_s, key=key)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Stores an event and its state delta, then brings the live Session up to date.

        Partial events are returned. Lone surrogates, halves of a character, become U+FFFD in the
        event. ``temp:`` keys reach the live state only, and are
        taken out of the event. An event id that is already stored writes nothing, so an append
        whose answer was lost can be repeated. Appends through one Session object are served in
        turn. A cancelled caller leaves storage and the live object agreeing.

        Returns:
          The same event.

        Raises:
          SessionNotFound: The session was deleted, or never stored.
          StaleSession: Storage has moved past this Session object (with ``on_conflict="raise"``),
            has lost events that it holds (a failover to an asynchronous standby, a restored
            backup), or the session was deleted and created again. Load it again.
          EventConflict: Another event with this id is stored in the session.
          InvocationLost: It is awaited within an `invocation` that has lost the session to another.
          InvalidInput: A value cannot be stored, or the event or a state is too large; nothing was
            written, the session goes on.
        """
        if event.partial:
            jsontext.mended(event.content)  # in place
            return event
        delta = event.actions.state_delta
        for key, value in delta.items():
            if isinstance(value, str) and key.startswith(State.TEMP_PREFIX):
                delta[key] = jsontext.mended(value)
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        holder = invocations.holder_here(self._database, _place(session))
        async with self._queues.of(session):
            return await uninterrupted(self._append(session, event, holder))

    def _prepared(self, session: Session, event: Event) -> tuple[str, CaptureParameters | None]:
        """Returns an event's payload, and what is remembered of it."""
        payload = jsontext.write_event(event)
        policy = self._database.policy if self._captures else None
        if policy is None:
            return payload, None
        settings = self._database.settings
        return payload, capture.parameters(policy, event, _place(session), settings)

    async def _append(self, session: Session, event: Event, holder: str | None) -> Event:
        require_storable(
            app_name=session.app_name,
            user_id=session.user_id,
            session_id=session.id,
            event_id=event.id,
        )
        given = event.actions.state_delta
        delta = split(given)
        payload, memory = await off_loop(
            text_length([event.content]), lambda: self._prepared(session, event)
        )
        for key in given.keys() - event.actions.state_delta:  # a callback set it, now it is mended
            session.state.pop(key, None)
        settings = self._database.settings
        require_size(settings, "max_event_mb", f"Event {event.id}", payload)
        require_small(delta, settings)
        require_own(delta, settings)
        marker = Marker.of(session) or await self._marker_of(session, event)
        append = statements.append_event(
            **_place(session),
            event_id=event.id,
            timestamp=clamped(event.timestamp),
            payload=payload,
            session_delta=delta.session,
            app_delta=delta.app,
            user_delta=delta.user,
            state_limit=bytes_of(settings, "max_state_mb"),
            writer_limit=1_000 * settings.max_app_state_per_user_kb,
            incarnation=marker.incarnation,
            revision=marker.revision,
            revision_token=marker.token,
            token=str(uuid4()),
            merge=self._merge,
            holder=holder,
            **(memory or {}),
        )
        return await self._written(session, event, marker, append)

    async def _written(
        self,
        session: Session,
        event: Event,
        marker: Marker,
        append: _Append,
        *,
        again: bool = False,
    ) -> Event:
        """Appends an event, `again` if it was refused while storage was not where it is now."""
        try:
            (appended,) = await self._database.run.fetch(append, policy=COMPARED)
            revision: int | None = appended["answer"]
        except ConstraintViolated as exc:
            if exc.constraint != EVENT_ID_KEY:
                refuse_large(exc, self._database.settings)
                raise
            revision = None  # the same event was delivered twice; the other one was first
        if revision is not None:
            session.last_update_time = unix(append.parameters["timestamp"])
            Marker(marker.incarnation, revision, append.parameters["token"]).set(session)
            return self._commit_event_to_session(session, event)
        return await self._not_appended(session, event, marker, append, again=again)

    async def _head(
        self,
        session: Session,
        event: Event,
        *,
        marker: Marker | None = None,
        last_event_id: str | None = None,
        holder: str | None = None,
    ) -> Any:
        """Reads what storage has of a session; no later read of it shows less."""
        query = statements.select_head(
            **_place(session),
            event_id=event.id,
            revision=marker.revision if marker else None,
            revision_token=marker.token if marker else None,
            last_event_id=last_event_id,
            holder=holder,
        )

        async def read() -> Any:
            return await self._database.run.read(
                lambda source: source.fetch_one(query),
                Subject(session.app_name, session.user_id),
                primary=True,
            )

        found = await read()
        if found is not None and (found["went_back"] or found["lacks_last"]):
            await self._database.run.fetch(statements.await_append(**_place(session)))
            found = await read()
        return found

    async def _not_appended(
        self,
        session: Session,
        event: Event,
        marker: Marker,
        append: _Append,
        *,
        again: bool,
    ) -> Event:
        """Says why nothing was written, or accepts the event as one that is stored already."""
        holder = append.parameters["holder"]
        found = await self._head(session, event, marker=marker, holder=holder)
        if found is None:
            raise SessionNotFound(
                f"Session {session.id} not found; it was deleted, has expired, or a failover or a "
                "restored backup lost it."
            )
        if found["found_incarnation"] != marker.incarnation:
            raise StaleSession(
                f"Session {session.id} has been modified in storage: it was deleted and created "
                "again since it was loaded; load it again."
            )
        if found["went_back"]:
            raise _set_back(session)
        if found["stored_seq"] is not None:
            return self._redelivered(session, event, marker, append, found)
        if not found["found_held"]:
            raise invocations.lost(session.id)
        if found["found_revision"] == marker.revision and not again:
            return await self._written(session, event, marker, append, again=True)
        raise StaleSession(
            f"Session {session.id} has been modified in storage since it was loaded (revision "
            f"{found['found_revision']}, loaded at {marker.revision}); load it again, let the "
            "session's runs take turns by sessions.invocation, or use on_conflict='merge'."
        )

    def _redelivered(
        self,
        session: Session,
        event: Event,
        marker: Marker,
        append: _Append,
        found: Any,
    ) -> Event:
        payload, stored = append.parameters["payload"], found["stored_payload"]
        if stored != payload and jsontext.read_event(stored) != jsontext.read_event(payload):
            raise EventConflict(
                f"Another event with id {event.id} is already stored in session {session.id}; "
                "give the new event an id of its own."
            )
        seq = found["stored_seq"]
        # An object that merges skips the revisions of others.
        catching_up = seq > marker.revision or self._merge
        if catching_up and all(known.id != event.id for known in session.events):
            # The answer to the first delivery was lost: the live object catches up now.
            session.last_update_time = unix(append.parameters["timestamp"])
            stored_at = Marker(marker.incarnation, seq, found["stored_token"])
            max(stored_at, marker, key=lambda each: each.revision).set(session)
            self._commit_event_to_session(session, event)
        return event

    async def _marker_of(self, session: Session, event: Event) -> Marker:
        """Places a Session that was rebuilt from JSON, by ADK's rule (DatabaseSessionService).

        It is current if storage is not newer than it, or its last event is the stored last one.
        If storage is older, and has not even its last event, storage went back.
        """
        last = session.events[-1].id if session.events else None
        head = await self._head(session, event, last_event_id=last)
        if head is None:
            raise SessionNotFound(
                f"Session {session.id} not found; it was deleted, has expired, or was never stored."
            )
        newer = unix(head["updated_at"]) > session.last_update_time
        stale = newer and head["last_event_id"] != last
        seq = head["stored_seq"]
        if seq is not None and (stale or head["last_event_id"] == event.id):
            # Its answer was lost: the object knows what came before it, and nothing after it.
            return Marker(head["found_incarnation"], seq - 1, None)
        if head["lacks_last"] and unix(head["updated_at"]) < session.last_update_time:
            raise _set_back(session)
        if stale and not self._merge:
            raise StaleSession(
                f"Session {session.id} has been modified in storage since it was loaded; "
                "load it again."
            )
        return Marker(head["found_incarnation"], head["found_revision"], head["found_token"])


def _session(app_name: str, row: Any, events: list[Event]) -> Session:
    session = records.session(
        app_name=app_name, row=row, app_state=row["app_state"], user_state=row["user_state"]
    )
    session.events = events
    return session


def _set_back(session: Session) -> StaleSession:
    return StaleSession(
        f"Session {session.id} went back in storage: a failover or a restored backup lost events "
        "that this Session object holds; load it again, and repeat the missing appends."
    )


def _place(session: Session) -> SessionKey:
    return {
        "app_name": session.app_name,
        "user_id": session.user_id,
        "session_id": session.id,
    }


def _stripped(session_id: str | None) -> str:
    return (session_id or "").strip()
