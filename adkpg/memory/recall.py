"""The statement that recalls: both legs and their fusion in one, over the scopes asked for. No I/O.

Lexical leg: the question's words, or-ed, against the postings (``memory_lexemes``). A posting
counts for the memory it stands in and, by weight, for its neighbours, whose positions are next to
it; so neighbours are found without being stored, and a deleted turn's words are gone everywhere.
What has expired or was superseded is dead: it is not found, nor are its words.

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
    CompoundSelect,
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
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    true,
    union_all,
    values,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.selectable import LateralFromClause

from adkpg.memory.ranking import RANKING
from adkpg.memory.statements import APP_NAME, conditions, config_of, stored_columns
from adkpg.memory.vector_statements import select_model
from adkpg.tables import (
    app_settings,
    approximate_scopes,
    memories,
    memory_lexemes,
    memory_vectors,
)

_TOP_K = bindparam("top_k", type_=Integer)
_UNSAID, _ASKS = 0, 2  # values of memories.speech
_USER_IDS = bindparam("user_ids", type_=ARRAY(Text))


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

    Parameters: app_name, user_ids (the scopes), top_k; query, script and config with the lexical
    leg; query_vector (text), model, dimensions and min_cosine with the vector leg;
    exact_user_ids and approximate_user_ids if some scopes are answered by the HNSW index; those of
    the filters; half_life_s with a decay; nearest, with both legs: how many of the nearest are hits
    whatever their words, if their cosine is `min_cosine` at least.

    Returns the memory's columns (all null in the one row of a search that found nothing),
    position, score, lexical, cosine, recency, importance_factor and lexemes; and in every row
    ``approximate``, the scopes that the HNSW index holds, and ``active_model``, the app's, which
    is null if it has none yet. Vectors of a model that is not active are not compared.
    """
    question = _question()
    model = _model() if shape.vector else None
    eligible = _eligible(shape.filters) if shape.filters else None
    dead = _materialized(
        select(memories.c.position).where(
            _in_scopes(memories),
            memories.c.expires_at.is_not(None),
            memories.c.expires_at <= func.now(),
        ),
        "dead",
    )
    nearest = _nearest(shape, question, model, dead, eligible) if model is not None else None
    asked = _words() if shape.lexical else None
    scope = _scope(dead)
    matched = _matched(asked, dead, scope) if asked is not None else None
    lexical = None
    if asked is not None and matched is not None:
        lexical = _scored(matched, asked, scope, eligible)
    fused = _fused(_candidates(lexical, nearest), question, model, shape)
    best = _best(fused, _relevant(fused, scope, shape), shape)
    words: Any = cast(null(), ARRAY(Text))
    if shape.explain and asked is not None and matched is not None:
        words = (
            select(func.array_agg(asked.c.lexeme))
            .select_from(matched.join(asked, asked.c.word == matched.c.word))
            .where(matched.c.position == best.c.position)
            .scalar_subquery()
        )
    info = _info(model)
    return (
        select(best, words.label("lexemes"), *info.c)
        .select_from(info.outerjoin(best, true()))
        .order_by(best.c.score.desc(), best.c.timestamp.desc(), best.c.position.desc())
    )


def _scope(dead: CTE) -> CTE:
    """How many live memories there are, and how long they are; one row."""
    return _materialized(
        select(
            cast(func.count(), Double).label("size"),
            cast(func.greatest(func.avg(memories.c.length), 1), Double).label("mean_length"),
        ).where(_in_scopes(memories), memories.c.position.not_in(select(dead.c.position))),
        "scope",
    )


def _relevant(fused: Any, scope: CTE, shape: Shape) -> ColumnElement[bool]:
    """Whether a candidate is a hit: what speaks for it is more than chance has among so many.

    The best of n unrelated memories comes the nearer the more there are, about as ln n. The few
    nearest are hits above the floor alone: a paraphrase shares no word.
    """
    floor = bindparam("min_cosine", type_=Double)
    near: ColumnElement[bool] = fused.c.cosine >= floor
    if not shape.lexical:
        return near
    chance = func.ln(func.greatest(select(scope.c.size).scalar_subquery(), 1))
    if not shape.vector:
        covered: ColumnElement[bool] = fused.c.coverage >= RANKING.relevance_of_words * chance
        return covered
    meaning = (fused.c.cosine - floor) / func.nullif(1 - floor, 0, type_=Double)
    evidence = func.greatest(func.coalesce(meaning, 0.0), 0.0) + fused.c.coverage
    return or_(
        and_(evidence > 0, evidence >= RANKING.relevance * chance),
        and_(
            near,
            fused.c.nearness <= bindparam("nearest", type_=Integer),
        ),
    )


