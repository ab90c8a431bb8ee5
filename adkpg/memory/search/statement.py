"""The statement that recalls: both legs and their fusion in one, over the scopes asked for. No I/O.

Each leg puts memories forward (`lexical_leg`, `vector_leg`), each is scored on both
(`adkpg.memory.search.ranking`), and what is no more than chance is left out.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Double,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    func,
    literal,
    null,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY

from adkpg.memory.search import lexical as lexical_leg
from adkpg.memory.search import vector as vector_leg
from adkpg.memory.search.ranking import RANKING
from adkpg.memory.search.steps import (
    TOP_K,
    among,
    at_least,
    at_place,
    dead_places,
    in_scopes,
    looked_up,
    materialized,
    number,
)
from adkpg.sql import conditions, stored_columns
from adkpg.tables import approximate_scopes, memories, memory_vectors


@dataclass(frozen=True)
class Shape:
    """Which search to build.

    Attributes:
      lexical: With the lexical leg.
      vector: With the vector leg.
      large: The model's vectors have more than 1,300 dimensions.
      approximate: The model's number and dimensions, to answer the vector leg of some scopes from
        its HNSW index instead of exactly.
      filters: The conditions that memories must meet, as `SearchFilters.asked` names them.
      decay: Scores halve with every half-life.
      explain: With the words that matched.
    """

    lexical: bool
    vector: bool
    large: bool = False
    approximate: tuple[int, int] | None = None
    filters: frozenset[str] = frozenset()
    decay: bool = False
    explain: bool = False


@cache
def search(shape: Shape) -> Select[Any]:
    """Finds the memories that answer a question best, the best first; one row at least.

    Parameters: app_name, user_ids (the scopes), user_id (the first of them), top_k; query, script
    and config with the lexical leg; query_vector, model, dimensions and min_cosine with the vector
    leg; exact_user_ids and approximate_user_ids if some scopes are answered by the HNSW
    index; those of the filters; half_life_s with a decay; nearest and near, with both legs: how
    many of the nearest are hits whatever their words, if their cosine, scaled from `min_cosine` to
    1, is `near` at least.

    Returns the memory's columns (all null in the one row of a search that found nothing),
    position, score, lexical, cosine, recency, importance_factor and lexemes; and in every row
    ``approximate``, the scopes that the HNSW index holds, and ``active_model``, the app's, which
    is null if it has none yet. Vectors of a model that is not active are not compared.
    """
    question = vector_leg.question_vector()
    model = vector_leg.compared_model() if shape.vector else None
    eligible = _eligible(shape.filters) if shape.filters else None
    dead = dead_places()
    scope = lexical_leg.scope_of(dead)
    nearest = None
    if model is not None:
        nearest = vector_leg.nearest(
            question, model, dead, eligible, large=shape.large, approximate=shape.approximate
        )
    asked = lexical_leg.words() if shape.lexical else None
    matched = lexical = None
    if asked is not None:
        matched = lexical_leg.matched(asked, scope, dead, eligible)
        lexical = lexical_leg.scored(matched, asked, scope)
    fused = _fused(_candidates(lexical, nearest), question, model, shape)
    best = _best(fused, _relevant(fused, scope, shape), shape)
    words: Any = cast(null(), ARRAY(Text))
    source: Any = best
    if shape.explain and asked is not None and matched is not None:
        said = _said(matched, asked, best)
        words = said.c.lexemes
        source = best.outerjoin(said, said.c.position == best.c.position)
    info = _info(model)
    return (
        select(best, words.label("lexemes"), *info.c)
        .select_from(info.outerjoin(source, true()))
        .order_by(best.c.score.desc(), best.c.timestamp.desc(), best.c.position.desc())
    )


def _relevant(fused: Any, scope: CTE, shape: Shape) -> ColumnElement[bool]:
    """Whether a candidate is a hit: what speaks for it is more than chance has among so many.

    The best of n unrelated memories comes the nearer the more there are, about as ln n. The very
    nearest are hits with less, since a paraphrase shares no word.
    """
    floor = bindparam("min_cosine", type_=Double)
    near: ColumnElement[bool] = fused.c.cosine >= floor
    if not shape.lexical:
        return near
    size = select(scope.c.size).scalar_subquery()
    if not shape.vector:
        chance = func.ln(func.greatest(size, 1))
        return or_(
            size <= RANKING.small_scope,
            fused.c.coverage >= RANKING.relevance_of_words * chance,
        )
    chance = func.ln(func.greatest(size / RANKING.small_scope, 1))
    meaning = (fused.c.cosine - floor) / func.nullif(1 - floor, 0, type_=Double)
    evidence = func.greatest(func.coalesce(meaning, 0.0), 0.0) + fused.c.coverage
    return or_(
        and_(
            or_(fused.c.lexical > 0, near),
            evidence >= func.least(RANKING.relevance * chance, RANKING.enough),
        ),
        and_(
            near,
            meaning >= bindparam("near", type_=Double),
            fused.c.nearness <= bindparam("nearest", type_=Integer),
        ),
    )


def _info(model: CTE | None) -> CTE:
    """What the caller must know for its next search; one row."""
    if model is None:
        nothing = cast(null(), ARRAY(Text))
        return select(nothing.label("approximate"), null().label("active_model")).cte("info")
    held = (
        select(func.array_agg(approximate_scopes.c.user_id))
        .where(
            in_scopes(approximate_scopes),
            approximate_scopes.c.model_id == model.c.own,
            approximate_scopes.c.ready,
        )
        .correlate(model)
        .scalar_subquery()
    )
    return select(held.label("approximate"), model.c.active.label("active_model")).cte("info")


def _eligible(asked: frozenset[str]) -> CTE:
    return materialized(
        select(memories.c.position).where(in_scopes(memories), *conditions(asked)), "eligible"
    )


def _best(fused: Any, match: ColumnElement[bool], shape: Shape) -> CTE:
    """The memories to return, with what changes their score besides the question."""
    low, high = RANKING.importance_factors
    kept = (fused.c.position, fused.c.lexical, fused.c.cosine, fused.c.score)
    relevant = materialized(select(*kept).where(match), "relevant")
    memory = looked_up(
        select(
            *stored_columns(),
            cast(func.extract("epoch", func.now() - memories.c.timestamp), Double).label("age_s"),
        ).where(at_place(memories, relevant.c.position)),
        "memory",
    )
    recency: Any = literal(1.0, Double)
    if shape.decay:
        half_life_s = bindparam("half_life_s", type_=Double)
        # Beyond 1,000 half-lives a power underflows, which Postgres takes for an error.
        recency = func.power(
            literal(0.5, Double), func.least(func.greatest(memory.c.age_s, 0) / half_life_s, 1000)
        )
    factor = low + cast(memory.c.importance, Double) * (high - low)
    score = relevant.c.score * recency * factor
    return (
        select(
            *(each for each in memory.c if each.key != "age_s"),
            relevant.c.position,
            score.label("score"),
            relevant.c.lexical,
            relevant.c.cosine,
            recency.label("recency"),
            factor.label("importance_factor"),
        )
        .select_from(relevant.join(memory, true()))
        .where(*([] if shape.decay else [_within_reach(relevant)]))
        .order_by(score.desc(), memory.c.timestamp.desc(), relevant.c.position.desc())
        .limit(TOP_K)
        .cte("best")
    )


def _said(matched: CTE, asked: CTE, best: CTE) -> CTE:
    """The question's words that each of the best has, in its own or a neighbouring turn."""
    return (
        select(matched.c.position, func.array_agg(asked.c.lexeme).label("lexemes"))
        .select_from(matched.join(asked, asked.c.word == matched.c.word))
        .where(among(matched.c.position, best))
        .group_by(matched.c.position)
        .cte("said")
    )


