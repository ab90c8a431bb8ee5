"""Writing sessions: batches of them, compared with what is there, and written where it is missing.

A session that is there is never rewritten: if the first of the source's events are its own, those
that it lacks follow, and else it is left alone and reported. So an import can be run again, after a
kill or once the source has gone on, and writes what is missing alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypedDict, TypeVar

from adkpg import jsontext
from adkpg.database import Database, Transaction
from adkpg.errors import InvalidInput
from adkpg.keys import require_storable
from adkpg.limits import require_size
from adkpg.memory.drafts import drafts_of_events
from adkpg.memory.write import apply
from adkpg.remember.policy import RememberPolicy
from adkpg.sessions.state import parted
from adkpg.timestamps import clamped
from adkpg.tooling.transfer.records import EventRecord, SessionRecord, Unread
from adkpg.tooling.transfer.report import ImportReport
from adkpg.tooling.transfer.writing import statements

T = TypeVar("T")

_EVENTS = 1_000
_CHARACTERS = 4_000_000
_SESSIONS = 500
_ATTEMPTS = 5
# Of one session, further differences say no more.
_TOLD = 3


class Mode(Enum):
    """What becomes of what is read."""

    WRITE = "write"
    COUNT = "count"
    VERIFY = "verify"


class _Raced(Exception):
    """Another process created one of the sessions in this moment."""


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
      created: Whether this import creates it.
      extended: Whether this import adds to what was there.
      failed: Whether it is left alone.
      told: How many differences were reported.
    """

    record: SessionRecord
    state: str
    initial: str | None
    seq: int = 0
    created: bool = False
    extended: bool = False
    failed: bool = False
    told: int = 0

    @property
    def name(self) -> str:
        record = self.record
        return f"app {record.app_name!r}, user {record.user_id!r}, session {record.session_id!r}"


@dataclass
class _Chunk:
    """Some consecutive events of a session.

    Attributes:
      session: Whose.
      before: Number of the event before them.
      first: Whether the session begins with them.
      last: Whether it ends with them.
      rows: Their numbers, and the events.
    """

    session: _Open
    before: int
    first: bool
    last: bool = False
    rows: list[tuple[int, EventRecord]] = field(default_factory=list)


@dataclass(frozen=True)
class _Moved:
    """A session that gets events: up to which revision, its time then, and the events' bytes."""

    chunk: _Chunk
    revision: int
    updated: datetime
    size: int

    @classmethod
    def by(cls, chunk: _Chunk, rows: Sequence[tuple[int, EventRecord]]) -> "_Moved":
        size = sum(len(event.payload.encode()) for _, event in rows)
        return cls(chunk, *_end(chunk), size)


@dataclass
class _Outcome:
    """What one batch does, and what is then said of it."""

    create: list[_Moved] = field(default_factory=list)
    advance: list[_Moved] = field(default_factory=list)
    events: list[tuple[_Open, int, EventRecord]] = field(default_factory=list)
    differing: list[tuple[_Open, str]] = field(default_factory=list)
    failed: list[_Open] = field(default_factory=list)