def _in_scopes(table: Any) -> ColumnElement[bool]:
    return and_(table.c.app_name == APP_NAME, table.c.user_id == func.any(_USER_IDS))


def _info(model: CTE | None) -> CTE:
    """What the caller must know for its next search; one row."""
    if model is None:
        nothing = cast(null(), ARRAY(Text))
        return select(nothing.label("approximate"), null().label("active_model")).cte("info")
    held = (
        select(func.array_agg(approximate_scopes.c.user_id))
        .where(
            _in_scopes(approximate_scopes),
            approximate_scopes.c.model_id == model.c.own,
            approximate_scopes.c.ready,
        )
        .correlate(model)
        .scalar_subquery()
    )
    return select(held.label("approximate"), model.c.active.label("active_model")).cte("info")


def _model() -> CTE:
    """The embedder's model, the app's active one, and the one to compare: null if they differ."""
    own = select_model().scalar_subquery()
    active = (
        select(app_settings.c.model_id).where(app_settings.c.app_name == APP_NAME).scalar_subquery()
    )
    both = select(own.label("own"), active.label("active")).subquery("both")
    compared = case((func.coalesce(both.c.active, both.c.own) == both.c.own, both.c.own))
    return _materialized(select(both.c.own, both.c.active, compared.label("compared")), "model")


def _compared(model: CTE) -> ColumnElement[Any]:
    return select(model.c.compared).scalar_subquery()


def _eligible(asked: frozenset[str]) -> CTE:
    return _materialized(
        select(memories.c.position).where(_in_scopes(memories), *conditions(asked)), "eligible"
    )


def _within(position: ColumnElement[Any], eligible: CTE | None) -> list[ColumnElement[bool]]:
    return [] if eligible is None else [_among(position, eligible)]


def _best(fused: Any, match: ColumnElement[bool], shape: Shape) -> Any:
    """The memories to return, with what changes their score besides the question."""
    memory = _looked_up(
        select(
            *stored_columns(),
            cast(func.extract("epoch", func.now() - memories.c.timestamp), Double).label("age_s"),
        ).where(_in_scopes(memories), memories.c.position == fused.c.position),
        "memory",
    )
    recency: Any = literal(1.0, Double)
    if shape.decay:
        half_life_s = bindparam("half_life_s", type_=Double)
        # Beyond 1,000 half-lives a power underflows, which Postgres takes for an error.
        recency = func.power(
            literal(0.5, Double), func.least(func.greatest(memory.c.age_s, 0) / half_life_s, 1000)
        )
    low, high = RANKING.importance_factors
    factor = low + cast(memory.c.importance, Double) * (high - low)
    score = fused.c.score * recency * factor
    return (
        select(
            *(each for each in memory.c if each.key != "age_s"),
            fused.c.position,
            score.label("score"),
            fused.c.lexical,
            fused.c.cosine,
            recency.label("recency"),
            factor.label("importance_factor"),
        )
        .select_from(fused.join(memory, true()))
        .where(match)
        .order_by(score.desc(), memory.c.timestamp.desc(), fused.c.position.desc())
        .limit(_TOP_K)
        .subquery("best")
    )


def _question() -> CTE:
    # Cast once: in place, the cast would be evaluated for every row once the plan is generic.
    vector = cast(cast(bindparam("query_vector", type_=Text), Text), HALFVEC())
    return _materialized(select(vector.label("vector")), "question")


def _asked(question: CTE) -> ColumnElement[Any]:
    return select(question.c.vector).scalar_subquery()


def _number(number: int) -> ColumnElement[int]:
    """A number in the statement's own text, where the planner sees it."""
    return literal_column(str(int(number)), Integer)


