"""A replica of a search in numpy, to try other constants and rules of the ranking on.

It reads words, places and vectors of what a database remembers, once, and ranks as the statement
does (`adkpg.memory.search.statements`), without filters, half-lives, facts and what the app knows.
A test holds it against the service: the same hits in the same order, with the same scores.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Text, bindparam, cast, collate, column, func, null, select
from sqlalchemy.dialects.postgresql import ARRAY, REAL

from adkpg import Database
from adkpg.embedding import Embedder
from adkpg.embedding.embedder import languages_of
from adkpg.memory import records
from adkpg.memory.search import hits
from adkpg.memory.search.cues import Cues, cues_of
from adkpg.memory.search.hits import ROWS_PER_HIT, Hit, Reason
from adkpg.memory.search.options import Mode
from adkpg.memory.search.passage import Part, best_part
from adkpg.memory.search.ranking import RANKING, Ranking
from adkpg.memory.search.updates import Compared, newest_first
from adkpg.memory.tokenizer import script_config, searchable
from adkpg.memory.vectors.languages import foreign_language
from adkpg.sql import Statement, config_of, in_scope, live, stored_columns
from adkpg.tables import memories, memory_lexemes, memory_vectors
from adkpg.tooling.evaluation import Question
from adkpg.tooling.evaluation.asking import Found, Recalled
from adkpg.tooling.evaluation.figures import DEPTH

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

TOLD, ASKS = 1, 2
"""Values of memories.speech, besides 0 for what nobody said."""


@dataclass(frozen=True)
class Scope:
    """What is known of one user's memories, in the order of their places.

    Attributes:
      memories: What hits return.
      places: Where they are in the user's history.
      lengths: How many lexemes each has.
      speech: Whether each tells or asks.
      times: When each was said, in Unix seconds.
      vectors: Of all passages, as they are stored (half precision).
      owners: By passage, the index of its memory.
      spans: By passage, which characters of the memory it has, from and to; None is all.
      postings: By lexeme, the places, how often each has it, and how often its date does.
    """

    memories: Sequence[records.Memory]
    places: Places
    lengths: Places
    speech: Places
    times: Numbers
    vectors: NDArray[np.float32]
    owners: Places
    spans: Sequence[tuple[int, int] | None]
    postings: dict[str, tuple[Places, Numbers, Numbers]] = field(repr=False)

    @cached_property
    def index(self) -> dict[int, int]:
        """By place, which memory it is of."""
        return {int(place): n for n, place in enumerate(self.places)}

    @cached_property
    def by_user(self) -> NDArray[np.bool_]:
        """Whether the user said it."""
        return np.array([memory.author == "user" for memory in self.memories], dtype=bool)


async def read_scope(database: Database, app_name: str, user_id: str) -> Scope:
    """Reads what a database remembers of a user."""
    scope: Any = {"app_name": app_name, "user_id": user_id}
    rows = await database.run.fetch(
        Statement[Any](
            select(*stored_columns(), memories.c.position, memories.c.length, memories.c.speech)
            .where(in_scope(memories), live())
            .order_by(memories.c.position)
        ),
        scope,
    )
    places = np.array([row["position"] for row in rows], dtype=np.int64)
    index = {int(place): n for n, place in enumerate(places)}
    vectors = await database.run.fetch(
        Statement[Any](
            select(
                memory_vectors.c.position,
                func.lower(memory_vectors.c.span).label("start"),
                func.upper(memory_vectors.c.span).label("end"),
                cast(memory_vectors.c.embedding, ARRAY(REAL)).label("v"),
            )
            .where(in_scope(memory_vectors))
            .order_by(memory_vectors.c.position, memory_vectors.c.passage)
        ),
        scope,
    )
    lexemes = await database.run.fetch(
        Statement[Any](
            select(
                memory_lexemes.c.lexeme,
                func.array_agg(memory_lexemes.c.position).label("places"),
                func.array_agg(memory_lexemes.c.frequency).label("said"),
                func.array_agg(memory_lexemes.c.date_frequency).label("dated"),
            )
            .where(in_scope(memory_lexemes))
            .group_by(memory_lexemes.c.lexeme)
        ),
        scope,
    )
    dates = await database.run.fetch(
        Statement[Any](
            select(
                memories.c.position,
                func.tsvector_to_array(
                    func.to_tsvector(
                        config_of(cast(null(), Text)),
                        func.to_char(
                            func.timezone("UTC", memories.c.timestamp), "FMDD FMMonth YYYY"
                        ),
                    )
                ).label("words"),
            ).where(in_scope(memories), live())
        ),
        scope | {"config": database.settings.text_search_config},
    )
    postings = {
        row["lexeme"]: {
            place: (said, dated)
            for place, said, dated in zip(row["places"], row["said"], row["dated"], strict=True)
        }
        for row in lexemes
    }
    for row in dates:
        for word in row["words"]:
            # What is said as well has a posting that knows of the date.
            postings.setdefault(word, {}).setdefault(row["position"], (0, 1))
    kept = [row for row in vectors if row["position"] in index]
    return Scope(
        memories=[records.memory(row) for row in rows],
        places=places,
        lengths=np.array([row["length"] for row in rows], dtype=np.int64),
        speech=np.array([row["speech"] for row in rows], dtype=np.int64),
        times=np.array([row["timestamp"].timestamp() for row in rows]),
        vectors=np.array([row["v"] for row in kept], dtype=np.float32),
        owners=np.array([index[row["position"]] for row in kept], dtype=np.int64),
        spans=[None if row["start"] is None else (row["start"], row["end"]) for row in kept],
        postings={
            word: (
                np.array(list(found), dtype=np.int64),
                np.array([said for said, _ in found.values()], dtype=np.float64),
                np.array([dated for _, dated in found.values()], dtype=np.float64),
            )
            for word, found in postings.items()
        },
    )


async def words_of(database: Database, app_name: str, text: str) -> list[str]:
    """Returns a question's lexemes in the order in which the statement numbers them."""
    words = searchable(text)[: records.WORDS_LIMIT]
    vector = func.to_tsvector(
        config_of(bindparam("script", type_=Text)), bindparam("query", type_=Text)
    )
    lexemes = func.unnest(vector).table_valued(column("lexeme", Text), name="lexemes")
    rows = await database.run.fetch(
        Statement[Any](select(collate(lexemes.c.lexeme, "C").label("lexeme"))),
        {
            "app_name": app_name,
            "query": words,
            "script": script_config(words),
            "config": database.settings.text_search_config,
        },
    )
    return [row["lexeme"] for row in rows]


