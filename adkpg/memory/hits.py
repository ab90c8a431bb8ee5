"""Hits: recalled memories with their reasons, near-duplicates folded, cut to a budget. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adkpg.memory import records
from adkpg.memory.records import Memory
from adkpg.memory.words import searchable

DUPLICATE_SHARE = 0.9
"""Share of common words (Jaccard) from which two memories are near-duplicates."""

_BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Reason:
    """Why a memory was recalled, and at this place.

    Attributes:
      lexical: BM25F score of its words and its neighbours'; 0 if no word matched.
      lexemes: The words that matched, as Postgres normalised them, in its own or a neighbouring
        turn; empty if nobody asked for reasons.
      cosine: Cosine of question and memory in [-1, 1]; None without a vector.
      recency: Factor in (0, 1] of its age; 1 without a half-life.
      importance: Factor of its importance; 1 for the default of 0.5.
      score: Fused score, with both factors.
    """

    lexical: float
    lexemes: tuple[str, ...]
    cosine: float | None
    recency: float
    importance: float
    score: float


@dataclass(frozen=True)
class Hit:
    """One recalled memory and how it was found.

    Attributes:
      memory: The memory.
      score: Fused score; higher is better, comparable within one search only.
      reason: What the score is made of.
      neighbours: The turns around it, in order, if they were asked for.
      folded: Ids of its near-duplicates, which are not hits of their own.
    """

    memory: Memory
    score: float
    reason: Reason
    neighbours: tuple[Memory, ...] = ()
    folded: tuple[str, ...] = ()


def hit(row: Mapping[str, Any]) -> Hit:
    """Reads a row of a search."""
    reason = Reason(
        lexical=row["lexical"],
        lexemes=tuple(row["lexemes"] or ()),
        cosine=row["cosine"],
        recency=row["recency"],
        importance=row["importance_factor"],
        score=row["score"],
    )
    return Hit(memory=records.memory(row), score=row["score"], reason=reason)


def folded(hits: Sequence[Hit]) -> list[Hit]:
    """Folds near-duplicates: of those that say the same, the latest stays, at the best one's place.

    Two memories are near-duplicates if one author said both, they share `DUPLICATE_SHARE` of their
    words, and all words with digits: orders 9981 and 9982 are not alike. The latest stays, since
    what was said again may have been said better, or taken back.
    """
    groups: list[list[Hit]] = []
    prints: list[tuple[str | None, frozenset[str], frozenset[str]]] = []
    for found in hits:
        author, words, numbers = _print(found.memory)
        for group, (other, others, digits) in zip(groups, prints, strict=True):
            if (
                other == author
                and digits == numbers
                and len(words & others) >= DUPLICATE_SHARE * len(words | others)
            ):
                group.append(found)
                break
        else:
            groups.append([found])
            prints.append((author, words, numbers))
    return [_survivor(group) for group in groups]


def within_budget(hits: Sequence[Hit], max_tokens: int) -> list[Hit]:
    """Returns the hits that fit a budget, in their order; one that does not fit is left out."""
    fitting = []
    for found in hits:
        cost = sum(map(tokens, (found.memory, *found.neighbours)))
        if cost <= max_tokens:
            fitting.append(found)
            max_tokens -= cost
    return fitting


def tokens(memory: Memory) -> int:
    """Estimates what a memory's text costs a model: a token for four bytes of UTF-8."""
    text = f"{memory.author}: {records.text_of(memory.content)}"
    return -(-len(text.encode()) // _BYTES_PER_TOKEN)


def _print(memory: Memory) -> tuple[str | None, frozenset[str], frozenset[str]]:
    text = searchable(records.text_of(memory.content)).casefold()
    words = frozenset(re.findall(r"\w+", text)) or frozenset([text])
    return memory.author, words, frozenset(word for word in words if re.search(r"\d", word))


def _survivor(group: Sequence[Hit]) -> Hit:
    if len(group) == 1:
        return group[0]
    best = max(hit.score for hit in group)
    latest = max(group, key=lambda hit: hit.memory.timestamp or "")
    others = tuple(str(hit.memory.id) for hit in group if hit is not latest)
    return replace(latest, score=best, reason=replace(latest.reason, score=best), folded=others)