def _at_least(number: int) -> ColumnElement[int]:
    """A number, or as many memories as are asked for if those are more."""
    return func.greatest(_number(number), _TOP_K)


def _nearest(shape: Shape, question: CTE, model: CTE, dead: CTE, eligible: CTE | None) -> CTE:
    """The nearest memories by cosine, at most as many as there are candidates."""
    if shape.approximate is None:
        return _materialized(
            _exact(shape, question, dead, eligible, _in_scopes(memory_vectors), _compared(model)),
            "nearest",
        )
    number, dimensions = shape.approximate
    vectors = memory_vectors
    column_ = vectors.c.large if shape.large else vectors.c.embedding
    # The expression and the predicate of the index, and numbers where the planner sees them.
    distance = cast(column_, HALFVEC(dimensions)).op("<=>", return_type=Double)(_asked(question))
    indexed = (
        select(vectors.c.position, (1 - distance).label("cosine"))
        .where(
            _in_scope_of(vectors, "approximate_user_ids"),
            vectors.c.model_id == _number(number),
            vectors.c.approximate,
            _compared(model) == _number(number),
            vectors.c.position.not_in(select(dead.c.position)),
            *_within(vectors.c.position, eligible),
        )
        .order_by(distance)
        .limit(_number(RANKING.candidates))
        .subquery("indexed")
    )
    exact = _exact(
        shape,
        question,
        dead,
        eligible,
        _in_scope_of(vectors, "exact_user_ids"),
        _compared(model),
    ).subquery("exact")
    both = union_all(
        select(indexed.c.position, indexed.c.cosine), select(exact.c.position, exact.c.cosine)
    ).subquery("both_ways")
    return _materialized(
        select(both.c.position, both.c.cosine)
        .order_by(both.c.cosine.desc())
        .limit(_at_least(RANKING.candidates)),
        "nearest",
    )


def _in_scope_of(table: Any, name: str) -> ColumnElement[bool]:
    return and_(
        table.c.app_name == APP_NAME,
        table.c.user_id == func.any(bindparam(name, type_=ARRAY(Text))),
    )


def _exact(
    shape: Shape,
    question: CTE,
    dead: CTE,
    eligible: CTE | None,
    scope: ColumnElement[bool],
    model_id: ColumnElement[Any],
) -> Select[Any]:
    vectors = memory_vectors
    mine = and_(
        scope,
        vectors.c.model_id == model_id,
        vectors.c.position.not_in(select(dead.c.position)),
        *_within(vectors.c.position, eligible),
    )
    vector: ColumnElement[Any] = vectors.c.large if shape.large else vectors.c.embedding
    source: Any = vectors
    if shape.large:
        bits = select(cast(func.binary_quantize(question.c.vector), vectors.c.bits.type))
        coarse = _materialized(
            select(vectors.c.position)
            .where(mine)
            .order_by(vectors.c.bits.op("<~>")(bits.scalar_subquery()))
            .limit(_at_least(RANKING.coarse)),
            "coarse",
        )
        source = coarse.join(vectors, vectors.c.position == coarse.c.position)
        mine = and_(scope, vectors.c.model_id == model_id)
    distance = _distance(vector, question).label("distance")
    best = (
        select(vectors.c.position, distance)
        .select_from(source)
        .where(mine)
        .order_by(distance)
        .limit(_at_least(RANKING.candidates))
        .subquery("best_vectors")
    )
    return select(best.c.position, (-best.c.distance).label("cosine"))


def _distance(vector: ColumnElement[Any], question: CTE) -> Any:
    """The negative inner product, which of unit vectors is the negative cosine, and quicker."""
    return vector.op("<#>", return_type=Double)(_asked(question))


def _words() -> CTE:
    """The question's words, numbered: a number is grouped by in less time than a text."""
    vector = func.to_tsvector(
        config_of(bindparam("script", type_=Text)), bindparam("query", type_=Text)
    )
    lexemes = func.unnest(vector).table_valued(column("lexeme", Text), name="lexemes")
    return _materialized(
        select(
            collate(lexemes.c.lexeme, "C").label("lexeme"),
            func.row_number().over().label("word"),
        ),
        "asked",
    )


