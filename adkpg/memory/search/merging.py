"""Merging: the answers of a user's scope and the app's, where these are on several nodes. Pure.

Each scope says what its candidates' scores are made of, and what they are measured by in it. Here
that is added up, and everything comes as `adkpg.memory.search.statements.search` would have found
it in both scopes at once; a test holds one against the other. Only where a scope has more memories
than are looked at closely (`Ranking.candidates`, `promising`, `leading_postings`), another few of
them may be the candidates.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from adkpg.memory.search.lexical_steps import ASKS, UNSAID
from adkpg.memory.search.ranking import RANKING
from adkpg.memory.search.statements import SearchParameters, Shape

Row = Mapping[str, Any]
"""A row as `adkpg.memory.search.statements.search` returns it."""

FoundT = TypeVar("FoundT", bound=tuple[Any, ...])


@dataclass(slots=True)
class _Candidate:
    """A memory of either scope; what it is made of, and what both scopes together make of it.

    A cosine is minus infinity where there is none. All that is `told` of its time and its speaker
    counts besides.
    """

    row: Row
    position: int
    cosine: float
    lexical: float
    coverage: float
    dated: float
    told: float
    score: float = 0.0


@dataclass(frozen=True)
class _Totals:
    """Both scopes: how many memories, how many of them are shared, and how long they are."""

    size: float
    shared: float
    mean_length: float

    @staticmethod
    def of(firsts: Sequence[Row]) -> "_Totals":
        size = sum(row["size"] for row in firsts)
        length = sum(row["size"] * row["mean_length"] for row in firsts)
        return _Totals(
            size, sum(row["shared"] for row in firsts), max(length / size, 1.0) if size else 1.0
        )


def merged(
    answers: Sequence[Sequence[Row]], parameters: SearchParameters, shape: Shape
) -> list[Row]:
    """Returns the rows of several scopes as one answer, the best first.

    Args:
      answers: Of each scope its rows, `Shape.apart`.
      parameters: Of the search of both.
      shape: Of either search.

    Returns:
      The rows; where nothing is found, one that says what all say.
    """
    firsts = [rows[0] for rows in answers]
    rows = [row for answer in answers for row in answer if row["position"] is not None]
    if shape.lexical:
        found = list(_ranked(firsts, rows, parameters, shape))
    else:
        found = list(_nearest(rows, parameters))
    return found or [{**firsts[0], "memory_id": None, "drawn": None, "position": None}]


def _nearest(rows: Sequence[Row], parameters: SearchParameters) -> Iterator[Row]:
    """Those that are hits of a search by vectors alone, with their scores."""
    by_cosine = sorted(rows, key=lambda row: float(row["cosine"]), reverse=True)
    found = [
        (row["cosine"] * row["recency"] * row["importance_factor"], row)
        for row in by_cosine[: max(RANKING.candidates, parameters["top_k"])]
        if row["cosine"] >= parameters["min_cosine"]
    ]
    for score, row in _best(found, parameters):
        yield {**row, "score": score}


def _ranked(
    firsts: Sequence[Row], rows: Sequence[Row], parameters: SearchParameters, shape: Shape
) -> Iterator[Row]:
    totals = _Totals.of(firsts)
    idfs = _idfs(firsts, totals)
    asked: Sequence[str] = next((row["asked"] for row in firsts if row["asked"]), ())
    found = _candidates(firsts, rows, totals, idfs, len(asked), parameters)
    if not found:
        return
    relevant = _by_both(found, totals, parameters) if shape.vector else _by_words(found, totals)
    scored = [
        (each.score * each.row["recency"] * each.row["importance_factor"], each.row, each)
        for each in relevant
    ]
    for score, row, each in _best(scored, parameters):
        words = row["words"] or [] if shape.explain else []
        yield {
            **row,
            "lexical": each.lexical,
            "dated": each.dated,
            "score": score,
            "lexemes": [asked[word - 1] for word in words],
            "idfs": [idfs[word] for word in words],
        }


def _best(found: list[FoundT], parameters: SearchParameters) -> list[FoundT]:
    """The best of what was found, the best first: their scores, their rows and what goes along."""
    found.sort(key=lambda each: (each[0], each[1]["timestamp"], each[1]["position"]), reverse=True)
    return found[: parameters["top_k"]]


def _idfs(firsts: Sequence[Row], totals: _Totals) -> dict[int, float]:
    """How rare each of the question's words is in both scopes, as `lexical_steps` says."""
    found_in: dict[int, float] = {}
    touched: dict[int, float | None] = {}
    for row in firsts:
        for word, found, touches in zip(
            row["known"] or (), row["found_in"] or (), row["touched"] or (), strict=True
        ):
            found_in[word] = found_in.get(word, 0.0) + found
            before = touched.get(word, 0.0)
            touched[word] = None if before is None or touches is None else before + touches
    idfs, postings = {}, 0.0
    for number, (found, word) in enumerate(sorted((n, word) for word, n in found_in.items())):
        postings += found
        counted = touched[word]
        if counted is None or (number > 0 and postings > RANKING.leading_postings):
            share = min(found / max(totals.size, 1), 1)
            counted = totals.size * (1 - (1 - share) ** len(RANKING.spread))
        counted = min(counted, totals.size)
        idfs[word] = math.log(1 + (totals.size - counted + 0.5) / (counted + 0.5))
    return idfs