class SessionWriter:
    """Takes sessions and their events, and writes, counts or verifies them in batches.

    Args:
      database: Where.
      report: Is told what became of them.
      mode: What becomes of them.
      remember: Whether their events are given to memory, too.
    """

    def __init__(
        self, database: Database, report: ImportReport, *, mode: Mode, remember: bool = False
    ) -> None:
        self._database = database
        self._report = report
        self._mode = mode
        self._remember = remember
        self._policy: RememberPolicy | None = database.policy
        self._open: _Open | None = None
        self._chunks: list[_Chunk] = []
        self._events = self._characters = 0

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
        self._chunks.append(_Chunk(self._open, before=0, first=True))

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
        if self._mode is Mode.VERIFY:
            return
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
        if not self._chunks or self._chunks[-1].session is not session:
            self._chunks.append(_Chunk(session, before=session.seq, first=False))
        seq = max(event.seq or 0, session.seq + 1)
        session.seq = seq
        self._chunks[-1].rows.append((seq, event))
        self._events += 1
        self._characters += len(event.payload)
        if self._events >= _EVENTS or self._characters >= _CHARACTERS:
            await self.flush()

    async def end(self) -> None:
        """Ends the session that was begun last."""
        session, self._open = self._open, None
        if session is None:
            return
        if not self._chunks or self._chunks[-1].session is not session:
            self._chunks.append(_Chunk(session, before=session.seq, first=False))
        self._chunks[-1].last = True
        if len(self._chunks) >= _SESSIONS:
            await self.flush()

    async def flush(self) -> None:
        """Does what is to be done with what came so far."""
        chunks, self._chunks = self._chunks, []
        self._events = self._characters = 0
        chunks = [chunk for chunk in chunks if not chunk.session.failed]
        # Of one session several chunks may wait, such as from two exports; they come in turn.
        while chunks:
            batch: dict[tuple[str, str, str], _Chunk] = {}
            rest = []
            for chunk in chunks:
                key = chunk.session.record.key
                if key in batch:
                    rest.append(chunk)
                else:
                    batch[key] = chunk
            await self._do(batch)
            chunks = [chunk for chunk in rest if not chunk.session.failed]

    async def _do(self, batch: dict[tuple[str, str, str], _Chunk]) -> None:
        for chunk in batch.values():
            await self._without_doubles(chunk)
        outcome = await self._written(batch)
        self._tell(outcome)
        for chunk in batch.values():
            session = chunk.session
            if not session.failed:
                if self._remember and self._mode is Mode.WRITE:
                    await self._remembered(session.record, chunk.rows)
                if chunk.last:
                    self._finish(session)

    async def _without_doubles(self, chunk: _Chunk) -> None:
        """Leaves out events whose id came before: a session has each once."""
        ids: set[str] = set()
        if not chunk.first and chunk.rows and self._mode is not Mode.COUNT:
            app_name, user_id, session_id = chunk.session.record.key
            known = await self._database.run.fetch(
                statements.select_known(
                    app_name=app_name,
                    user_id=user_id,
                    session_id=session_id,
                    event_ids=[event.event.id for _, event in chunk.rows],
                    before=chunk.rows[0][0],
                )
            )
            ids.update(row["event_id"] for row in known)
        if not ids and len({event.event.id for _, event in chunk.rows}) == len(chunk.rows):
            return
        kept: list[tuple[int, EventRecord]] = []
        seq = chunk.before
        for number, event in chunk.rows:
            if event.event.id in ids:
                self._miss(
                    chunk.session.record,
                    event.event.id,
                    "an event of this id came before in the session, which has each once.",
                )
                continue
            ids.add(event.event.id)
            seq = number if event.seq else seq + 1
            kept.append((seq, event))
        chunk.rows = kept
        chunk.session.seq = seq

    async def _written(self, batch: dict[tuple[str, str, str], _Chunk]) -> _Outcome:
        async def work(transaction: Transaction) -> _Outcome:
            return await self._compared(transaction, batch)

        for _ in range(_ATTEMPTS):
            try:
                return await self._database.run.transact(work)
            except _Raced:
                continue
        return await self._database.run.transact(work)

    async def _compared(
        self, transaction: Transaction, batch: dict[tuple[str, str, str], _Chunk]
    ) -> _Outcome:
        writing, outcome = self._mode is Mode.WRITE, _Outcome()
        reading = statements.hold_sessions if writing else statements.select_sessions
        rows = await transaction.fetch(reading(**_keys(batch.keys())))
        found = {_key(row): row for row in rows}
        there = [chunk for key, chunk in batch.items() if key in found and chunk.rows]
        windows: dict[tuple[str, str, str], dict[int, Any]] = {}
        if there:
            query = statements.select_windows(
                **_keys(chunk.session.record.key for chunk in there),
                firsts=[chunk.rows[0][0] for chunk in there],
                lasts=[chunk.rows[-1][0] for chunk in there],
                payloads=self._mode is Mode.VERIFY,
            )
            for row in await transaction.fetch(query):
                windows.setdefault(_key(row), {})[row["seq"]] = row
        for key, chunk in batch.items():
            if key in found:
                self._extended(outcome, chunk, found[key], windows.get(key, {}))
            else:
                self._new(outcome, chunk)
        if writing:
            await _write(transaction, outcome)
        return outcome

    def _new(self, outcome: _Outcome, chunk: _Chunk) -> None:
        session = chunk.session
        if self._mode is Mode.VERIFY:
            outcome.differing.append((session, "it is not stored."))
        elif not chunk.first and self._mode is Mode.WRITE:
            outcome.differing.append((session, "it was deleted during the import."))
        else:
            outcome.create.append(_Moved.by(chunk, chunk.rows))
            outcome.events += [(session, seq, event) for seq, event in chunk.rows]
            return
        outcome.failed.append(session)

    def _extended(self, outcome: _Outcome, chunk: _Chunk, row: Any, window: dict[int, Any]) -> None:
        session, revision = chunk.session, row["revision"]
        for seq, event in chunk.rows:
            stored = window.get(seq)
            if seq > revision or stored is None:
                continue  # it is new; or it was pruned here, which an import does not undo
            if stored["event_id"] != event.event.id:
                outcome.differing.append(
                    (
                        session,
                        f"its event number {seq} is {stored['event_id']!r} where the source has "
                        f"{event.event.id!r}; it was left as it is.",
                    )
                )
                outcome.failed.append(session)
                return
            if self._mode is Mode.VERIFY and not _equal(stored["payload"], event.payload):
                outcome.differing.append(
                    (session, f"its event {event.event.id!r} differs from the source's.")
                )
        new = [(seq, event) for seq, event in chunk.rows if seq > revision]
        if new and self._mode is Mode.VERIFY:
            outcome.differing.append((session, f"{len(new)} of its events are not stored."))
        elif new:
            if revision < chunk.before and new[0][1].seq is None:
                outcome.differing.append((session, "events of it went during the import."))
                outcome.failed.append(session)
                return
            outcome.advance.append(_Moved.by(chunk, new))
            outcome.events += [(session, seq, event) for seq, event in new]
        last = max(session.record.revision or 0, session.seq)
        if chunk.last and self._mode is Mode.VERIFY and revision == last:
            stored_state = jsontext.read_state(row["state"])
            if stored_state != jsontext.read_state(session.state):
                outcome.differing.append((session, "its state differs from the source's."))

    def _tell(self, outcome: _Outcome) -> None:
        for moved in outcome.create:
            if moved.chunk.first:
                moved.chunk.session.created = True
        for moved in outcome.advance:
            moved.chunk.session.extended = not moved.chunk.session.created
        for session in outcome.failed:
            session.failed = True
        for session, sentence in outcome.differing:
            session.told += 1
            if session.told <= _TOLD:
                self._report.differing.add(f"{session.name}: {sentence}")
        if self._mode is not Mode.VERIFY:
            self._report.events_written += len(outcome.events)

    def _finish(self, session: _Open) -> None:
        if self._mode is Mode.VERIFY:
            self._report.verified += 1
        elif session.created:
            self._report.created += 1
        elif session.extended:
            self._report.extended += 1
        else:
            self._report.unchanged += 1

    async def _remembered(
        self, record: SessionRecord, rows: Sequence[tuple[int, EventRecord]]
    ) -> None:
        """Gives events to the user's memory, which knows those that it was given before."""
        app_name, user_id, session_id = record.key
        try:
            drafts = drafts_of_events(
                [event.event for _, event in rows], session_id, policy=self._policy
            )
            if not drafts:
                return

            async def work(transaction: Transaction) -> None:
                await apply.ingest(
                    transaction,
                    {"app_name": app_name, "user_id": user_id, "session_id": session_id},
                    drafts,
                    whole=False,
                    settings=self._database.settings,
                )

            await self._database.run.transact(work)
        except InvalidInput as exc:
            self._miss(record, None, f"some of it was not remembered: {exc}")
            return
        self._report.memories_written += len(drafts)


