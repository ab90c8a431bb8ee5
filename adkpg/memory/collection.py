"""Collection: the memories of one scope in this process, with their words and vectors. No I/O.

What `adkpg.memory.write.statements` do to rows, done to objects. Nothing here waits or locks:
 whoever shares a collection between threads holds a lock around each call.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from adkpg.memory.drafts import Draft
from adkpg.memory.lexemes import lexemes
from adkpg.memory.write import plan as ingestion

if TYPE_CHECKING:
    import numpy as np

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_ENDS_ASKING = re.compile("[?\uff1f\u061f]\\W*$")
_LONGEST_FOUND_BYTES = 512  # as `postings.posted_words` leaves out what is no key of an index


@dataclass(frozen=True)
class Terms:
    """The words that a memory is found by.

    Attributes:
      own: How often each lexeme is in its text.
      dated: The same of its written-out date.
      length: How many words its text has.
    """

    own: Mapping[str, int]
    dated: Mapping[str, int]
    length: int

    @property
    def all(self) -> set[str]:
        """Every lexeme, once."""
        return {*self.own, *self.dated}


def terms_of(draft: Draft, config: str) -> Terms:
    """Returns a memory's words.

    Args:
      draft: The memory.
      config: Text search configuration where its script has none.
    """
    config = draft.script or config
    moment = draft.timestamp.astimezone(UTC)
    date = f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year:04d}"
    own = lexemes(draft.words, config)
    return Terms(_findable(own), _findable(lexemes(date, config)), own.total())


@dataclass(eq=False)
class Entry:
    """One memory.

    Attributes:
      draft: What is stored.
      position: Its place; see `adkpg.memory.write.plan`.
      terms: The words that it is found by.
      vector: Of unit length, ``[d]``; None while it waits for one.
      attempts: How often the embedder refused its text.
      claimed: Whether somebody is embedding it.
    """

    draft: Draft
    position: int
    terms: Terms
    vector: list[float] | None = None
    attempts: int = 0
    claimed: bool = False

    @property
    def row(self) -> dict[str, Any]:
        """What `adkpg.memory.records.memory` reads, and its position."""
        return {**vars(self.draft), "superseded_by": None, "position": self.position}

    @property
    def said(self) -> bool:
        """Whether it is a turn of a conversation."""
        return self.draft.kind == "turn"

    @property
    def asks(self) -> bool:
        """Whether it is a turn that ends in a question, as ``memories.speech`` has it."""
        return self.said and _ENDS_ASKING.search(self.draft.body[-80:]) is not None

    def live(self, now: datetime) -> bool:
        """Returns whether it is recalled."""
        return self.draft.expires_at is None or self.draft.expires_at > now


@dataclass
class Collection:
    """The memories of one user of one app, or of the app.

    Attributes:
      entries: By position.
    """

    entries: dict[int, Entry] = field(default_factory=dict)
    _positions: dict[str, int] = field(default_factory=dict)  # by memory id
    _postings: dict[str, set[int]] = field(default_factory=dict)  # by lexeme
    _tombstones: dict[str, set[str]] = field(default_factory=dict)  # event ids by session
    _matrix: "tuple[list[int], np.ndarray[Any, Any]] | None" = None

    def entry(self, memory_id: str) -> Entry | None:
        """Returns a memory; None if there is none."""
        position = self._positions.get(memory_id)
        return None if position is None else self.entries[position]

    def postings(self, lexeme: str) -> Iterator[Entry]:
        """Returns the memories with a word in their text or date."""
        return (self.entries[position] for position in self._postings.get(lexeme, ()))

    def vectors(self) -> "tuple[list[int], np.ndarray[Any, Any]]":
        """Returns the positions that have a vector, and the vectors ``[n, d]``."""
        if self._matrix is None:
            import numpy as np  # noqa: PLC0415 - of the extra adkpg[local]

            known = [entry for entry in self.entries.values() if entry.vector is not None]
            matrix = np.array([entry.vector for entry in known], np.float32)
            self._matrix = ([entry.position for entry in known], matrix)
        return self._matrix

    def digests(self) -> set[str]:
        """Returns the hashes of what was given."""
        return {entry.draft.digest for entry in self.entries.values()}

    def ingest(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        block: int,
        terms: Callable[[Draft], Terms],
        *,
        whole: bool,
    ) -> None:
        """Writes what a session's events are to be in memory.

        Args:
          session_id: The session.
          drafts: Its events' memories, in its order.
          block: Where to write if positions must be dealt anew.
          terms: Finds a memory's words.
          whole: Whether they are all of the session (`ingestion.replacement`), or come behind what
            it has (`ingestion.addition`).
        """
        stored = [
            ingestion.Stored(
                event_id=entry.draft.event_id,
                position=position,
                memory_id=entry.draft.memory_id,
                digest=entry.draft.digest,
                in_session=False,  # no stored session is known here
            )
            for position, entry in sorted(self.entries.items())
            if entry.draft.session_id == session_id and entry.draft.event_id is not None
        ]
        planned = ingestion.replacement if whole else ingestion.addition
        plan = planned(stored, drafts, self._tombstones.get(session_id, set()), block)
        for position in plan.delete:
            self._remove(position)
        moved = [(self._remove(origin), target) for origin, target in plan.move]
        for entry, target in moved:
            entry.position = target
            self._put(entry)
        for position, draft in plan.insert:
            self._put(Entry(draft, position, terms(draft)))

    def write(
        self, drafts: Sequence[Draft], block: Callable[[], int], terms: Callable[[Draft], Terms]
    ) -> None:
        """Writes memories of given ids, over those that are stored; equal ones are left alone.

        Args:
          drafts: The memories.
          block: Deals the position of a new one.
          terms: Finds a memory's words.
        """
        for draft in drafts:
            known = self.entry(draft.memory_id)
            if known is None:
                self._put(Entry(draft, block(), terms(draft)))
            elif known.draft.digest != draft.digest:
                origin = known.draft
                draft = replace(draft, session_id=origin.session_id, event_id=origin.event_id)
                self._replace(known, draft, terms)

    def change(
        self, entry: Entry, draft: Draft, terms: Callable[[Draft], Terms], *, rewrite: bool
    ) -> None:
        """Changes a memory where it stands.

        Args:
          entry: The memory.
          draft: As it is to be.
          terms: Finds a memory's words.
          rewrite: Whether its text changes: then it waits for a vector again.
        """
        if rewrite:
            self._replace(entry, draft, terms)
            return
        entry.draft = replace(
            entry.draft,
            custom_metadata=draft.custom_metadata,
            topics=draft.topics,
            importance=draft.importance,
            expires_at=draft.expires_at,
            digest=draft.digest,
        )

    def delete(self, memory_id: str) -> None:
        """Deletes a memory if there is one, for good if it came from an event."""
        position = self._positions.get(memory_id)
        if position is None:
            return
        gone = self._remove(position).draft
        if gone.event_id is not None:
            self._tombstones.setdefault(gone.session_id, set()).add(gone.event_id)

    def embed(self, entries: Sequence[Entry], vectors: Sequence[list[float]]) -> int:
        """Gives memories their vectors, of unit length; returns how many were still there."""
        kept = 0
        for entry, vector in zip(entries, vectors, strict=True):
            if self.entries.get(entry.position) is entry:
                entry.vector = vector
                kept += 1
        self._matrix = None
        return kept

    def _replace(self, entry: Entry, draft: Draft, terms: Callable[[Draft], Terms]) -> None:
        self._remove(entry.position)
        self._put(Entry(draft, entry.position, terms(draft)))

    def _put(self, entry: Entry) -> None:
        self.entries[entry.position] = entry
        self._positions[entry.draft.memory_id] = entry.position
        for lexeme in entry.terms.all:
            self._postings.setdefault(lexeme, set()).add(entry.position)
        self._matrix = None

    def _remove(self, position: int) -> Entry:
        entry = self.entries.pop(position)
        del self._positions[entry.draft.memory_id]
        for lexeme in entry.terms.all:
            self._postings[lexeme].discard(position)
            if not self._postings[lexeme]:
                del self._postings[lexeme]
        self._matrix = None
        return entry


def _findable(found: Counter[str]) -> dict[str, int]:
    return {
        lexeme: count
        for lexeme, count in found.items()
        if len(lexeme.encode()) <= _LONGEST_FOUND_BYTES
    }