def _candidates(
    firsts: Sequence[Row],
    rows: Sequence[Row],
    totals: _Totals,
    idfs: Mapping[int, float],
    asked: int,
    parameters: SearchParameters,
) -> list[_Candidate]:
    """The best of each way in both scopes, and those of the times that the question names."""
    unknown = math.log(1 + (totals.size + 0.5) / 0.5)
    known = {word for row in rows for word in row["words"] or ()}
    whole = min(
        sum(idfs[word] for word in known) + (asked - len(known)) * unknown,
        RANKING.telling * unknown,
    )
    of_time = sum(row["of_time"] for row in firsts)
    told = of_time <= totals.size * RANKING.dated_share
    found = [
        _Candidate(
            row,
            position=row["position"],
            cosine=-math.inf if row["cosine"] is None else float(row["cosine"]),
            lexical=_by_bm25(row, totals, idfs, parameters["wordiness"]),
            coverage=sum(idfs[word] * min(weight, 1) for word, weight in _words(row))
            / (whole or 1.0),
            dated=(dated := row["dated"] if told else 0.0),
            told=dated + float(row["said_by"]),
        )
        for row in rows
    ]
    most = max(RANKING.candidates, parameters["top_k"])
    worded = [each for each in found if each.row["words"]]
    worded.sort(key=lambda each: (each.lexical, each.position), reverse=True)
    near = [each for each in found if each.row["cosine"] is not None]
    near.sort(key=lambda each: each.cosine, reverse=True)
    chosen = {each.position for each in (*worded[:most], *near[:most])}
    if of_time <= RANKING.most_dated:
        chosen.update(each.position for each in found if each.dated > 0)
    return [each for each in found if each.position in chosen]


def _words(row: Row) -> Iterator[tuple[int, float]]:
    return zip(row["words"] or (), row["weights"] or (), strict=True)


def _by_bm25(row: Row, totals: _Totals, idfs: Mapping[int, float], wordiness: float) -> float:
    """A memory's score by words, as `lexical_steps.scored` has it."""
    if not row["words"]:
        return 0.0
    k1, b = RANKING.k1, RANKING.b
    length = float(row["length"])
    norm = k1 * (1 - b + b * length / totals.mean_length)
    standing, long = 1.0, RANKING.long_turn * wordiness
    if row["speech"] != UNSAID:
        standing = 1.0 if row["answers"] else length / (length + RANKING.thin)
        standing *= RANKING.question if row["speech"] == ASKS else 1.0
        standing *= (long / length) ** RANKING.long_turn_power if length > long else 1.0
    return standing * math.fsum(
        idfs[word] * weight * (k1 + 1) / (weight + norm) for word, weight in _words(row)
    )


