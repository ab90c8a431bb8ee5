"""Hits: recalled memories with their reasons, near-duplicates folded, cut to a budget. Pure."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeVar

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg.memory import duplicates, records
from adkpg.memory.records import Memory
from adkpg.memory.search.passage import Part, best_part
from adkpg.memory.search.ranking import Evidence, Ranked
from adkpg.memory.search.updates import Compared
from adkpg.memory.vectors.passages import PASSAGE_TOKENS

MadeT = TypeVar("MadeT")
Passage = tuple[tuple[int, int] | None, str | None]

# Near-duplicates leave the places they held to others; many leave many.
ROWS_PER_HIT = (1.25, 8, 32)
"""Times as many rows as hits are asked for, one after the other until these are enough."""


@dataclass(frozen=True)
class Reason:
    """Why a memory was recalled, and at this place.

    Attributes:
      lexical: BM25F score of its words and its neighbours'; 0 if no word matched.
      lexemes: The words that matched, as Postgres normalised them, in its own or a neighbouring
        turn, in alphabetical order.
      idfs: How rare each of these is among the user's memories, in the same order: Lucene's idf.
      cosine: Cosine of question and memory in [-1, 1]; None without a vector, and for what is not
        among the nearest 500 passages.
      relevance: Share of the question that it covers, in [0, 1]: 1 - (1 - words) x (1 - meaning).
        The share of the question's words that it has, weighed by their rarity, is ``words``.
        ``meaning`` is 0 where its cosine is usual among the user's memories, 1 where it is 1.
      recency: Factor in (0, 1] of its age; 1 without a half-life.
      importance: Factor of its importance; 1 for the default of 0.5.
      score: Fused score, with both factors.
      rerank: The reranker's score, on its own scale; None if it was not asked, or did not answer.
      date: What the score has for being of a time that the question names; 0 if it is not, or the
        question names none.
      speaker: What the score has for being said by whom the question names, likewise.
      newer: What the score has for replacing what an older hit says, which comes after it.
      words_alone: Why vectors had no part in a search that asked for them, such as an embedder that
        is away; None if they had.
      passage: The part of a long memory's text that matches best, some 200 tokens; None if the
        memory is no longer than that.
      span: Where the passage is in the memory's text, as characters from and to; None without one.
      fused_alone: Why a reranker had no part in a search of a service that has one; None if it had.
      own_alone: Why what the app knows for all its users had no part in a search that asked for it:
        the node of a cluster that has it is away; None if it had.
    """

    lexical: float
    lexemes: tuple[str, ...]
    cosine: float | None
    relevance: float
    recency: float
    importance: float
    score: float
    words_alone: str | None = None
    passage: str | None = None
    span: tuple[int, int] | None = None
    rerank: float | None = None
    fused_alone: str | None = None
    date: float = 0.0
    speaker: float = 0.0
    idfs: tuple[float, ...] = ()
    newer: float = 0.0
    own_alone: str | None = None


@dataclass(frozen=True)
class Hit:
    """One recalled memory and how it was found.

    Attributes:
      memory: The memory.
      score: What orders the hits; higher is better, comparable within one search only. The fused
        score, or the reranker's, scaled to [0, 1] over the hits, times both factors.
      reason: What the score is made of.
      neighbours: The turns around it, in order, if they were asked for.
      folded: Ids of its near-duplicates, which are not hits of their own.
      cut: Whether the memory has less than its content: its passage (`by_passage`), or, if the
        content is of more than 500 kB, the text that is searched, 100,000 characters;
        `PgVectorMemoryService.get_memory` returns all of it.
    """

    memory: Memory
    score: float
    reason: Reason
    neighbours: tuple[Memory, ...] = ()
    folded: tuple[str, ...] = ()
    cut: bool = False


class Found(NamedTuple):
    """A memory as `statements.select_found` reads it, how it is ranked, and the evidence."""

    row: Mapping[str, Any]
    ranked: Ranked
    evidence: Evidence


class Group:
    """Near-duplicates among what a search found, of which the latest stands for all.

    What was said again may have been said better. It has the best one's score, and its own reason
    otherwise.

    Attributes:
      score: What orders it.
      newer: What the score has for replacing what an older one says.
    """

    __slots__ = ("_found", "_others", "_passage", "_question", "newer", "score")

    def __init__(self, found: Sequence[Found], question: str) -> None:
        """Takes what was found, the best first, and what was asked."""
        self._question = question
        self._others: tuple[str, ...] = ()
        self._passage: Passage | None = None
        self._found = found[0]
        self.score = found[0].ranked.score
        self.newer = 0.0
        if len(found) > 1:
            self._found = max(found, key=lambda each: each.row["timestamp"])
            self._others = tuple(
                str(each.row["memory_id"]) for each in found if each is not self._found
            )

    @property
    def memory_id(self) -> str:
        """The id of its memory."""
        return str(self._found.row["memory_id"])

    @property
    def position(self) -> int:
        """The place of its memory in its scope's history."""
        return self._found.ranked.position

    @property
    def drawn(self) -> list[tuple[str, str | None]]:
        """The facts drawn from its memory, each with the one that superseded it."""
        return [(fact, heir) for fact, heir in self._found.row["drawn"] or ()]

    def scored(self, score: float) -> "Group":
        """Gives it a score, which is higher if it replaces what another one says; returns it."""
        self.newer, self.score = score - self.score, score
        return self

    def compared(self) -> Compared:
        """Returns what tells whether it replaces another one."""
        row = self._found.row
        return Compared(
            ids=(row["memory_id"], *self._others),
            kind=row["kind"],
            author=row["author"],
            session_id=row["session_id"],
            timestamp=row["timestamp"],
            superseded_by=row["superseded_by"],
            score=self.score,
            tells=self._found.ranked.tells,
            said=self._text,
        )

    def entry(self) -> MemoryEntry:
        """Returns its memory as ADK has it."""
        return records.entry(self._found.row)

    def hit(self, *, words_alone: str | None, own_alone: str | None) -> Hit:
        """Returns its memory with its reasons.

        Args:
          words_alone: As in `Reason`.
          own_alone: Likewise.
        """
        row, ranked, evidence = self._found
        memory = records.memory(row)
        span, passage = None, None
        if _may_have_passages(row):
            span, passage = self._matching(records.text_of(memory.content))
        matched = evidence.matched(ranked.position)
        reason = _made(
            Reason,
            {
                **_NO_REASON,
                "lexical": ranked.lexical,
                "lexemes": tuple(word for word, _ in matched),
                "cosine": ranked.cosine,
                "relevance": ranked.relevance,
                "recency": ranked.recency,
                "importance": ranked.importance,
                "score": self.score,
                "words_alone": words_alone,
                "own_alone": own_alone,
                "passage": passage,
                "span": span,
                "date": ranked.date,
                "speaker": ranked.speaker,
                "idfs": tuple(idf for _, idf in matched),
                "newer": self.newer,
            },
        )
        found = {"memory": memory, "score": self.score, "reason": reason, "cut": bool(row["cut"])}
        return _made(Hit, {**_NO_HIT, **found, "folded": self._others})

    def _text(self) -> str:
        """What it says; of a long memory, the passage that matched."""
        row = self._found.row
        text = records.storable_text(records.said_in(row))
        if not _may_have_passages(row):
            return text
        return self._matching(text)[1] or text

    def _matching(self, text: str) -> Passage:
        """The passage that matches best, and where it is in the text."""
        if self._passage is None:
            stored = self._found.row.get("parts") or ()
            parts = [Part(int(start), int(end), cosine) for start, end, cosine in stored]
            best = best_part(text, parts, self._question)
            self._passage = None, None
            if best is not None:
                span = best.start, min(best.end, len(text))
                self._passage = span, text[slice(*span)]
        return self._passage


