"""The statement that recalls: both legs and their fusion in one, over one user's rows. No I/O.

Lexical leg: the question's words, or-ed, against the postings (``memory_lexemes``). A posting
counts for the memory it stands in and, by weight, for its neighbours, whose positions are next to
it; so neighbours are found without being stored, and a deleted turn's words are gone everywhere.

Vector leg: exact, from the primary key's index, which holds a user's vectors side by side. Above
1,300 dimensions the index holds their sign bits; the best by those are compared whole.

Each memory that either leg puts forward is scored on both (`adkpg.memory.ranking`).
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Double,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    collate,
    column,
    false,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    true,
    values,
)
from sqlalchemy.sql.selectable import LateralFromClause

from adkpg.memory.ranking import RANKING
from adkpg.memory.statements import CONFIG, in_scope
from adkpg.memory.vector_statements import select_model
from adkpg.tables import (
    approximate_scopes,
    memories,
    memory_lexemes,
    memory_vectors,
)

_TOP_K = bindparam("top_k", type_=Integer)


@dataclass(frozen=True)
class Shape:
    """Which search to build.

    Attributes:
      lexical: With the lexical leg.
      vector: With the vector leg.
      large: The model's vectors have more than 1,300 dimensions.
      approximate: The model's number and dimensions, to answer the vector leg from its HNSW
        index instead of exactly.
    """

    lexical: bool
    vector: bool
    large: bool = False
    approximate: tuple[int, int] | None = None


@cache
def search(shape: Shape) -> Select[Any]:
    """Finds the memories that answer a question best, the best first.

    Parameters: app_name, user_id, top_k; query and config with the lexical leg; query_vector
    (text), model, dimensions and min_cosine with the vector leg. What has no lexical match and a
    cosine below `min_cosine` is no hit.

    Returns the memory's columns, score, lexical, cosine, and ``approximate``: whether the user's
    memories are too many for an exact answer and the HNSW index holds them.
    """
    question = _question()
    nearest = _nearest(shape, question) if shape.vector else None
    lexical = _lexical() if shape.lexical else None
    fused = _fused(_candidates(lexical, nearest), question, shape)
    match = []
    if lexical is not None:
        match.append(fused.c.lexical > 0)
    if nearest is not None:
        match.append(fused.c.cosine >= bindparam("min_cosine", type_=Double))
    ready = (
        select(func.coalesce(func.bool_or(approximate_scopes.c.ready), false()))
        .where(in_scope(approximate_scopes), approximate_scopes.c.model_id == _model(shape))
        .scalar_subquery()
        if shape.vector
        else false()
    )
    memory = _looked_up(
        select(
            memories.c.memory_id,
            memories.c.session_id,
            memories.c.event_id,
            memories.c.author,
            memories.c.timestamp,
            cast(memories.c.content, Text).label("content"),
            cast(memories.c.custom_metadata, Text).label("custom_metadata"),
        ).where(in_scope(memories), memories.c.position == fused.c.position),
        "memory",
    )
    return (
        select(
            *memory.c,
            fused.c.score,
            fused.c.lexical,
            fused.c.cosine,
            ready.label("approximate"),
        )
        .select_from(fused.join(memory, true()))
        .where(or_(*match))
        .order_by(fused.c.score.desc(), memory.c.timestamp.desc(), fused.c.position.desc())
        .limit(_TOP_K)
    )


def _question() -> CTE:
    # Cast once: in place, the cast would be evaluated for every row once the plan is generic.
    vector = cast(cast(bindparam("query_vector", type_=Text), Text), HALFVEC())
    return _materialized(select(vector.label("vector")), "question")


def _asked(question: CTE) -> ColumnElement[Any]:
    return select(question.c.vector).scalar_subquery()


def _model(shape: Shape) -> ColumnElement[Any]:
    if shape.approximate:
        return _number(shape.approximate[0])
    return select_model().scalar_subquery()


def _number(number: int) -> ColumnElement[int]:
    """A number in the statement's own text, where the planner sees it."""
    return literal_column(str(int(number)), Integer)


def _at_least(number: int) -> ColumnElement[int]:
    """A number, or as many memories as are asked for if those are more."""
    return func.greatest(_number(number), _TOP_K)


def _nearest(shape: Shape, question: CTE) -> CTE:
    """The nearest memories by cosine, at most as many as there are candidates."""
    vectors = memory_vectors
    mine = and_(in_scope(vectors), vectors.c.model_id == _model(shape))
    vector: ColumnElement[Any] = vectors.c.large if shape.large else vectors.c.embedding
    source: Any = vectors
    if shape.approximate:  # the expression and the predicate of the index
        vector = cast(vector, HALFVEC(shape.approximate[1]))
        mine = and_(mine, vectors.c.approximate)
    elif shape.large:
        bits = select(cast(func.binary_quantize(question.c.vector), vectors.c.bits.type))
        coarse = _materialized(
            select(vectors.c.position)
            .where(mine)
            .order_by(vectors.c.bits.op("<~>")(bits.scalar_subquery()))
            .limit(_at_least(RANKING.coarse)),
            "coarse",
        )
        source = coarse.join(vectors, vectors.c.position == coarse.c.position)
    distance = vector.op("<=>", return_type=Double)(_asked(question))
    return _materialized(
        select(vectors.c.position, (1 - distance).label("cosine"))
        .select_from(source)
        .where(mine)
        .order_by(distance)
        .limit(
            # As a number the planner sees what the index saves.
            _number(RANKING.candidates) if shape.approximate else _at_least(RANKING.candidates)
        ),
        "nearest",
    )