@dataclass(frozen=True)
class Asked:
    """A question as the ranking sees it.

    Attributes:
      text: Its words, as they were asked.
      words: Its lexemes.
      vector: Its vector, as it is compared (half precision); None by words alone.
      cues: What else it says.
      foreign: Whether the model does not know its language.
    """

    text: str
    words: Sequence[str]
    vector: NDArray[np.float32] | None
    cues: Cues
    foreign: bool = False


async def read_question(
    database: Database, app_name: str, text: str, now: datetime, embedder: Embedder | None
) -> Asked:
    """Reads a question as a search does."""
    vector, foreign = None, False
    if embedder is not None:
        known = languages_of(embedder)
        foreign = known is not None and foreign_language(text, known) is not None
        found = records.unit_vector(await embedder.embed_query(text))
        vector = np.array(found, dtype=np.float16).astype(np.float32)
    return Asked(
        text=text,
        words=await words_of(database, app_name, text),
        vector=vector,
        cues=cues_of(text, now),
        foreign=foreign,
    )


@dataclass(frozen=True)
class Lexical:
    """Scores by words of the memories that promise most; the others have none."""

    which: Places
    scores: Numbers
    coverage: Numbers


def lexical(scope: Scope, asked: Asked, ranking: Ranking = RANKING) -> Lexical:
    """Scores by words, as `lexical_steps` does."""
    size, wordiness = len(scope.places), asked.cues.wordiness
    words = [word for word in asked.words if word in scope.postings]
    nothing = Lexical(*(np.zeros(0, dtype=kind) for kind in (np.int64, float, float)))
    if not words or not size:
        return nothing
    counts = np.array([len(scope.postings[word][0]) for word in words], dtype=float)
    rarest = np.argsort(counts, kind="stable")
    leads = np.zeros(len(words), dtype=bool)
    leads[rarest] = np.cumsum(counts[rarest]) <= ranking.leading_postings
    leads[rarest[0]] = True
    touched = [_touched(scope, word, wordiness, ranking) for word in words]
    estimate = size * (1 - np.power(1 - np.minimum(counts / size, 1), len(ranking.spread)))
    places_of = np.array([len(places) for places, _, _ in touched], dtype=float)
    found_in = np.minimum(np.where(leads, places_of, estimate), size)
    idf = np.log(1 + (size - found_in + 0.5) / (found_in + 0.5))
    promising = _promising(
        [t for t, lead in zip(touched, leads, strict=True) if lead], idf[leads], ranking
    )
    which = [n for place in promising.tolist() if (n := scope.index.get(place)) is not None]
    if not which:
        return nothing
    chosen = np.array(sorted(which), dtype=np.int64)
    lengths = scope.lengths[chosen].astype(float)
    answers = np.array(
        [
            (at := scope.index.get(int(place) - 1)) is not None and scope.speech[at] == ASKS
            for place in scope.places[chosen]
        ]
    )
    weights = np.zeros((len(words), len(chosen)))
    for row, (places, weight, before) in enumerate(touched):
        near = np.searchsorted(scope.places[chosen], places)
        near[near == len(chosen)] = 0
        here = scope.places[chosen][near] == places
        weights[row, near[here]] = weight[here] + ranking.answer * np.where(
            answers[near[here]], before[here], 0
        )
    norm = ranking.k1 * (1 - ranking.b + ranking.b * lengths / max(scope.lengths.mean(), 1))
    bm25 = (idf[:, None] * weights * (ranking.k1 + 1) / (weights + norm)).sum(axis=0)
    long = ranking.long_turn * wordiness
    standing = np.where(answers, 1.0, lengths / (lengths + ranking.thin))
    standing *= np.where(scope.speech[chosen] == ASKS, ranking.question, 1.0)
    standing *= np.where(
        lengths > long, np.power(long / np.maximum(lengths, 1), ranking.long_turn_power), 1.0
    )
    standing = np.where(scope.speech[chosen] == 0, 1.0, standing)
    unknown = np.log(1 + (size + 0.5) / 0.5)
    matched = (weights > 0).any(axis=1)
    whole = min(
        idf[matched].sum() + (len(asked.words) - matched.sum()) * unknown,
        ranking.telling * unknown,
    )
    coverage = (idf[:, None] * np.minimum(weights, 1)).sum(axis=0) / whole
    hit = (weights > 0).any(axis=0)
    return Lexical(chosen[hit], (standing * bm25)[hit], coverage[hit])


