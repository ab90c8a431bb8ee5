"""Report: what an import did, found and could not read."""

from dataclasses import dataclass, field
from typing import Any

from adkpg.tooling.transfer.records import Unread

_LISTED = 1_000


@dataclass
class Listing:
    """Sentences, the first of which are kept.

    Attributes:
      count: How many there were.
      first: Up to 1,000 of them.
    """

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, sentence: str) -> None:
        """Adds one."""
        self.count += 1
        if len(self.first) < _LISTED:
            self.first.append(sentence)


@dataclass
class ImportReport:
    """What an import did.

    Attributes:
      source: What was read, without passwords.
      dry_run: Whether nothing was written; the figures then say what would be.
      sessions: Sessions that were read.
      events: Events that were read.
      created: Sessions that were not there before.
      extended: Sessions that were there with fewer events.
      unchanged: Sessions that were there already; they may have gone on since.
      events_written: Events that were written.
      states: Shared states, of apps and users, that were read.
      memories: Memories that were read from an export.
      memories_written: Memories that were written, of an export or by `remember`.
      tombstones: Marks of deleted memories that were read.
      artifacts: Versions of files that were read from an export.
      rows: Other rows that were read, such as tasks of A2A, or an export's saved questions.
      verified: Sessions whose events and state were compared with what is stored.
      differing: What differs, or is in the way of the source's.
      unread: What could not be read or stored.
      notes: What else a reader should know, each once.
    """

    source: str
    dry_run: bool = False
    sessions: int = 0
    events: int = 0
    created: int = 0
    extended: int = 0
    unchanged: int = 0
    events_written: int = 0
    states: int = 0
    memories: int = 0
    memories_written: int = 0
    tombstones: int = 0
    artifacts: int = 0
    rows: int = 0
    verified: int = 0
    differing: Listing = field(default_factory=Listing)
    unread: Listing = field(default_factory=Listing)
    notes: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether all that the source has was read, and is stored as it is there."""
        return not self.unread.count and not self.differing.count

    def note(self, sentence: str) -> None:
        """Adds a note, unless it was said or there are 1,000: a source may cause any number."""
        if len(self.notes) < _LISTED and sentence not in self.notes:
            self.notes.append(sentence)

    def miss(self, unread: Unread) -> None:
        """Adds what could not be read."""
        self.unread.add(str(unread))

    def as_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        value = {**vars(self), "complete": self.complete}
        for name in ("differing", "unread"):
            listing: Listing = getattr(self, name)
            value[name] = {"count": listing.count, "first": list(listing.first)}
        return value
