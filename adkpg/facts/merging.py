"""Merging: what an extraction changes in what is known of a person. Pure.

The result is bounded, whatever an extractor says: each fact is short, has provenance among the
turns that were given, and changes only facts that were given. The later of two statements is true;
the order of processing plays no part.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from adkpg.facts.extractor import Add, Extraction, KnownFact, Operation, Supersede, Turn, Update

_WHITESPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_PUNCTUATION = ".,;:!?\"'`´‘’“”„«»()[]{}…。、！？，；：「」『』（）।॥؟،؛"  # noqa: RUF001
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
    superseded by it. A fact that is known already, by its normalised words, adds nothing. A fact
    needs provenance among the turns that were not read before. One that is to change a fact that is
    not there is added.

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


def normalized(text: str) -> str:
    """Returns the form that equal facts have in common: case, whitespace and marks do not count.

    Marks within a word do, as in 3.5, and signs as in C++ do everywhere.
    """
    folded = unicodedata.normalize("NFKC", one_line(text)).casefold()
    words = (word.strip(_PUNCTUATION) for word in folded.split())
    return " ".join(filter(None, words)) or folded


def normalized_topics(topics: Iterable[str], limits: Limits) -> tuple[str, ...]:
    """Returns topics in lower case, each once, without those that are too long, the first few."""
    cleaned = (one_line(topic).casefold() for topic in topics if isinstance(topic, str))
    short = (topic for topic in cleaned if 0 < len(topic) <= limits.topic)
    return tuple(dict.fromkeys(short))[: limits.topics]


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
        self._known = {fact.memory_id: fact for fact in known}
        self._live = dict(self._known)
        self._words = {normalized(fact.text): fact.memory_id for fact in known}
        self._past: dict[str, datetime] = {}
        for fact in past:
            words = normalized(fact.text)
            self._past[words] = max(fact.timestamp, self._past.get(words, fact.timestamp))
        self._limits = limits
        self._new_id = new_id
        self._added: dict[str, KnownFact] = {}
        self._updated: dict[str, KnownFact] = {}
        self._superseded = {
            fact.memory_id: fact.superseded_by for fact in past if fact.superseded_by
        }
        self._dropped: list[str] = []

    def of(self, extraction: Extraction) -> Changes:
        self._dropped += extraction.dropped
        bounded = extraction.operations[: self._limits.facts]
        self._dropped += ["too many"] * (len(extraction.operations) - len(bounded))
        timed: list[tuple[Operation, KnownFact]] = []
        for operation in bounded:
            fact = self._fact(operation)
            if isinstance(fact, str):
                self._dropped.append(fact)
            else:
                timed.append((operation, fact))
        for operation, fact in sorted(timed, key=lambda pair: pair[1].timestamp):
            match operation:
                case Add():
                    self._add(fact)
                case Update(memory_id=target):
                    self._update(target, fact)
                case Supersede(memory_id=target):
                    self._supersede(target, fact)
        return Changes(
            tuple(sorted(self._added.values(), key=lambda fact: fact.timestamp)),
            tuple(self._updated.values()),
            {old: by for old, by in self._superseded.items() if old in self._known},
            tuple(self._dropped),
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
            importance=_bounded(given.importance),
            topics=normalized_topics(given.topics, self._limits),
            provenance=provenance,
            timestamp=max(self._turns[origin].timestamp for origin in provenance),
        )

    def _add(self, fact: KnownFact) -> str | None:
        """Adds a live fact, and returns the id of the one that states it; None if it is past."""
        words = normalized(fact.text)
        if words in self._words:
            return self._words[words]
        if self._is_past(words, fact):
            return None
        new = replace(fact, memory_id=self._new_id())
        self._added[new.memory_id] = self._live[new.memory_id] = new
        self._words[words] = new.memory_id
        return new.memory_id

    def _update(self, target: str, fact: KnownFact) -> None:
        stored = self._live.get(target)
        words = normalized(fact.text)
        if (
            stored is None
            or self._words.get(words, target) != target
            or fact.timestamp < stored.timestamp
        ):
            self._supersede(target, fact)
            return
        if words == normalized(stored.text):
            return
        del self._words[normalized(stored.text)]
        self._words[words] = target
        topics = fact.topics or stored.topics
        self._change(
            target, replace(fact, topics=topics, provenance=stored.provenance), fact.provenance
        )

    def _change(self, target: str, fact: KnownFact, more: tuple[str, ...]) -> None:
        """Puts a fact in the place of the target; more provenance joins its own."""
        provenance = tuple(dict.fromkeys(fact.provenance + more))
        changed = replace(fact, memory_id=target, provenance=provenance)
        changes = self._added if target in self._added else self._updated
        changes[target] = self._live[target] = changed

    def _supersede(self, target: str, fact: KnownFact) -> None:
        split = False
        while target not in self._live:
            if target not in self._superseded:  # invented, or gone meanwhile
                self._add(fact)
                return
            # Of one time, both are true instead of the old one; else the later one is.
            target = self._superseded[target]
            split = True
        stored = self._live[target]
        words = normalized(fact.text)
        if words == normalized(stored.text):
            return
        if fact.timestamp < stored.timestamp:
            self._keep_as_past(fact, by=target)
            return
        heir = self._add(fact)
        if heir is None or (split and fact.timestamp == stored.timestamp):
            return
        if self._live[heir].timestamp < fact.timestamp:  # known from before, and true again
            self._change(heir, replace(self._live[heir], timestamp=fact.timestamp), fact.provenance)
        self._live.pop(target)
        self._words.pop(normalized(stored.text), None)
        if target in self._added:
            self._added[target] = replace(self._added[target], superseded_by=heir)
        self._updated.pop(target, None)
        self._superseded[target] = heir

    def _keep_as_past(self, fact: KnownFact, *, by: str) -> None:
        """Keeps what was said before the fact that is true now; it was never live."""
        words = normalized(fact.text)
        if words in self._words or self._is_past(words, fact):
            return
        new = replace(fact, memory_id=self._new_id(), superseded_by=by)
        self._added[new.memory_id] = new
        self._past[words] = fact.timestamp

    def _is_past(self, words: str, fact: KnownFact) -> bool:
        return words in self._past and fact.timestamp <= self._past[words]


def _bounded(importance: float) -> float:
    return 0.5 if math.isnan(importance) else min(max(importance, 0.0), 1.0)