def _matched(asked: CTE, dead: CTE, scope: CTE) -> CTE:
    """Every live memory that a word of the question touches: word, position, weight, length.

    What the planner knows of a user is old or nothing: for a question of thousands of words, and
    for memories that came after the last ANALYZE, it would expect one row, choose nested loops, and
    take minutes. So joins are FULL where they need not be, since a nested loop cannot do one, and
    a place is looked up in a hashed subplan (`_among`).
    """
    mine = and_(_in_scopes(memories), memories.c.position.not_in(select(dead.c.position)))
    posting = _looked_up(
        select(
            memory_lexemes.c.position,
            memory_lexemes.c.frequency,
            memory_lexemes.c.date_frequency,
        ).where(
            _in_scopes(memory_lexemes),
            memory_lexemes.c.lexeme == asked.c.lexeme,
            memory_lexemes.c.position.not_in(select(dead.c.position)),
        ),
        "posting",
    )
    postings = _materialized(
        select(asked.c.word, *posting.c).select_from(asked.join(posting, true())), "postings"
    )
    words = _counted(postings, scope)
    leading = _touched(postings, words, leads=True, places=None)
    following = _touched(postings, words, leads=False, places=leading)
    touched = _materialized(union_all(select(leading), select(following)), "touched")
    turns = _materialized(
        select(memories.c.position, memories.c.length, memories.c.speech).where(
            mine, _among(memories.c.position, leading)
        ),
        "turns",
    )
    asking = _materialized(select(turns.c.position).where(turns.c.speech == _ASKS), "asking")
    answered = case((_among(touched.c.position - 1, asking), touched.c.before), else_=0)
    return _materialized(
        select(
            touched.c.word,
            touched.c.position,
            (touched.c.weight + RANKING.answer * answered).label("weight"),
            turns.c.length,
            turns.c.speech,
            words.c.leads,
            words.c.touches,
            *scope.c,
        )
        .select_from(
            touched.join(turns, turns.c.position == touched.c.position, full=True)
            .join(words, words.c.word == touched.c.word, full=True)
            .join(scope, true())
        )
        # All sides are there; said so that the planner does not see it and undo the FULL joins.
        .where(func.coalesce(touched.c.weight, 0) > 0, func.coalesce(turns.c.length, -1) >= 0),
        "matched",
    )


def _counted(postings: CTE, scope: CTE) -> CTE:
    """The question's words that occur: how rare they are, and whether they lead.

    A word of thousands of memories tells little of any, and spreading it costs most. So the rarest
    words, up to a number of postings, lead to the memories; the others count for those alone.
    ``touches`` is how many memories a word would touch, if its occurrences fell independently of
    each other.
    """
    counts = (
        select(postings.c.word, cast(func.count(), Double).label("found_in"))
        .group_by(postings.c.word)
        .subquery("counts")
    )
    share = func.least(counts.c.found_in / func.greatest(scope.c.size, 1), 1)
    touches = scope.c.size * (1 - func.power(1 - share, len(RANKING.spread)))
    rarest_first = (counts.c.found_in, counts.c.word)
    return _materialized(
        select(
            counts.c.word,
            touches.label("touches"),
            or_(
                func.sum(counts.c.found_in).over(order_by=rarest_first)
                <= _number(RANKING.leading_postings),
                func.row_number().over(order_by=rarest_first) == 1,
            ).label("leads"),
        ).select_from(counts.join(scope, true())),
        "words",
    )


def _touched(postings: CTE, words: CTE, *, leads: bool, places: CTE | None) -> CTE:
    """What some of the words count for each memory, their own and their neighbours'.

    ``before`` is how often the turn before says them: for an answer they count more.
    """
    spread = values(
        column("shift", BigInteger), column("weight", Double), name="spread", literal_binds=True
    ).data([(shift, weight) for shift, weight in RANKING.spread])
    own_date = case((spread.c.shift == 0, postings.c.date_frequency), else_=0)
    place = postings.c.position + spread.c.shift
    chosen = select(words.c.word).where(words.c.leads if leads else ~words.c.leads)
    weight = func.sum(postings.c.frequency * cast(spread.c.weight, Double) + own_date)
    before = func.sum(case((spread.c.shift == 1, postings.c.frequency), else_=0))
    return _materialized(
        select(
            postings.c.word,
            place.label("position"),
            weight.label("weight"),
            before.label("before"),
        )
        .select_from(postings.join(spread, true()))
        .where(
            postings.c.word.in_(chosen).is_(true()),
            or_(postings.c.frequency > 0, spread.c.shift == 0),
            *([] if places is None else [_among(place, places)]),
        )
        .group_by(postings.c.word, place),
        "leading" if leads else "following",
    )