def grouped(found: Sequence[Found], question: str) -> list[Group]:
    """Puts what a search found together where it says the same; see `duplicates.groups`.

    Args:
      found: The best first.
      question: What was asked.
    """
    places = duplicates.groups_of_rows([each.row for each in found])
    return [Group([found[place] for place in group], question) for group in places]


def _may_have_passages(row: Mapping[str, Any]) -> bool:
    """Whether a memory is so long that it may have passages."""
    return len(row["content"] or row["body"]) > PASSAGE_TOKENS  # of as many characters: it has none


_NO_REASON, _NO_HIT = (
    {field.name: field.default for field in fields(kind)} for kind in (Reason, Hit)
)


def _made(kind: type[MadeT], values: dict[str, Any]) -> MadeT:
    """Makes a frozen object at once, in half the time that setting its fields one by one takes."""
    made = object.__new__(kind)
    object.__setattr__(made, "__dict__", values)
    return made


def folded(hits: Sequence[Hit]) -> list[Hit]:
    """Folds near-duplicates: of those that say the same, the latest stays, at the best one's place.

    What was said again may have been said better. It has the best one's score, and its own
    reason otherwise. What a near-duplicate is: `duplicates.groups`.
    """

    def source(place: int) -> Hashable:
        memory = hits[place].memory
        return memory.author, frozenset(memory.artifacts)

    texts = [records.said(hit.memory.content) for hit in hits]
    return [
        _survivor([hits[place] for place in group]) for group in duplicates.groups(texts, source)
    ]


def by_passage(found: Hit) -> Hit:
    """Returns a hit whose memory says its passage alone, if it has one."""
    if found.reason.passage is None:
        return found
    part = types.Part(text=found.reason.passage)
    content = types.Content(role=found.memory.content.role, parts=[part])
    return replace(found, memory=found.memory.model_copy(update={"content": content}), cut=True)


def within_budget(hits: Sequence[Hit], max_tokens: int) -> list[Hit]:
    """Returns the hits that fit a budget, in their order.

    One that does not fit is returned with its passage alone, and if that does not fit, left out.
    """
    fitting = []
    for found in hits:
        for form in (found, by_passage(found)):
            cost = sum(map(tokens, (form.memory, *form.neighbours)))
            if cost <= max_tokens:
                fitting.append(form)
                max_tokens -= cost
                break
    return fitting


def gathered(hits: Sequence[Hit], max_tokens: int, places: Mapping[str | None, int]) -> list[Hit]:
    """Returns the best hits that fit a budget in the order of time, equal times by place.

    Args:
      hits: The best first.
      max_tokens: The budget.
      places: A memory's place in its scope's history, by its id.
    """
    return sorted(
        within_budget(hits, max_tokens),
        key=lambda hit: (hit.memory.timestamp or "", places.get(hit.memory.id, 0)),
    )


def tokens(memory: Memory) -> int:
    """Estimates what a memory's author and text cost a model; see `tokens_of`."""
    text = f"{memory.author}: {records.text_of(memory.content)}"
    return tokens_of(text)


def tokens_of(text: str) -> int:
    """Returns about how many tokens a text is: one for every four bytes of UTF-8.

    English has about four letters to a token, and scripts of three bytes a letter about one letter.
    """
    return math.ceil(len(text.encode(errors="replace")) / 4)


def _survivor(group: Sequence[Hit]) -> Hit:
    if len(group) == 1:
        return group[0]
    best = max(hit.score for hit in group)
    latest = max(group, key=lambda hit: hit.memory.timestamp or "")
    others = tuple(str(hit.memory.id) for hit in group if hit is not latest)
    return replace(latest, score=best, reason=replace(latest.reason, score=best), folded=others)
