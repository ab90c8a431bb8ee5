"""Writing sessions: batches of them, compared with what is there, and written where it is missing.

A session that is there is never rewritten: if the first of the source's events are its own, those
that it lacks follow, and else it is left alone and reported. So an import can be run again, after a
kill or once the source has gone on, and writes what is missing alone.

Small sessions share a transaction, which is repeated as a whole while a fault passes. One that is
larger than a batch has a transaction of its own, from its first event to its last, which is not
repeated. Either way all that is new of a session is there, or none of it.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TypedDict

from adkpg import jsontext
from adkpg.database import Database, Transaction
from adkpg.errors import InvalidInput
from adkpg.keys import SessionKey, require_storable
from adkpg.limits import require_size
from adkpg.memory.drafts import drafts_of_events
from adkpg.memory.write import apply
from adkpg.memory.write.statements import lock_session
from adkpg.sessions.state import parted
from adkpg.timestamps import clamped
from adkpg.tooling.transfer.records import EventRecord, SessionRecord, Unread
from adkpg.tooling.transfer.report import ImportReport
from adkpg.tooling.transfer.writing import statements
from adkpg.tooling.transfer.writing.refusals import written

_EVENTS = 1_000
_CHARACTERS = 4_000_000
_SESSIONS = 500
_REMEMBERED = 50  # sessions that are held while their memories are written
_ATTEMPTS = 5
# Of one session, further differences say no more.
_TOLD = 3


class _Raced(Exception):
    """Another process created one of the sessions in this moment."""


class _Left(Exception):
    """The session that is being read is left, because its source failed."""


class _Keys(TypedDict):
    """Sessions, in parallel arrays."""

    app_names: list[str]
    user_ids: list[str]
    session_ids: list[str]


class _Sessions(_Keys):
    """Sessions as they are to be stored; states are JSON text."""

    states: list[str]
    revisions: list[int]
    updated: list[datetime]
    places: list[int | None]
    sizes: list[int]
    ttls: list[float | None]
    ends: list[datetime | None]


@dataclass
class _Open:
    """A session that is being read.

    Attributes:
      record: What it is.
      state: Its state as JSON text.
      initial: Its state before the first event, as JSON text.
      seq: Number of the last event that came.
      rows: Those events that came and are not written: their numbers, and they.
      before: Number of the event before these.
      first: Whether the session begins with these.
      last: Whether it ends with these.
      created: Whether this import creates it.
      extended: Whether this import adds to what was there.
      failed: Whether it is left alone.
      told: How many differences were reported.
      written: How many events were written.
      remembered: How many memories were.
    """

    record: SessionRecord
    state: str
    initial: str | None
    seq: int = 0
    rows: list[tuple[int, EventRecord]] = field(default_factory=list)
    before: int = 0
    first: bool = True
    last: bool = False
    created: bool = False
    extended: bool = False
    failed: bool = False
    told: int = 0
    written: int = 0
    remembered: int = 0

    @property
    def size(self) -> int:
        """How many characters wait to be written."""
        payloads = sum(len(event.payload) for _, event in self.rows)
        return len(self.state) + len(self.initial or "") + payloads

    def went(self) -> None:
        """Goes on after the rows that were written."""
        self.rows, self.before, self.first = [], self.seq, False


@dataclass(frozen=True)
class _Moved:
    """A session that gets events: up to which revision, its time then, and the events' bytes."""

    session: _Open
    revision: int
    updated: datetime
    size: int

    @classmethod
    def by(cls, session: _Open, rows: Sequence[tuple[int, EventRecord]]) -> Self:
        size = sum(len(event.payload.encode()) for _, event in rows)
        return cls(session, *_end(session), size)


_Row = tuple[_Open, int, EventRecord]


@dataclass
class _Outcome:
    """What one transaction does, and what is then said of it."""

    create: list[_Moved] = field(default_factory=list)
    advance: list[_Moved] = field(default_factory=list)
    events: list[_Row] = field(default_factory=list)
    refused: dict[tuple[str, str, str, int], str] = field(default_factory=dict)
    differing: list[tuple[_Open, str]] = field(default_factory=list)
    failed: list[_Open] = field(default_factory=list)
    forgot: list[tuple[_Open, str]] = field(default_factory=list)
    remembered: list[tuple[_Open, int]] = field(default_factory=list)

    def refuse(self, row: _Row, reason: str) -> None:
        """Notes an event that the server refused."""
        session, seq, _ = row
        self.refused[(*session.record.key, seq)] = reason