def _equal(stored: str, given: str) -> bool:
    return stored == given or jsontext.same_json(stored, given)


def _end(chunk: _Chunk) -> tuple[int, datetime]:
    """The revision and time of a session that ends with these events, so far."""
    record, revision = chunk.session.record, chunk.rows[-1][0] if chunk.rows else 0
    if chunk.last and record.revision is not None:
        revision = max(revision, record.revision)
        if record.updated_at is not None:
            return revision, record.updated_at
    if chunk.rows:
        return revision, _happened(chunk.rows[-1][1])
    return revision, record.updated_at or record.created_at or datetime.now(UTC)


def _key(row: Any) -> tuple[str, str, str]:
    return row["app_name"], row["user_id"], row["session_id"]


def _keys(keys: Iterable[tuple[str, str, str]]) -> _Keys:
    listed = list(keys)
    return {
        "app_names": [key[0] for key in listed],
        "user_ids": [key[1] for key in listed],
        "session_ids": [key[2] for key in listed],
    }


def _sessions(moved: Sequence[_Moved]) -> _Sessions:
    opened = [each.chunk.session for each in moved]
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


def _initial(chunk: _Chunk) -> str | None:
    """The state before the first event: as the source says, or what no event has set since."""
    session = chunk.session
    if session.record.revision is not None or not (chunk.first and chunk.last):
        return session.initial
    set_since = {key for _, event in chunk.rows for key in event.event.actions.state_delta}
    left = {key: each for key, each in session.record.state.items() if key not in set_since}
    return jsontext.write_state(left) if left else None


def _created(chunk: _Chunk, updated: datetime) -> datetime:
    if chunk.session.record.created_at is not None:
        return chunk.session.record.created_at
    return _happened(chunk.rows[0][1]) if chunk.rows else updated


def _happened(event: EventRecord) -> datetime:
    """When an event happened, which is not yet to come whatever it says."""
    return min(clamped(event.event.timestamp), datetime.now(UTC))


async def _write(transaction: Transaction, outcome: _Outcome) -> None:
    if outcome.create:
        made = await transaction.fetch(
            statements.insert_sessions(
                **_sessions(outcome.create),
                created=[_created(each.chunk, each.updated) for each in outcome.create],
                initials=[_initial(each.chunk) for each in outcome.create],
            )
        )
        if len(made) < len(outcome.create):
            raise _Raced
    if outcome.advance:
        await transaction.fetch(statements.advance_sessions(**_sessions(outcome.advance)))
    if outcome.events:
        await transaction.fetch(
            statements.insert_events(
                **_keys(session.record.key for session, _, _ in outcome.events),
                seqs=[seq for _, seq, _ in outcome.events],
                event_ids=[event.event.id for _, _, event in outcome.events],
                timestamps=[clamped(event.event.timestamp) for _, _, event in outcome.events],
                payloads=[event.payload for _, _, event in outcome.events],
            )
        )
