"""Scoring: recall among the memories of this process. Pure.

The computation of `adkpg.memory.search.statement`, with the constants of its ranking:
both legs, each memory that either puts forward scored on both, and their fusion.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any

from adkpg.memory.collection import Collection, Entry
from adkpg.memory.matching import meets
from adkpg.memory.search.options import SearchOptions
from adkpg.memory.search.ranking import RANKING

_MOST_HALF_LIVES = 1_000


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes:
      lexemes: Its words, for the lexical leg; None leaves the leg out.
      vector: Its vector of unit length ``[d]``; None leaves the vector leg out.
      min_cosine: The cosine from which nearness speaks for a memory.
      nearest: How many of the nearest are hits whatever their words,
      near: if their cosine, scaled from `min_cosine` to 1, is this at least.
      now: What the age of memories and their expiry are measured against.
    """

    lexemes: AbstractSet[str] | None
    vector: Sequence[float] | None
    min_cosine: float
    nearest: int
    near: float
    now: datetime


@dataclass(frozen=True)
class _Lexical:
    """What the question's words make of a memory.

    Attributes:
      score: BM25F.
      coverage: The share of the question's words that it holds, weighed by their rarity; of long
        questions a few telling words are enough.
    """

    score: float
    coverage: float


_NOTHING = _Lexical(0.0, 0.0)


def best(
    collections: Sequence[Collection], question: Question, options: SearchOptions, top_k: int
) -> list[dict[str, Any]]:
    """Returns the memories that answer a question best, the best first.

    Args:
      collections: The scopes to look in.
      question: What is asked.
      options: Filters and half-life.
      top_k: At most so many.

    Returns:
      Rows as `adkpg.memory.search.hits.hit` reads them, with their position.
    """
    live = {
        entry.position: entry
        for collection in collections
        for entry in collection.entries.values()
        if entry.live(question.now)
    }
    asked = options.filters.parameters
    eligible = live.keys()
    if asked:
        eligible = {
            place: entry for place, entry in live.items() if meets(entry.draft, asked)
        }.keys()
    filtered = eligible if asked else frozenset()
    words = _matched(collections, live, question.lexemes or frozenset(), filtered)
    lexical = {
        place: found
        for place, found in _scored(words, live, len(question.lexemes or ())).items()
        if place in eligible
    }
    cosines = {
        place: cosine for place, cosine in _cosines(collections, question) if place in eligible
    }
    most = max(RANKING.candidates, top_k)
    candidates = {
        *_highest({place: found.score for place, found in lexical.items()}, most),
        *_highest(cosines, most),
    }
    fused = _fused(question, candidates, lexical, cosines)
    hits = _relevant(question, candidates, lexical, cosines, len(live))
    factors = {
        place: (_recency(live[place], question.now, options), _importance(live[place]))
        for place in hits
    }
    score = {place: fused[place] * math.prod(factors[place]) for place in hits}
    hits.sort(key=lambda place: (score[place], live[place].draft.timestamp, place), reverse=True)
    return [
        {
            **live[place].row,
            "score": score[place],
            "lexical": lexical.get(place, _NOTHING).score,
            "lexemes": sorted(lexeme for lexeme, word in words.items() if place in word.weights),
            "cosine": cosines.get(place),
            "recency": factors[place][0],
            "importance_factor": factors[place][1],
        }
        for place in hits[:top_k]
    ]


@dataclass(frozen=True)
class _Word:
    """What a word of the question weighs in every live memory that it touches.

    Attributes:
      idf: How much it tells.
      weights: By position.
    """

    idf: float
    weights: Mapping[int, float]


def _matched(
    collections: Sequence[Collection],
    live: Mapping[int, Entry],
    asked: AbstractSet[str],
    eligible: AbstractSet[int],
) -> dict[str, _Word]:
    """The question's words that are in live memories.

    The rarest lead to memories, up to a number of postings; the others count for those alone, and
    for what is `eligible`, if there are filters.
    """
    postings = {
        lexeme: [
            entry
            for collection in collections
            for entry in collection.postings(lexeme)
            if entry.position in live
        ]
        for lexeme in asked
    }
    known = sorted(filter(postings.get, asked), key=lambda word: (len(postings[word]), word))
    touched = {lexeme: _touched(lexeme, postings[lexeme]) for lexeme in known}
    leading = _leading({lexeme: len(postings[lexeme]) for lexeme in known})
    led = {place for lexeme in leading for place in touched[lexeme] if place in live} | eligible
    matched = {}
    for lexeme in known:
        weights = {}
        for place, (weight, before) in touched[lexeme].items():
            if place in led:
                weights[place] = weight + RANKING.answer * before * _answers(live, place)
        touches: float = min(len(touched[lexeme]), len(live))
        if lexeme not in leading:  # as many as it would touch, if it stood in them independently
            share = len(postings[lexeme]) / len(live)
            touches = len(live) * (1 - (1 - share) ** len(RANKING.spread))
        if weights:
            matched[lexeme] = _Word(_idf(touches, len(live)), weights)
    return matched


def _leading(found_in: Mapping[str, int]) -> set[str]:
    """The rarest words, given the rarest first: one at least."""
    leading: set[str] = set()
    for lexeme, read in zip(found_in, accumulate(found_in.values()), strict=True):
        if not leading or read <= RANKING.leading_postings:
            leading.add(lexeme)
    return leading


