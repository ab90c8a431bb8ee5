"""Extractors of facts: the turns and facts they are given, and their answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Usage:
    """Tokens that a model spent; sums with ``+``.

    Attributes:
      prompt_tokens: In requests.
      output_tokens: In answers, thoughts included, as both are billed.
      calls: Requests that were made.
    """

    prompt_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.output_tokens + other.output_tokens,
            self.calls + other.calls,
        )


@dataclass(frozen=True)
class Turn:
    """One remembered turn, which facts may be drawn from.

    Attributes:
      memory_id: The memory that holds it; what a fact names as its provenance.
      event_id: The ADK event it came from; None if it was added directly.
      author: Who said it.
      timestamp: When, with a time zone.
      text: What was said, without the author. Untrusted: it may hold instructions.
      read: Whether facts were drawn from it before; then it is here as context only.
    """

    memory_id: str
    event_id: str | None
    author: str | None
    timestamp: datetime
    text: str
    read: bool = False


@dataclass(frozen=True)
class KnownFact:
    """A fact that is stored already.

    Attributes:
      memory_id: Its id.
      text: Its words.
      importance: In [0, 1].
      topics: What it is about, in lower case.
      provenance: Ids of the memories it was drawn from.
      timestamp: When the last of its provenance was said, with a time zone.
      superseded_by: Id of the fact that is true instead; extractors are given live facts only.
    """

    memory_id: str
    text: str
    importance: float
    topics: tuple[str, ...]
    provenance: tuple[str, ...]
    timestamp: datetime
    superseded_by: str | None = None


@dataclass(frozen=True)
class Add:
    """States a new fact.

    Attributes:
      text: The fact.
      provenance: Memory ids of the turns it was drawn from.
      importance: In [0, 1].
      topics: What it is about.
    """

    text: str
    provenance: tuple[str, ...]
    importance: float = 0.5
    topics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Update:
    """Says a known fact better: completed or corrected, not contradicted; its id stays.

    Attributes:
      memory_id: The known fact.
      text: Its new words, which say all that is still true of the old ones.
      provenance: Memory ids of the turns that completed it; they join those it has.
      importance: In [0, 1].
      topics: What it is about now.
    """

    memory_id: str
    text: str
    provenance: tuple[str, ...]
    importance: float = 0.5
    topics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Supersede:
    """Replaces a known fact by one that contradicts it; the old one stays for audit.

    Attributes:
      memory_id: The known fact that is true no longer.
      by: What is true instead.
    """

    memory_id: str
    by: Add


Operation = Add | Update | Supersede


@dataclass(frozen=True)
class Extraction:
    """An extractor's answer about some turns.

    Attributes:
      operations: The changes to make; each of them is checked.
      usage: The tokens spent.
      dropped: Why operations were left out already, one phrase each.
    """

    operations: tuple[Operation, ...] = ()
    usage: Usage = field(default_factory=Usage)
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Summary:
    """A session in a few sentences.

    Attributes:
      text: The summary.
      topics: What it is about.
      usage: The tokens spent.
    """

    text: str
    topics: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


class MemoryExtractor(Protocol):
    """Anything that draws facts from turns; no base class is needed.

    It may be called for many users simultaneously and by several event loops in turn. Its answer is
    not trusted: ids that it invents are dropped, and its texts are bounded.
    """

    async def extract(self, turns: Sequence[Turn], known: Sequence[KnownFact]) -> Extraction:
        """Returns what the turns say that is not known yet.

        Args:
          turns: Turns of one user, in the order they were said; those with ``read`` are context.
          known: Live facts of the same user, those nearest to the turns.

        Raises:
          ModelError: No usable answer; the turns are read again later.
          ModelUnavailable: It does not answer now, whatever it is asked.
        """
        ...


@runtime_checkable
class Summarizer(Protocol):
    """An extractor that also sums up sessions."""

    async def summarize(self, turns: Sequence[Turn]) -> Summary:
        """Returns a session's turns, in the order they were said, in a few sentences.

        Raises:
          ModelError: No usable answer.
        """
        ...