def _lexical() -> CTE:
    """The BM25F score of every memory that a word of the question touches.

    Joins are FULL where they need not be, since a nested loop cannot do one. What the planner knows
    of a user is old or nothing: for a question of thousands of words, and for memories that came
    after the last ANALYZE, it would expect one row, choose nested loops, and take minutes.
    """
    lexemes = func.unnest(func.to_tsvector(CONFIG, bindparam("query", type_=Text))).table_valued(
        column("lexeme", Text), name="lexemes"
    )
    asked = _materialized(
        select(collate(lexemes.c.lexeme, "C").label("lexeme")).distinct(), "asked"
    )
    turns = _materialized(
        select(memories.c.position, memories.c.length).where(in_scope(memories)), "turns"
    )
    scope = _materialized(
        select(
            cast(func.count(), Double).label("size"),
            cast(func.greatest(func.avg(turns.c.length), 1), Double).label("mean_length"),
        ),
        "scope",
    )
    posting = _looked_up(
        select(
            memory_lexemes.c.position,
            memory_lexemes.c.frequency,
            memory_lexemes.c.date_frequency,
        ).where(in_scope(memory_lexemes), memory_lexemes.c.lexeme == asked.c.lexeme),
        "posting",
    )
    spread = values(
        column("shift", BigInteger), column("weight", Double), name="spread", literal_binds=True
    ).data([(shift, weight) for shift, weight in RANKING.spread])
    own_date = case((spread.c.shift == 0, posting.c.date_frequency), else_=0)
    place = posting.c.position + spread.c.shift
    touched = (
        select(
            asked.c.lexeme,
            place.label("position"),
            func.sum(posting.c.frequency * cast(spread.c.weight, Double) + own_date).label(
                "weight"
            ),
        )
        .select_from(asked.join(posting, true()).join(spread, true()))
        .where(or_(posting.c.frequency > 0, spread.c.shift == 0))
        .group_by(asked.c.lexeme, place)
        .cte("touched")
    )
    matched = _materialized(
        select(touched.c.lexeme, touched.c.position, touched.c.weight, turns.c.length)
        .select_from(touched.join(turns, turns.c.position == touched.c.position, full=True))
        # Both sides are there; said so that the planner does not see it and undo the FULL join.
        .where(func.coalesce(touched.c.weight, 0) > 0, func.coalesce(turns.c.length, -1) >= 0),
        "matched",
    )
    found_in = cast(func.count(), Double)
    rarity = (
        select(
            matched.c.lexeme,
            func.ln(1 + (scope.c.size - found_in + 0.5) / (found_in + 0.5)).label("idf"),
        )
        .select_from(matched.join(scope, true()))
        .group_by(matched.c.lexeme, scope.c.size)
        .cte("rarity")
    )
    k1, b = RANKING.k1, RANKING.b
    norm = k1 * (1 - b + b * matched.c.length / scope.c.mean_length)
    score = func.sum(rarity.c.idf * matched.c.weight * (k1 + 1) / (matched.c.weight + norm))
    return _materialized(
        select(matched.c.position, cast(score, Double).label("score"))
        .select_from(
            matched.join(rarity, rarity.c.lexeme == matched.c.lexeme, full=True).join(scope, true())
        )
        .group_by(matched.c.position),
        "lexical",
    )


def _candidates(lexical: CTE | None, nearest: CTE | None) -> Select[Any]:
    """The best of each leg, with the scores that the legs know: position, lexical, cosine."""
    most = _at_least(RANKING.candidates)
    if lexical is None:
        assert nearest is not None
        return select(nearest.c.position, literal(0.0, Double).label("lexical"), nearest.c.cosine)
    if nearest is None:
        return (
            select(
                lexical.c.position,
                lexical.c.score.label("lexical"),
                cast(null(), Double).label("cosine"),
            )
            .order_by(lexical.c.score.desc(), lexical.c.position.desc())
            .limit(most)
        )
    either = (
        select(
            func.coalesce(lexical.c.position, nearest.c.position).label("position"),
            func.coalesce(lexical.c.score, 0.0).label("lexical"),
            nearest.c.cosine,
            func.row_number()
            .over(order_by=(lexical.c.score.desc().nulls_last(), lexical.c.position.desc()))
            .label("place"),
        )
        .select_from(lexical.join(nearest, nearest.c.position == lexical.c.position, full=True))
        .subquery("either")
    )
    return select(either.c.position, either.c.lexical, either.c.cosine).where(
        or_(either.c.place <= most, either.c.cosine.is_not(None))
    )


def _fused(found: Select[Any], question: CTE, shape: Shape) -> Any:
    """Each candidate with both scores, and both scaled over the candidates and added."""
    candidates = found.cte("candidates")
    source: Any = candidates
    cosine: Any = candidates.c.cosine
    if shape.lexical and shape.vector:
        vectors = memory_vectors.alias("vectors")
        vector = vectors.c.large if shape.large else vectors.c.embedding
        distance = vector.op("<=>", return_type=Double)(_asked(question))
        other = _looked_up(
            select((1 - distance).label("cosine")).where(
                in_scope(vectors),
                vectors.c.model_id == _model(shape),
                vectors.c.position == candidates.c.position,
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
    return select(
        scored.c.position, scored.c.lexical, scored.c.cosine, cast(score, Double).label("score")
    ).subquery("fused")


def _looked_up(statement: Select[Any], name: str) -> LateralFromClause:
    """Rows found anew for each row before them.

    OFFSET 0 keeps the planner from joining freely: its estimates here are guesses, and it would
    read everything a user has to find a few rows.
    """
    return statement.offset(_number(0)).lateral(name)


def _materialized(statement: Select[Any], name: str) -> CTE:
    return statement.cte(name).prefix_with("MATERIALIZED")