def _touched(
    scope: Scope, word: str, wordiness: float, ranking: Ranking
) -> tuple[Places, Numbers, Numbers]:
    """The places that a word counts for, how much, and how much the turn before says it."""
    places, said, of_date = scope.postings[word]
    lengths = np.array([scope.lengths[scope.index[int(place)]] for place in places], dtype=float)
    long = lengths > ranking.lends * wordiness
    lent = said * np.where(long, ranking.lends * wordiness / np.maximum(lengths, 1), 1.0)
    at, weights, befores = [], [], []
    for shift, weight in ranking.spread:
        heard = slice(None) if shift == 0 else said > 0
        own = said + of_date if shift == 0 else weight * lent
        at.append((places + shift)[heard])
        weights.append(own[heard])
        befores.append(lent[heard] if shift == 1 else np.zeros(len(at[-1])))
    where, inverse = np.unique(np.concatenate(at), return_inverse=True)
    return (
        where,
        np.bincount(inverse, np.concatenate(weights), len(where)).astype(np.float64),
        np.bincount(inverse, np.concatenate(befores), len(where)).astype(np.float64),
    )


def _promising(
    touched: Sequence[tuple[Places, Numbers, Numbers]], idf: Numbers, ranking: Ranking
) -> Places:
    promise: dict[int, float] = {}
    for (places, weights, _), rarity in zip(touched, idf, strict=True):
        for place, worth in zip(
            places.tolist(), (weights * rarity / (weights + ranking.k1)).tolist(), strict=True
        ):
            promise[place] = promise.get(place, 0.0) + worth
    most = max(ranking.promising, _rows())
    best = sorted(promise, key=lambda place: (-promise[place], -place))[:most]
    return np.array(best, dtype=np.int64)