class SessionWriter:
    """Takes sessions and their events, and writes or counts them in batches.

    A context: if it is left by an exception, the session that is being read is not there.

    Args:
      database: Where.
      report: Is told what became of them.
      writing: Whether they are written; else they are compared and counted.
      remember: Whether their events are given to memory, too.
    """

    def __init__(
        self, database: Database, report: ImportReport, *, writing: bool, remember: bool
    ) -> None:
        self._database = database
        self._report = report
        self._writing = writing
        self._remember = remember
        self._open: _Open | None = None
        self._waiting: list[_Open] = []
        self._events = self._characters = 0
        self._held: Transaction | None = None
        self._stack = contextlib.AsyncExitStack()
        self._failure: Exception | None = None  # of what is held

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, Exception) and exc is not self._failure:
            await self._let_go()  # the transaction would take the error for the server's
        else:
            await self._stack.__aexit__(kind, exc, traceback)

    async def _hold(self) -> Transaction:
        """Returns the transaction of the session that is being read, and begins it if need be."""
        if self._held is None:
            self._held = await self._stack.enter_async_context(self._database.run.transaction())
        return self._held

    async def _let_go(self) -> None:
        """Takes back what was written of the session that is being read."""
        self._held = None
        with contextlib.suppress(_Left):
            await self._stack.__aexit__(_Left, _Left(), None)

    async def begin(self, record: SessionRecord) -> None:
        """Begins a session; the one before has ended."""
        await self.end()
        try:
            require_storable(
                app_name=record.app_name, user_id=record.user_id, session_id=record.session_id
            )
            state = jsontext.write_state(self._own(record, record.state))
            initial = record.initial_state
            begun = None if initial is None else jsontext.write_state(self._own(record, initial))
            require_size(self._database.settings, "max_state_mb", "The session's state", state)
        except InvalidInput as exc:
            self._miss(record, None, str(exc))
            return
        self._open = _Open(record, state, begun)
        self._characters += self._open.size

    def _own(self, record: SessionRecord, state: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the keys of a state that are the session's own; notes those of an app or user."""
        own, app, user = parted(state)
        if app or user:
            self._report.note(
                f"The state of session {record.session_id!r} of user {record.user_id!r} of app "
                f"{record.app_name!r} has keys with the prefix of an app's or a user's; they were "
                "left out."
            )
        return own

    def _miss(self, record: SessionRecord, event_id: str | None, reason: str) -> None:
        app_name, user_id, session_id = record.key
        self._report.miss(
            Unread(
                reason=reason,
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                event_id=event_id,
            )
        )

    async def add(self, event: EventRecord) -> None:
        """Adds an event to the session that was begun last."""
        session = self._open
        if session is None or session.failed:
            return
        try:
            require_storable(event_id=event.event.id)
            require_size(
                self._database.settings, "max_event_mb", f"Event {event.event.id}", event.payload
            )
        except InvalidInput as exc:
            self._miss(session.record, event.event.id[:100], str(exc))
            return
        session.seq = max(event.seq or 0, session.seq + 1)
        session.rows.append((session.seq, event))
        self._events += 1
        self._characters += len(event.payload)
        if self._is_full():
            await self._write_waiting()
            if self._is_full():
                await self._write_part(session)

    def _is_full(self) -> bool:
        return self._events >= _EVENTS or self._characters >= _CHARACTERS

    async def end(self) -> None:
        """Ends the session that was begun last."""
        session, self._open = self._open, None
        if session is None:
            return
        session.last = True
        if self._held is None:
            self._waiting.append(session)
        else:
            await self._write_part(session)
            if session.failed:
                await self._let_go()
            else:
                self._held = None
                await self._stack.aclose()  # commits
            self._finish(session)
        most = _REMEMBERED if self._remember else _SESSIONS
        if len(self._waiting) >= most or self._is_full():
            await self._write_waiting()

    async def flush(self) -> None:
        """Ends the session that was begun last, and writes what waits."""
        await self.end()
        await self._write_waiting()

    async def _write_part(self, session: _Open) -> None:
        """Writes what came of a session that is larger than a batch."""
        try:
            if not session.failed:
                self._without_doubles(session, await self._known(await self._hold(), session))
                self._tell(await self._written_part(session))
        except Exception as exc:
            self._failure = exc
            raise
        self._events = self._characters = 0
        session.went()

    async def _written_part(self, session: _Open) -> _Outcome:
        for attempt in range(_ATTEMPTS):
            try:
                return await self._write(await self._hold(), {session.record.key: session})
            except _Raced:  # before anything was written of it
                if attempt == _ATTEMPTS - 1:
                    raise
                await self._let_go()
        raise AssertionError("an attempt returns or raises")

    async def _known(self, transaction: Transaction, session: _Open) -> set[str]:
        """Returns which of the events came in an earlier part of the session."""
        if session.first or not session.rows or not self._writing:
            return set()
        query = statements.select_known(
            **_key(session.record.key),
            event_ids=[event.event.id for _, event in session.rows],
            before=session.rows[0][0],
        )
        return {row["event_id"] for row in await transaction.fetch(query)}

    async def _write_waiting(self) -> None:
        """Writes the sessions that ended, in one transaction if each came once."""
        waiting, self._waiting = self._waiting, []
        for session in waiting:
            self._events -= len(session.rows)
            self._characters -= session.size
            self._without_doubles(session, set())
        # One session may come twice, such as from two exports; then they come in turn.
        while waiting:
            batch: dict[tuple[str, str, str], _Open] = {}
            rest = []
            for session in waiting:
                if session.record.key in batch:
                    rest.append(session)
                else:
                    batch[session.record.key] = session
            self._tell(await self._transacted(batch))
            for session in batch.values():
                self._finish(session)
            waiting = rest

    async def _transacted(self, batch: dict[tuple[str, str, str], _Open]) -> _Outcome:
        async def work(transaction: Transaction) -> _Outcome:
            return await self._write(transaction, batch)

        for _ in range(_ATTEMPTS):
            try:
                return await self._database.run.transact(work)
            except _Raced:
                continue
        return await self._database.run.transact(work)

    async def _write(
        self, transaction: Transaction, batch: dict[tuple[str, str, str], _Open]
    ) -> _Outcome:
        outcome = _Outcome()
        if self._writing and self._remember:  # which an ingest takes before the session's row
            for key in sorted(batch):
                await transaction.fetch(lock_session(**_key(key)))
        reading = statements.hold_sessions if self._writing else statements.select_sessions
        rows = await transaction.fetch(reading(**_keys(batch)))
        found = {_named(row): row for row in rows}
        there = [session for key, session in batch.items() if key in found and session.rows]
        windows: dict[tuple[str, str, str], dict[int, str]] = {}
        if there:
            for row in await transaction.fetch(statements.select_windows(**_windows(there))):
                windows.setdefault(_named(row), {})[row["seq"]] = row["event_id"]
        for key, session in batch.items():
            if key in found:
                self._extended(outcome, session, found[key]["revision"], windows.get(key, {}))
            else:
                self._new(outcome, session)
        if self._writing:
            await self._insert(transaction, outcome)
        await self._compare(transaction, outcome, batch, found)
        if self._writing and self._remember:
            for session in batch.values():
                await self._remembered(transaction, outcome, session)
        return outcome

    def _without_doubles(self, session: _Open, ids: set[str]) -> None:
        """Leaves out events whose id came before: a session has each once."""
        if not ids and len({event.event.id for _, event in session.rows}) == len(session.rows):
            return
        kept: list[tuple[int, EventRecord]] = []
        seq = session.before
        for _, event in session.rows:
            if event.event.id in ids:
                self._miss(
                    session.record,
                    event.event.id,
                    "an event of this id came before in the session, which has each once.",
                )
                continue
            ids.add(event.event.id)
            seq = max(event.seq or 0, seq + 1)
            kept.append((seq, event))
        session.rows = kept
        session.seq = seq

    def _new(self, outcome: _Outcome, session: _Open) -> None:
        if not session.first and self._writing:
            outcome.differing.append((session, "it was deleted during the import."))
            outcome.failed.append(session)
            return
        outcome.create.append(_Moved.by(session, session.rows))
        outcome.events += [(session, seq, event) for seq, event in session.rows]

    def _extended(
        self, outcome: _Outcome, session: _Open, revision: int, window: dict[int, str]
    ) -> None:
        for seq, event in session.rows:
            stored = window.get(seq)
            # Without one it is new, or it was pruned here, which an import does not undo.
            if seq <= revision and stored is not None and stored != event.event.id:
                outcome.differing.append(
                    (
                        session,
                        f"its event number {seq} is {stored!r} where the source has "
                        f"{event.event.id!r}; it was left as it is.",
                    )
                )
                outcome.failed.append(session)
                return
        new = [(seq, event) for seq, event in session.rows if seq > revision]
        if not new:
            return
        if revision < session.before and new[0][1].seq is None:
            outcome.differing.append((session, "events of it went during the import."))
            outcome.failed.append(session)
            return
        outcome.advance.append(_Moved.by(session, new))
        outcome.events += [(session, seq, event) for seq, event in new]

    async def _insert(self, transaction: Transaction, outcome: _Outcome) -> None:
        if outcome.create:
            made = await transaction.fetch(
                statements.insert_sessions(
                    **_sessions(outcome.create),
                    created=[_created(each.session, each.updated) for each in outcome.create],
                    initials=[_initial(each.session) for each in outcome.create],
                )
            )
            if len(made) < len(outcome.create):
                raise _Raced
        if outcome.advance:
            await transaction.fetch(statements.advance_sessions(**_sessions(outcome.advance)))

        async def write(rows: Sequence[_Row]) -> None:
            await transaction.fetch(
                statements.insert_events(
                    **_keys(session.record.key for session, _, _ in rows),
                    seqs=[seq for _, seq, _ in rows],
                    event_ids=[event.event.id for _, _, event in rows],
                    timestamps=[clamped(event.event.timestamp) for _, _, event in rows],
                    payloads=[event.payload for _, _, event in rows],
                )
            )

        await written(transaction, outcome.events, write, outcome.refuse)

    async def _compare(
        self,
        transaction: Transaction,
        outcome: _Outcome,
        batch: dict[tuple[str, str, str], _Open],
        found: Mapping[tuple[str, str, str], Any],
    ) -> None:
        """Compares what is stored of the sessions with the source's, by digests."""
        failed = {session.record.key for session in outcome.failed}
        asked = [
            session
            for key, session in batch.items()
            if key not in failed and (self._writing or key in found)
        ]
        if not asked:
            return
        rows = await transaction.fetch(
            statements.select_digests(
                **_windows(asked), states=[session.state for session in asked]
            )
        )
        digests = {_named(row): row for row in rows}
        unequal = []
        for session in asked:
            row = digests.get(session.record.key)
            if row is None:
                outcome.differing.append((session, "it is not stored."))
                continue
            if session.rows and row["digest"] != self._digest(outcome, session):
                unequal.append(session)
            last = max(session.record.revision or 0, session.seq)
            if session.last and row["revision"] == last and not row["same_state"]:
                outcome.differing.append((session, "its state differs from the source's."))
        if unequal:
            await self._explain(transaction, outcome, unequal)

    def _digest(self, outcome: _Outcome, session: _Open) -> str:
        """As `statements.select_digests` makes it."""
        whole = hashlib.sha256()
        for seq, event in session.rows:
            if (*session.record.key, seq) not in outcome.refused:
                whole.update(hashlib.sha256(event.payload.encode()).digest())
        return whole.hexdigest()

    async def _explain(
        self, transaction: Transaction, outcome: _Outcome, sessions: Sequence[_Open]
    ) -> None:
        """Says which events differ; those that are spelled otherwise, or gone, do not."""
        for session in sessions:
            query = statements.select_payloads(
                **_key(session.record.key), first=session.rows[0][0], last=session.rows[-1][0]
            )
            stored = {row["seq"]: row["payload"] for row in await transaction.fetch(query)}
            for seq, event in session.rows:
                payload = stored.get(seq)
                if payload is not None and not _equal(payload, event.payload):
                    outcome.differing.append(
                        (session, f"its event {event.event.id!r} differs from the source's.")
                    )

    async def _remembered(
        self, transaction: Transaction, outcome: _Outcome, session: _Open
    ) -> None:
        """Gives events to the user's memory, which knows those that it was given before."""
        if session in outcome.failed:
            return
        try:
            drafts = drafts_of_events(
                [event.event for _, event in session.rows],
                session.record.session_id,
                policy=self._database.policy,
            )
        except InvalidInput as exc:
            outcome.forgot.append((session, str(exc)))
            return

        async def ingest(given: Sequence[Any]) -> None:
            await apply.ingest(
                transaction,
                _key(session.record.key),
                given,
                whole=False,
                settings=self._database.settings,
            )

        before = len(outcome.forgot)
        await written(
            transaction,
            drafts,
            ingest,
            lambda _, reason: outcome.forgot.append((session, reason)),
        )
        outcome.remembered.append((session, len(drafts) - (len(outcome.forgot) - before)))

    def _tell(self, outcome: _Outcome) -> None:
        """Notes what became of sessions so far."""
        for moved in outcome.create:
            if moved.session.first:
                moved.session.created = True
        for moved in outcome.advance:
            moved.session.extended = not moved.session.created
        for session in outcome.failed:
            session.failed = True
        for session, sentence in outcome.differing:
            session.told += 1
            if session.told <= _TOLD:
                self._report.differing.add(f"{session.record}: {sentence}")
        for session, seq, event in outcome.events:
            reason = outcome.refused.get((*session.record.key, seq))
            if reason is None:
                session.written += 1
            else:
                self._miss(session.record, event.event.id, reason)
        for session, reason in outcome.forgot:
            self._miss(session.record, None, f"some of it was not remembered: {reason}")
        for session, count in outcome.remembered:
            session.remembered += count

    def _finish(self, session: _Open) -> None:
        """Tells the report what became of a session."""
        if session.failed:
            return
        self._report.events_written += session.written
        self._report.memories_written += session.remembered
        self._report.verified += self._writing
        if session.created:
            self._report.created += 1
        elif session.extended:
            self._report.extended += 1
        else:
            self._report.unchanged += 1


def _equal(stored: str, given: str) -> bool:
    return stored == given or jsontext.same_json(stored, given)


def _end(session: _Open) -> tuple[int, datetime]:
    """The revision and time of a session that ends with these events, so far."""
    record, revision = session.record, session.rows[-1][0] if session.rows else 0
    if session.last and record.revision is not None:
        revision = max(revision, record.revision)
        if record.updated_at is not None:
            return revision, record.updated_at
    if session.rows:
        return revision, _happened(session.rows[-1][1])
    return revision, record.updated_at or record.created_at or datetime.now(UTC)


def _named(row: Any) -> tuple[str, str, str]:
    return row["app_name"], row["user_id"], row["session_id"]


def _key(key: tuple[str, str, str]) -> SessionKey:
    return {"app_name": key[0], "user_id": key[1], "session_id": key[2]}


def _keys(keys: Iterable[tuple[str, str, str]]) -> _Keys:
    listed = list(keys)
    return {
        "app_names": [key[0] for key in listed],
        "user_ids": [key[1] for key in listed],
        "session_ids": [key[2] for key in listed],
    }


def _windows(sessions: Sequence[_Open]) -> dict[str, Any]:
    """Sessions, each with the numbers of the first and the last of its rows."""
    return {
        **_keys(session.record.key for session in sessions),
        "firsts": [session.rows[0][0] if session.rows else 0 for session in sessions],
        "lasts": [session.rows[-1][0] if session.rows else 0 for session in sessions],
    }


def _sessions(moved: Sequence[_Moved]) -> _Sessions:
    opened = [each.session for each in moved]
    return {
        **_keys(session.record.key for session in opened),
        "states": [session.state for session in opened],
        "revisions": [each.revision for each in moved],
        "updated": [each.updated for each in moved],
        "places": [session.record.memory_position for session in opened],
        "sizes": [each.size for each in moved],
        "ttls": [session.record.ttl_s for session in opened],
        "ends": [session.record.expires_at for session in opened],
    }


def _initial(session: _Open) -> str | None:
    """The state before the first event: as the source says, or what no event has set since."""
    if session.record.revision is not None or not (session.first and session.last):
        return session.initial
    set_since = {key for _, event in session.rows for key in event.event.actions.state_delta}
    left = {key: each for key, each in session.record.state.items() if key not in set_since}
    return jsontext.write_state(left) if left else None


def _created(session: _Open, updated: datetime) -> datetime:
    if session.record.created_at is not None:
        return session.record.created_at
    return _happened(session.rows[0][1]) if session.rows else updated


def _happened(event: EventRecord) -> datetime:
    """When an event happened, which is not yet to come whatever it says."""
    return min(clamped(event.event.timestamp), datetime.now(UTC))