def _within_reach(relevant: CTE) -> ColumnElement[bool]:
    """Whether a candidate can be among the best, however important it is and they are not.

    Most cannot: these are not looked up.
    """
    low, high = RANKING.importance_factors
    last = relevant.alias("last")
    bar = (
        select(func.least(last.c.score * low, last.c.score * high))
        .order_by(last.c.score.desc())
        .offset(TOP_K - 1)
        .limit(number(1))
        .scalar_subquery()
    )
    most = func.greatest(relevant.c.score * low, relevant.c.score * high)
    return func.coalesce(most >= bar, true())


def _candidates(lexical: CTE | None, nearest: CTE | None) -> Select[Any]:
    """The best of each leg, with the scores that the legs know: position, lexical, cosine."""
    most = at_least(RANKING.candidates)
    if lexical is None:
        assert nearest is not None
        return select(
            nearest.c.position,
            literal(0.0, Double).label("lexical"),
            literal(0.0, Double).label("coverage"),
            nearest.c.cosine,
        )
    if nearest is None:
        return (
            select(
                lexical.c.position,
                lexical.c.score.label("lexical"),
                lexical.c.coverage,
                cast(null(), Double).label("cosine"),
            )
            .order_by(lexical.c.score.desc(), lexical.c.position.desc())
            .limit(most)
        )
    top = materialized(
        select(lexical.c.position, lexical.c.score, lexical.c.coverage)
        .order_by(lexical.c.score.desc(), lexical.c.position.desc())
        .limit(most),
        "top",
    )
    rest = select(lexical.c.position, lexical.c.score, lexical.c.coverage).where(
        among(lexical.c.position, nearest), ~among(lexical.c.position, top)
    )
    worded = materialized(union_all(select(top), rest), "worded")
    return select(
        func.coalesce(worded.c.position, nearest.c.position).label("position"),
        func.coalesce(worded.c.score, 0.0).label("lexical"),
        func.coalesce(worded.c.coverage, 0.0).label("coverage"),
        nearest.c.cosine,
    ).select_from(worded.join(nearest, nearest.c.position == worded.c.position, full=True))


