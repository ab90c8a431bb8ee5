"""Merging: what an extraction changes in what is known of a person. Pure.

The result is bounded, whatever an extractor says: each fact is short, has provenance among the
turns that were given, and changes only facts that were given. The later of two statements is true;
the order of processing plays no part.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from adkpg.facts.extractor import Add, Extraction, KnownFact, Operation, Supersede, Turn, Update
from adkpg.memory.attributes import weight
from adkpg.memory.duplicates import normal

_WHITESPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_SENTENCE_END = re.compile(r"[.!?…。！？।؟](?=\s|$)")  # noqa: RUF001


@dataclass(frozen=True)
class Limits:
    """Bounds of what one extraction may store.

    Attributes:
      text: Longest fact, in characters; longer ones are dropped.
      facts: Most operations; later ones are dropped.
      topics: Most topics of a fact.
      topic: Longest topic, in characters; longer ones are dropped.
    """

    text: int = 300
    facts: int = 100
    topics: int = 5
    topic: int = 40


@dataclass(frozen=True)
class Changes:
    """What to write; all empty if nothing changes.

    Attributes:
      added: New facts, the superseded ones among them included, by time.
      updated: Known facts whose words, importance or topics change; ids stay, provenance joins.
      superseded: Known fact's id to the id of the fact that is true instead.
      dropped: Why operations did nothing they asked for, one phrase each.
    """

    added: tuple[KnownFact, ...] = ()
    updated: tuple[KnownFact, ...] = ()
    superseded: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()


def merged(
    extraction: Extraction,
    turns: Sequence[Turn],
    known: Sequence[KnownFact],
    new_id: Callable[[], str],
    *,
    past: Sequence[KnownFact] = (),
    limits: Limits | None = None,
) -> Changes:
    """Returns what an extraction changes.

    Operations count in the order of their turns' time. A fact is of the time of its latest turn;
    where it meets a known one that is newer, the known one stays and the other is kept as already
    superseded by it. A fact that is known already, in the sense of `duplicates.normal`, adds
    nothing. A fact needs provenance among the turns that were not read before. One that is to
    change a fact that is not there is added.

    Args:
      extraction: What the extractor said; nothing in it is trusted.
      turns: What the extractor was given.
      known: Live facts: those the extractor was given, and others that may be equal.
      new_id: Makes the id of a new fact.
      past: Superseded and expired facts; stating one again from a turn no newer adds nothing,
        and a change of a superseded one changes the one that is true instead.
      limits: Bounds, `Limits()` if left out.
    """
    return _Merge(turns, known, past, limits or Limits(), new_id).of(extraction)


def one_line(text: str) -> str:
    """Returns a text with each run of whitespace and unstorable characters as one space."""
    return _WHITESPACE.sub(" ", text).strip()


def normalized_topics(topics: Iterable[str], limits: Limits) -> tuple[str, ...]:
    """Returns topics in lower case, each once, without those that are too long, the first few."""
    cleaned = (one_line(topic).casefold() for topic in topics if isinstance(topic, str))
    short = (topic for topic in cleaned if 0 < len(topic) <= limits.topic)
    return tuple(dict.fromkeys(short))[: limits.topics]


def bounded(importance: object) -> float:
    """Returns an importance as a number in [0, 1], the middle for what is none."""
    try:
        number = float(importance)  # type: ignore[arg-type] # whatever an extractor says
    except (TypeError, ValueError, OverflowError):
        return 0.5
    return 0.5 if math.isnan(number) else weight("importance", min(max(number, 0.0), 1.0))


def shortened(text: str, longest: int) -> str:
    """Returns a text of at most `longest` characters, cut after a sentence or else a word."""
    text = one_line(text)
    if len(text) <= longest:
        return text
    cut = text[:longest]
    ends = [match.end() for match in _SENTENCE_END.finditer(cut)]
    if ends and ends[-1] > longest // 2:
        return cut[: ends[-1]]
    return cut[: longest - 1].rsplit(" ", 1)[0] + "…"


class _Merge:
    """Applies operations, one after the other, to what is known."""

    def __init__(
        self,
        turns: Sequence[Turn],
        known: Sequence[KnownFact],
        past: Sequence[KnownFact],
        limits: Limits,
        new_id: Callable[[], str],
    ) -> None:
        self._turns = {turn.memory_id: turn for turn in turns}
        superseded = [fact for fact in past if fact.superseded_by is not None]
        self._given = {fact.memory_id: fact for fact in (*superseded, *known)}
        self._facts = dict(self._given)  # as they are by now, the new ones among them
        self._words = {normal(fact.text): fact.memory_id for fact in known}  # of live ones
        self._past = {
            normal(fact.text): fact.timestamp
            for fact in sorted(past, key=lambda fact: fact.timestamp)
        }
        self._limits = limits
        self._new_id = new_id

    def of(self, extraction: Extraction) -> Changes:
        most = self._limits.facts
        read = [(operation, self._fact(operation)) for operation in extraction.operations[:most]]
        timed = [(operation, fact) for operation, fact in read if isinstance(fact, KnownFact)]
        for operation, fact in sorted(timed, key=lambda pair: pair[1].timestamp):
            match operation:
                case Add():
                    self._add(fact)
                case Update(memory_id=target):
                    self._update(target, fact)
                case Supersede(memory_id=target):
                    self._supersede(target, fact)
        added = [fact for id_, fact in self._facts.items() if id_ not in self._given]
        changed = [self._facts[id_] for id_, was in self._given.items() if self._facts[id_] != was]
        return Changes(
            tuple(sorted(added, key=lambda fact: fact.timestamp)),
            tuple(fact for fact in changed if fact.superseded_by is None),
            {fact.memory_id: fact.superseded_by for fact in changed if fact.superseded_by},
            (
                *extraction.dropped,
                *["too many"] * len(extraction.operations[most:]),
                *(reason for _, reason in read if isinstance(reason, str)),
            ),
        )

    def _fact(self, operation: Operation) -> KnownFact | str:
        """Returns the fact that an operation states, bounded, or why there is none."""
        given = operation.by if isinstance(operation, Supersede) else operation
        text = one_line(given.text)
        provenance = tuple(dict.fromkeys(id_ for id_ in given.provenance if id_ in self._turns))
        if not text:
            return "no text"
        if len(text) > self._limits.text:
            return "too long"
        if not provenance:
            return "no valid provenance"
        if all(self._turns[origin].read for origin in provenance):
            return "read before"
        return KnownFact(
            memory_id="",
            text=text,
            importance=bounded(given.importance),
            topics=normalized_topics(given.topics, self._limits),
            provenance=provenance,
            timestamp=max(self._turns[origin].timestamp for origin in provenance),
        )

    def _add(self, fact: KnownFact, *, superseded_by: str | None = None) -> str | None:
        """Adds a fact, as a past one if it was superseded before it was ever live.

        Returns the id of the fact that states it; None if it is past already.
        """
        words = normal(fact.text)
        if words in self._words:
            return self._words[words]
        if words in self._past and fact.timestamp <= self._past[words]:
            return None
        new = replace(fact, memory_id=self._new_id(), superseded_by=superseded_by)
        self._facts[new.memory_id] = new
        if superseded_by is None:
            self._words[words] = new.memory_id
        else:
            self._past[words] = fact.timestamp
        return new.memory_id

    def _update(self, target: str, fact: KnownFact) -> None:
        stored = self._facts.get(target)
        words = normal(fact.text)
        if (
            stored is None
            or stored.superseded_by is not None
            or self._words.get(words, target) != target
            or fact.timestamp < stored.timestamp
        ):
            self._supersede(target, fact)
        elif words != normal(stored.text):
            self._words.pop(normal(stored.text), None)
            self._words[words] = target
            topics, provenance = fact.topics or stored.topics, _joined(stored, fact)
            self._facts[target] = replace(
                fact, memory_id=target, topics=topics, provenance=provenance
            )

    def _supersede(self, target: str, fact: KnownFact) -> None:
        stored = self._facts.get(target)
        split = stored is not None and stored.superseded_by is not None
        while stored is not None and stored.superseded_by is not None:
            stored = self._facts.get(stored.superseded_by)
        if stored is None:  # invented, or gone meanwhile
            self._add(fact)
            return
        if normal(fact.text) == normal(stored.text):
            return
        if fact.timestamp < stored.timestamp:
            self._add(fact, superseded_by=stored.memory_id)
            return
        heir = self._add(fact)
        # Of one time, both are true instead of one that was superseded; else the later one is.
        if heir is None or (split and fact.timestamp == stored.timestamp):
            return
        known = self._facts[heir]
        if known.timestamp < fact.timestamp:  # known from before, and true again
            self._facts[heir] = replace(
                known, timestamp=fact.timestamp, provenance=_joined(known, fact)
            )
        self._words.pop(normal(stored.text), None)
        self._facts[stored.memory_id] = replace(stored, superseded_by=heir)


def _joined(fact: KnownFact, more: KnownFact) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fact.provenance + more.provenance))