def _by_words(found: Sequence[_Candidate], totals: _Totals) -> Iterator[_Candidate]:
    """Those that are hits of a search by words alone, with their scores."""
    best = max(each.lexical for each in found)

    def chance(size: float) -> float:
        if size <= RANKING.small_scope:
            return 0.0
        return RANKING.relevance_of_words * math.log(max(size, 1))

    own, shared = chance(totals.size - totals.shared), chance(totals.shared)
    for each in found:
        each.score = each.lexical + best * each.told
    by_score = sorted(found, key=lambda each: (each.score, each.position), reverse=True)
    of_best = RANKING.share_of_best * max(each.coverage for each in found)
    for place, each in enumerate(by_score, 1):
        if (
            each.dated > 0
            or each.coverage >= (shared if each.position < 0 else own)
            or (
                each.position >= 0
                and place <= RANKING.best_of_words
                and each.coverage >= of_best > 0
            )
        ):
            yield each


def _by_both(
    found: Sequence[_Candidate], totals: _Totals, parameters: SearchParameters
) -> Iterator[_Candidate]:
    """Those that are hits of a search by words and vectors, with their scores."""
    floor, wordiness = parameters["min_cosine"], parameters["wordiness"]
    best = max(each.lexical for each in found)
    cosines = [each.cosine for each in found if each.row["cosine"] is not None]
    low, high = (min(cosines), max(cosines)) if cosines else (0.0, 0.0)
    weight = _weight(found, low if cosines else None, totals, parameters["model_floor"])
    for each in found:
        meaning = (each.cosine - low) / (high - low) if high > low else 0.0
        words = each.lexical / best if best else 0.0
        each.score = words + weight * max(meaning, 0.0) + each.told
    noise = floor
    if cosines and floor > 0 and low > floor and totals.size > RANKING.small_scope:
        unusual = statistics.fmean(cosines) + RANKING.above_usual * statistics.pstdev(cosines)
        noise = min(unusual, 1.0)
    longer = math.log(max(totals.mean_length / (RANKING.usual_turn * wordiness), 1))
    rise = parameters["rising"] * longer

    def chance(size: float) -> float:
        return min(RANKING.relevance * math.log(max(size / RANKING.small_scope, 1)), RANKING.enough)

    own, shared = chance(totals.size - totals.shared), chance(totals.shared)
    by_score = sorted(found, key=lambda each: (each.score, each.position), reverse=True)
    by_cosine = sorted(found, key=lambda each: each.cosine, reverse=True)
    nearness = {each.position: place for place, each in enumerate(by_cosine, 1)}
    for place, each in enumerate(by_score, 1):
        cosine = each.cosine
        told = max((cosine - noise) / (1 - noise), 0.0) if noise != 1 else 0.0
        bar = shared if each.position < 0 else own
        bar += rise * max(place - RANKING.sure, 0) / 10
        enough = told + each.coverage / wordiness >= bar
        near = cosine >= floor and floor != 1
        if (
            each.dated > 0
            or (enough and (each.lexical > 0 or cosine >= noise))
            or (
                place <= parameters["best_hits"]
                and cosine >= floor - parameters["leeway"] * (1 - floor)
            )
            or (
                near
                and (cosine - floor) / (1 - floor) >= parameters["near"]
                and nearness[each.position] <= parameters["nearest"]
            )
        ):
            yield each


def _weight(
    found: Sequence[_Candidate], low: float | None, totals: _Totals, floor: float | None
) -> float:
    """How much the scaled cosine weighs, as `statements` says."""
    covered = max(each.coverage for each in found)
    more = max(min(RANKING.covered / covered if covered else 1.0, RANKING.most_vector), 1.0)
    heard = 1.0
    if floor is not None and floor != 1 and low is not None and totals.size > RANKING.small_scope:
        loud, silent = RANKING.silent
        said = (silent - (low - floor) / (1 - floor)) / (silent - loud)
        heard = min(max(said, RANKING.least_vector), 1.0)
    return RANKING.vector * more * heard