def _fused(found: Select[Any], question: CTE, model: CTE | None, shape: Shape) -> Any:
    """Each candidate with both scores, and both scaled over the candidates and added."""
    candidates = found.cte("candidates")
    source: Any = candidates
    cosine: Any = candidates.c.cosine
    if shape.lexical and model is not None:
        vectors = memory_vectors.alias("vectors")
        vector = vectors.c.large if shape.large else vectors.c.embedding
        other = looked_up(
            select((-vector_leg.distance_to(vector, question)).label("cosine")).where(
                at_place(vectors, candidates.c.position),
                vectors.c.model_id == vector_leg.compared(model),
                candidates.c.cosine.is_(None),
            ),
            "other",
        )
        source = candidates.outerjoin(other, true())
        cosine = func.coalesce(cosine, other.c.cosine)
    scored = (
        select(
            candidates.c.position,
            candidates.c.lexical,
            candidates.c.coverage,
            cast(cosine, Double).label("cosine"),
        )
        .select_from(source)
        .cte("scored")
    )
    best = func.max(scored.c.lexical).over()
    low, high = func.min(scored.c.cosine).over(), func.max(scored.c.cosine).over()
    words = func.coalesce(scored.c.lexical / func.nullif(best, 0, type_=Double), 0.0)
    meaning = func.coalesce((scored.c.cosine - low) / func.nullif(high - low, 0, type_=Double), 0.0)
    if not shape.lexical:
        score: Any = scored.c.cosine
    elif not shape.vector:
        score = scored.c.lexical
    else:
        score = words + RANKING.vector * meaning
    nearness = func.row_number().over(order_by=scored.c.cosine.desc().nulls_last())
    return select(
        scored.c.position,
        scored.c.lexical,
        scored.c.coverage,
        scored.c.cosine,
        nearness.label("nearness"),
        cast(score, Double).label("score"),
    ).subquery("fused")