def _touched(lexeme: str, entries: Sequence[Entry]) -> dict[int, tuple[float, int]]:
    """What a word counts for the memories that it stands in, and for their neighbours.

    With it, how often the turn before says it: for an answer it counts more.
    """
    weights: defaultdict[int, float] = defaultdict(float)
    before: dict[int, int] = {}
    spread = RANKING.spread
    for entry in entries:
        # A date is the memory's own: a neighbour is not found by it.
        weights[entry.position] += entry.terms.dated.get(lexeme, 0)
        if frequency := entry.terms.own.get(lexeme, 0):
            before[entry.position + 1] = frequency
            for shift, weight in spread:
                weights[entry.position + shift] += frequency * weight
    return {place: (weight, before.get(place, 0)) for place, weight in weights.items()}


def _idf(touched: float, size: int) -> float:
    """Lucene's idf of a word that counts for so many of all memories."""
    return math.log(1 + (size - touched + 0.5) / (touched + 0.5))


def _scored(
    words: Mapping[str, _Word], live: Mapping[int, Entry], asked: int
) -> dict[int, _Lexical]:
    """Every memory that leading words touch: its BM25F score, and the coverage of the question."""
    length = sum(entry.terms.length for entry in live.values())
    mean_length = max(1.0, length / max(len(live), 1))
    k1, b = RANKING.k1, RANKING.b
    scores: defaultdict[int, float] = defaultdict(float)
    covered: defaultdict[int, float] = defaultdict(float)
    for word in words.values():
        for place, weight in word.weights.items():
            norm = k1 * (1 - b + b * live[place].terms.length / mean_length)
            scores[place] += word.idf * weight * (k1 + 1) / (weight + norm)
            covered[place] += word.idf * min(weight, 1.0)
    unknown = _idf(0, len(live))
    whole = sum(word.idf for word in words.values()) + (asked - len(words)) * unknown
    whole = min(whole, RANKING.telling * unknown)
    return {
        place: _Lexical(
            score * _standing(live[place], answers=_answers(live, place)), covered[place] / whole
        )
        for place, score in scores.items()
    }


def _answers(live: Mapping[int, Entry], place: int) -> bool:
    """Whether the turn before asks."""
    before = live.get(place - 1)
    return before is not None and before.asks


def _standing(entry: Entry, *, answers: bool) -> float:
    """What says little tells little, unless it answers; and who asks does not answer."""
    if not entry.said:
        return 1.0
    length = entry.terms.length
    told = 1.0 if answers else length / (length + RANKING.thin)
    return told * (RANKING.question if entry.asks else 1.0)


def _relevant(
    question: Question,
    candidates: AbstractSet[int],
    lexical: Mapping[int, _Lexical],
    cosines: Mapping[int, float],
    size: int,
) -> list[int]:
    """The candidates that are hits: what speaks for them is more than chance has among so many."""
    floor = question.min_cosine
    if question.lexemes is None:
        return [place for place in candidates if cosines[place] >= floor]
    if question.vector is None:
        if size <= RANKING.small_scope:
            return [*candidates]
        least = RANKING.relevance_of_words * math.log(max(size, 1))
        return [place for place in candidates if lexical[place].coverage >= least]
    chance = math.log(max(size / RANKING.small_scope, 1))
    least = min(RANKING.relevance * chance, RANKING.enough)
    known = [place for place in candidates if place in cosines]
    nearest = sorted(known, key=lambda place: cosines[place], reverse=True)[: question.nearest]
    hits = set()
    for place in candidates:
        cosine, words = cosines.get(place), lexical.get(place, _NOTHING)
        near = cosine is not None and cosine >= floor
        meaning = 0.0
        if cosine is not None and floor < 1:
            meaning = (cosine - floor) / (1 - floor)
        enough = max(meaning, 0.0) + words.coverage >= least and (words.score > 0 or near)
        if enough or (near and place in nearest and meaning >= question.near):
            hits.add(place)
    return list(hits)


def _cosines(collections: Sequence[Collection], question: Question) -> list[tuple[int, float]]:
    if question.vector is None:
        return []
    import numpy as np  # noqa: PLC0415 - of the extra adkpg[local]

    asked = np.array(question.vector, np.float32)
    cosines: list[tuple[int, float]] = []
    for collection in collections:
        positions, vectors = collection.vectors()
        if positions:
            cosines += zip(positions, (vectors @ asked).tolist(), strict=True)
    return cosines


def _highest(scores: Mapping[int, float], most: int) -> list[int]:
    places = sorted(scores, key=lambda place: (scores[place], place), reverse=True)
    return places[:most]


def _fused(
    question: Question,
    candidates: AbstractSet[int],
    lexical: Mapping[int, _Lexical],
    cosines: Mapping[int, float],
) -> dict[int, float]:
    """Each candidate's scores, scaled over the candidates and added; of one leg, as they are."""
    if question.lexemes is None:
        return {place: cosines[place] for place in candidates}
    if question.vector is None:
        return {place: lexical[place].score for place in candidates}
    scores = {place: lexical.get(place, _NOTHING).score for place in candidates}
    most = max(scores.values(), default=0.0)
    known = [cosines[place] for place in candidates if place in cosines]
    low, high = min(known, default=0.0), max(known, default=0.0)
    fused = {}
    for place in candidates:
        words = scores[place] / most if most else 0.0
        spread = high > low and place in cosines
        meaning = (cosines[place] - low) / (high - low) if spread else 0.0
        fused[place] = words + RANKING.vector * meaning
    return fused


def _recency(entry: Entry, now: datetime, options: SearchOptions) -> float:
    if options.half_life is None:
        return 1.0
    age = max((now - entry.draft.timestamp).total_seconds(), 0.0)
    half_lives = min(age / options.half_life.total_seconds(), _MOST_HALF_LIVES)
    return float(0.5**half_lives)


def _importance(entry: Entry) -> float:
    low, high = RANKING.importance_factors
    return low + entry.draft.importance * (high - low)