def _rows() -> int:
    return int(np.ceil(ROWS_PER_HIT[0] * DEPTH))


@dataclass
class Candidates:
    """What is ranked, in parallel: the memories, and what speaks for each."""

    which: Places
    lexical: Numbers
    coverage: Numbers
    cosine: Numbers
    dated: Numbers
    said_by: Numbers
    score: Numbers = field(default_factory=lambda: np.zeros(0))
    relevant: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))


def rank(
    scope: Scope,
    asked: Asked,
    floor: float,
    mode: Mode = "hybrid",
    ranking: Ranking = RANKING,
    words: Lexical | None = None,
) -> list[Hit]:
    """Returns the `DEPTH` best hits, as the service does.

    Args:
      scope: The memories.
      asked: The question.
      floor: The embedder's.
      mode: By words, meaning or both.
      ranking: The constants.
      words: Scores by words that are known already, with the same constants.
    """
    if not len(scope.places):
        return []
    found = candidates(scope, asked, mode, ranking, words)
    fuse(scope, found, floor, asked, mode, ranking)
    kept = np.flatnonzero(found.relevant)
    order = sorted(
        kept.tolist(),
        key=lambda n: (
            -found.score[n],
            -scope.times[found.which[n]],
            -scope.places[found.which[n]],
        ),
    )[: _rows()]
    rows = [
        Hit(
            memory=scope.memories[found.which[n]],
            score=float(found.score[n]),
            reason=Reason(
                passage=_passage(scope, asked, int(found.which[n]), mode),
                lexical=float(found.lexical[n]),
                lexemes=(),
                cosine=float(found.cosine[n]),
                recency=1.0,
                importance=1.0,
                score=float(found.score[n]),
                date=float(found.dated[n]),
                speaker=float(found.said_by[n]),
            ),
        )
        for n in order
    ]
    asks = asked.cues.asks and mode != "vector"
    folded = hits.folded(rows)
    newest = newest_first(list(map(_compared, folded)), asked.text if asks else None, {})
    return [_scored(folded[place], score) for place, score in newest][:DEPTH]


def _scored(hit: Hit, score: float) -> Hit:
    reason = replace(hit.reason, score=score, newer=score - hit.score)
    return replace(hit, score=score, reason=reason)


def _compared(hit: Hit) -> Compared:
    """What tells whether a hit replaces another one."""
    memory = hit.memory
    return Compared(
        ids=(str(memory.id), *hit.folded),
        kind=memory.kind,
        author=memory.author,
        session_id=memory.session_id,
        timestamp=datetime.fromisoformat(memory.timestamp or ""),
        superseded_by=memory.superseded_by,
        score=hit.score,
        said=lambda: hit.reason.passage or records.text_of(memory.content),
    )


def _passage(scope: Scope, asked: Asked, memory: int, mode: Mode) -> str | None:
    """The part of a long memory that matches best."""
    if mode == "text" or asked.vector is None:
        return None
    parts = [
        Part(*span, float(scope.vectors[n] @ asked.vector))
        for n in np.flatnonzero(scope.owners == memory).tolist()
        if (span := scope.spans[n]) is not None
    ]
    text = records.text_of(scope.memories[memory].content)
    best = best_part(text, parts, asked.text)
    return None if best is None else text[best.start : best.end]