def _among(position: ColumnElement[Any], rows: CTE) -> ColumnElement[bool]:
    """Whether a place is among some, looked up in a hash table: no join, so no nested loop."""
    return position.in_(select(rows.c.position)).is_(true())


def _scored(matched: CTE, asked: CTE, scope: CTE, eligible: CTE | None) -> CTE:
    """Of every memory that leading words touch: its BM25F score, and the coverage of the question.

    Coverage is the share of the question's words that it holds, weighed by their rarity; of long
    questions a few telling words are enough.
    """
    touched = case((matched.c.leads, cast(func.count(), Double)), else_=matched.c.touches)
    rarity = _materialized(
        select(
            matched.c.word,
            func.ln(1 + (matched.c.size - touched + 0.5) / (touched + 0.5)).label("idf"),
        ).group_by(matched.c.word, matched.c.size, matched.c.leads, matched.c.touches),
        "rarity",
    )
    k1, b = RANKING.k1, RANKING.b
    norm = k1 * (1 - b + b * matched.c.length / matched.c.mean_length)
    speech, length = func.max(matched.c.speech), cast(func.max(matched.c.length), Double)
    standing = case(
        (speech == _UNSAID, 1.0),
        else_=length
        / (length + RANKING.thin)
        * case((speech == _ASKS, RANKING.question), else_=1.0),
    )
    score = standing * func.sum(
        rarity.c.idf * matched.c.weight * (k1 + 1) / (matched.c.weight + norm)
    )
    unknown = func.ln(1 + (select(scope.c.size).scalar_subquery() + 0.5) / 0.5)
    number = select(func.count()).select_from(asked).scalar_subquery()
    whole = select(
        func.least(
            func.sum(rarity.c.idf) + (number - func.count()) * unknown, RANKING.telling * unknown
        )
    ).scalar_subquery()
    coverage = func.sum(rarity.c.idf * func.least(matched.c.weight, 1)) / whole
    return _materialized(
        select(
            matched.c.position,
            cast(score, Double).label("score"),
            cast(coverage, Double).label("coverage"),
        )
        .select_from(matched.join(rarity, rarity.c.word == matched.c.word, full=True))
        .where(*_within(matched.c.position, eligible))
        .group_by(matched.c.position),
        "lexical",
    )


def _candidates(lexical: CTE | None, nearest: CTE | None) -> Select[Any]:
    """The best of each leg, with the scores that the legs know: position, lexical, cosine."""
    most = _at_least(RANKING.candidates)
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
    top = _materialized(
        select(lexical.c.position, lexical.c.score, lexical.c.coverage)
        .order_by(lexical.c.score.desc(), lexical.c.position.desc())
        .limit(most),
        "top",
    )
    rest = select(lexical.c.position, lexical.c.score, lexical.c.coverage).where(
        _among(lexical.c.position, nearest), ~_among(lexical.c.position, top)
    )
    worded = _materialized(union_all(select(top), rest), "worded")
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
        other = _looked_up(
            select((-_distance(vector, question)).label("cosine")).where(
                _in_scopes(vectors),
                vectors.c.model_id == _compared(model),
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


def _looked_up(statement: Select[Any], name: str) -> LateralFromClause:
    """Rows found anew for each row before them.

    OFFSET 0 keeps the planner from joining freely: its estimates here are guesses, and it would
    read everything a user has to find a few rows.
    """
    return statement.offset(_number(0)).lateral(name)


def _materialized(statement: Select[Any] | CompoundSelect[Any], name: str) -> CTE:
    return statement.cte(name).prefix_with("MATERIALIZED")
