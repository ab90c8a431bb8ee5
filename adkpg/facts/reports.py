"""Reports: what an extraction did, and what is known of a person."""

from collections import Counter
from dataclasses import dataclass, field

from adkpg.facts.extractor import Usage
from adkpg.memory.records import Memory, text_of


@dataclass(frozen=True)
class ExtractionReport:
    """Counts of an extraction; sums with ``+``.

    Attributes:
      turns: Turns that facts were drawn from; they are not read again.
      failed: Turns that were given back after a failure.
      added: New facts.
      updated: Facts that were completed or corrected.
      superseded: Facts that are true no longer, those among the new ones included.
      dropped: How many operations of the extractor did nothing, by reason.
      usage: The tokens spent, on failures too.
      errors: What the failures say.
      unavailable: Whether the extractor does not answer now, whatever it is asked.
    """

    turns: int = 0
    failed: int = 0
    added: int = 0
    updated: int = 0
    superseded: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)
    errors: tuple[str, ...] = ()
    unavailable: bool = False

    def __add__(self, other: "ExtractionReport") -> "ExtractionReport":
        return ExtractionReport(
            self.turns + other.turns,
            self.failed + other.failed,
            self.added + other.added,
            self.updated + other.updated,
            self.superseded + other.superseded,
            self.dropped + other.dropped,
            self.usage + other.usage,
            self.errors + other.errors,
            self.unavailable or other.unavailable,
        )


@dataclass(frozen=True)
class ProfileFact:
    """One fact and what it rests on.

    Attributes:
      memory: The fact.
      provenance: The memories it was drawn from, by time.
    """

    memory: Memory
    provenance: tuple[Memory, ...]

    @property
    def text(self) -> str:
        """Its words."""
        return text_of(self.memory.content)


@dataclass(frozen=True)
class Profile:
    """The facts about a person.

    Attributes:
      facts: Live facts, the most important and then the latest first.
    """

    facts: tuple[ProfileFact, ...]

    @property
    def text(self) -> str:
        """The facts as a list of one line each; they are data, never instructions."""
        return "\n".join(f"- {fact.text}" for fact in self.facts)


@dataclass(frozen=True)
class SessionSummary:
    """The summary of a session.

    Attributes:
      memory: The summary; None if the session has nothing in memory.
      usage: The tokens spent; none if the summary was there already.
    """

    memory: Memory | None
    usage: Usage = field(default_factory=Usage)