def candidates(
    scope: Scope, asked: Asked, mode: Mode, ranking: Ranking, words: Lexical | None = None
) -> Candidates:
    """Returns the best of each way, with both scores of each."""
    size = len(scope.places)
    most = max(ranking.candidates, _rows())
    score, coverage = np.zeros(size), np.zeros(size)
    cosine = np.full(size, np.nan)
    chosen: set[int] = set()
    if mode != "vector":
        found = words or lexical(scope, asked, ranking)
        score[found.which], coverage[found.which] = found.scores, found.coverage
        best = np.lexsort((-scope.places[found.which], -found.scores))[:most]
        chosen.update(found.which[best].tolist())
    if mode != "text" and asked.vector is not None and len(scope.vectors):
        cosine = np.full(size, -np.inf)
        np.maximum.at(cosine, scope.owners, (scope.vectors @ asked.vector).astype(float))
        cosine[np.isinf(cosine)] = np.nan
        nearest = np.argsort(np.where(np.isnan(cosine), np.inf, -cosine), kind="stable")[:most]
        chosen.update(nearest[~np.isnan(cosine[nearest])].tolist())
    of_time = _of_time(scope, asked.cues) if mode != "vector" else np.zeros(size, dtype=bool)
    if of_time.sum() > size * ranking.dated_share:
        of_time[:] = False
    if of_time.sum() <= ranking.most_dated:
        chosen.update(np.flatnonzero(of_time).tolist())
    which = np.array(sorted(chosen), dtype=np.int64)
    by = np.zeros(size)
    if asked.cues.speaker is not None and mode != "vector":
        by = np.where(scope.by_user == (asked.cues.speaker == "user"), ranking.said_by, 0.0)
    return Candidates(
        which,
        score[which],
        coverage[which],
        cosine[which],
        np.where(of_time, ranking.dated, 0.0)[which],
        by[which],
    )


def _of_time(scope: Scope, cues: Cues) -> NDArray[np.bool_]:
    told = np.zeros(len(scope.places), dtype=bool)
    for since, until in cues.times.spans:
        told |= (scope.times >= since.timestamp()) & (scope.times < until.timestamp())
    if cues.times.first and (scope.speech > 0).any():
        day = 86400 * (scope.times[scope.speech > 0].min() // 86400)
        told |= (scope.times >= day) & (scope.times < day + 86400)
    return told


def fuse(
    scope: Scope, found: Candidates, floor: float, asked: Asked, mode: Mode, ranking: Ranking
) -> None:
    """Gives each candidate its score, and whether it is a hit."""
    if not len(found.which):
        found.score, found.relevant = np.zeros(0), np.zeros(0, dtype=bool)
        return
    size = len(scope.places)
    cosine = found.cosine
    if mode == "vector":
        found.score, found.relevant = cosine, cosine >= floor
        return
    told = found.dated + found.said_by
    best = found.lexical.max()
    if mode == "text":
        found.score = found.lexical + best * told
        enough = ranking.relevance_of_words * np.log(max(size, 1))
        place = np.empty(len(found.which))
        place[np.lexsort((-scope.places[found.which], -found.score))] = np.arange(len(place))
        of_best = found.coverage >= ranking.share_of_best * found.coverage.max()
        found.relevant = (
            (size <= ranking.small_scope)
            | (found.coverage >= enough)
            | ((place < ranking.best_of_words) & of_best & (found.coverage > 0))
            | (found.dated > 0)
        )
        return
    known = cosine[~np.isnan(cosine)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    scaled = np.nan_to_num((cosine - low) / (high - low)) if high > low else np.zeros(len(cosine))
    words = found.lexical / best if best else found.lexical
    found.score = words + _weight(found, low, floor, size, asked, ranking) * scaled + told
    found.relevant = _relevant(scope, found, floor, asked, ranking) | (found.dated > 0)


def _weight(
    found: Candidates, low: float, floor: float, size: int, asked: Asked, ranking: Ranking
) -> float:
    covered = found.coverage.max()
    more = max(min(ranking.covered / covered if covered else 1.0, ranking.most_vector), 1.0)
    heard = 1.0
    if size > ranking.small_scope and floor > 0 and asked.foreign:
        loud, silent = ranking.silent
        said = (silent - (low - floor) / (1 - floor)) / (silent - loud)
        heard = min(max(said, ranking.least_vector), 1.0)
    return ranking.vector * more * heard


def _relevant(
    scope: Scope, found: Candidates, floor: float, asked: Asked, ranking: Ranking
) -> NDArray[np.bool_]:
    size = len(scope.places)
    cosine = np.nan_to_num(found.cosine, nan=-np.inf)
    meaning = (cosine - floor) / (1 - floor)
    noise = _noise(found, floor, size, ranking)
    told = np.maximum((cosine - noise) / (1 - noise), 0) if noise < 1 else np.zeros(len(cosine))
    evidence = told + found.coverage / asked.cues.wordiness
    place = np.empty(len(found.which))
    place[np.lexsort((-scope.places[found.which], -found.score))] = np.arange(1, len(place) + 1)
    nearness = np.empty(len(found.which))
    nearness[np.argsort(-cosine, kind="stable")] = np.arange(1, len(place) + 1)
    usual = ranking.usual_turn * asked.cues.wordiness
    longer = np.log(max(max(scope.lengths.mean(), 1) / usual, 1))
    chance = np.log(max(size / ranking.small_scope, 1))
    bar = min(ranking.relevance * chance, ranking.enough)
    bar = bar + ranking.rising * longer * np.maximum(place - ranking.sure, 0) / 10
    asks = asked.cues.asks
    best_hits = ranking.best_of_question if asks else ranking.best_of_statement
    leeway = 0.0 if asks else ranking.near
    near = cosine >= floor
    relevant: NDArray[np.bool_] = (
        (((found.lexical > 0) | (cosine >= noise)) & (evidence >= bar))
        | ((place <= best_hits) & (cosine >= floor - leeway * (1 - floor)))
        | (near & (meaning >= ranking.near) & (nearness <= ranking.nearest))
    )
    return relevant


def _noise(found: Candidates, floor: float, size: int, ranking: Ranking) -> float:
    known = found.cosine[~np.isnan(found.cosine)]
    if size <= ranking.small_scope or floor <= 0 or not len(known) or known.min() <= floor:
        return floor
    return float(min(known.mean() + ranking.above_usual * known.std(), 1))


class Replica:
    """A system that `adkpg.tooling.evaluation` measures as it does the service.

    Args:
      scopes: By user.
      questions: By text and the time it was asked.
      floor: The embedder's.
      mode: By words, meaning or both.
      ranking: The constants.
    """

    def __init__(
        self,
        scopes: dict[str, Scope],
        questions: dict[tuple[str, datetime], Asked],
        floor: float,
        mode: Mode = "hybrid",
        ranking: Ranking = RANKING,
    ) -> None:
        self._scopes = scopes
        self._questions = questions
        self._floor = floor
        self._mode: Mode = mode
        self._ranking = ranking

    async def ask(self, user_id: str | None, question: Question) -> Recalled:
        """Does what `System.ask` says."""
        assert user_id is not None
        assert question.moment is not None
        begin = time.perf_counter()
        asked = self._questions[question.text, question.moment]
        found = rank(self._scopes[user_id], asked, self._floor, self._mode, self._ranking)
        await asyncio.sleep(0)
        return Recalled(
            hits=tuple(
                Found(
                    names=frozenset(
                        str(name)
                        for name in (hit.memory.id, hit.memory.event_id, *hit.folded)
                        if name
                    ),
                    text=records.text_of(hit.memory.content),
                    cost=hits.tokens(hit.memory),
                    session_id=hit.memory.session_id,
                )
                for hit in found
            ),
            search_s=time.perf_counter() - begin,
        )
