"""The statement that searches: both ways and their fusion in one, over the scopes asked for.

Words (`lexical`) and vectors (`vector`) put memories forward, each is scored on both
(`adkpg.memory.search.ranking`), and what is no more than chance is left out. No I/O.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    ColumnElement,
    Double,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    false,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP, aggregate_order_by, array

from adkpg.memory.search import lexical_steps as by_words
from adkpg.memory.search import vector_steps as by_vectors
from adkpg.memory.search.counts import CountParameters
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
    outside,
    within,
)
from adkpg.memory.vectors.passages import PASSAGE_TOKENS
from adkpg.sql import (
    STORED,
    FilterParameters,
    Statement,
    conditions,
    given_rows,
    in_scope,
    live,
    stored_columns,
)
from adkpg.tables import approximate_scopes, memories, memory_jobs, memory_provenance

_HALF_LIFE_S = bindparam("half_life_s", type_=Double)


@dataclass(frozen=True)
class Shape:
    """Which search to build. There are few: what costs nothing is a parameter.

    Attributes:
      lexical: By words.
      vector: By vectors.
      large: The model's vectors have more than 1,024 dimensions.
      approximate: The model's number and dimensions, to answer by vectors for some scopes from its
        HNSW index instead of exactly; not with filters.
      filters: The conditions that memories must meet, as `SearchFilters.shape` names them.
      explain: With the words that matched.
      dated: The question names a time.
      dates: One of its words may be of a date, as memories have it written out.
      said_by: The question says whose words it asks for.
      inactive: Vectors of the embedder's model are compared also if the app has another.
      crowded: By vectors alone: all passages are looked at if the nearest are of too few memories.
        Without it a search only tells that it has to be asked so.
      apart: Of one scope of several, which are on several nodes: all of its candidates, and what
        their scores are made of, for `merging.merged`.
    """

    lexical: bool
    vector: bool
    large: bool = False
    approximate: tuple[int, int] | None = None
    filters: frozenset[str] = frozenset()
    explain: bool = False
    dated: bool = False
    dates: bool = False
    said_by: bool = False
    inactive: bool = False
    crowded: bool = False
    apart: bool = False


class SearchParameters(FilterParameters, CountParameters):
    """Parameters of `search`; each shape reads its own.

    Attributes:
      user_id, also_user_id: The scopes; twice the same if it is one.
      invocation_id: The agent's run whose memories are left out.
      half_life_s: After this time a score counts half; null never fades.
      query, script, config: By words.
      query_vector, model, dimensions, min_cosine: By vectors, the first as `records.vector_text`
        writes it.
      exact_user_ids, approximate_user_ids: Which scopes are answered from the HNSW index.
      nearest, near: By both: how many of the nearest are hits whatever their words, if their
        cosine, scaled from `min_cosine` to 1, is `near` at least.
      best_hits, leeway: By both: how many of the best are hits with little else, if their cosine is
        not further below `min_cosine` than this, scaled likewise.
      rising: By both: how fast the bar rises with each ten hits, where turns are long.
      model_floor: The embedder's own floor, if it does not know the question's language; else null.
      wordiness: See `cues.Cues`.
      since, until: The times that the question names, in parallel; the ends are excluded.
      first: Whether it asks about the first conversation.
      by_user: Whether it asks for the user's words, not the others'.
    """

    app_name: str
    user_id: str
    also_user_id: str
    top_k: int
    invocation_id: str | None
    half_life_s: float | None
    query: str
    script: str | None
    config: str
    query_vector: str
    model: str
    dimensions: int
    min_cosine: float
    exact_user_ids: list[str]
    approximate_user_ids: list[str]
    nearest: int
    near: float
    best_hits: int
    leeway: float
    rising: float
    model_floor: float | None
    wordiness: float
    since: list[datetime]
    until: list[datetime]
    first: bool
    by_user: bool


class NeighbourParameters(TypedDict):
    """Parameters of `select_neighbours`."""

    app_name: str
    user_id: str
    also_user_id: str
    invocation_id: str | None
    positions: list[int]
    reach: int


@cache
def select_neighbours() -> Statement[NeighbourParameters]:
    """Reads the memories around some that a search may find, by position.

    Returns the memories' columns and ``of_position``, the one that each is next to.
    """
    asked = given_rows(positions=BigInteger)
    reach = bindparam("reach", type_=BigInteger)
    running = bindparam("invocation_id", type_=Text)
    return Statement(
        select(*stored_columns(cut=True), asked.c.positions.label("of_position"))
        .select_from(
            asked.join(
                memories,
                and_(
                    in_scopes(memories),
                    memories.c.position >= asked.c.positions - reach,
                    memories.c.position <= asked.c.positions + reach,
                    memories.c.position != asked.c.positions,
                ),
            )
        )
        .where(live(), or_(running.is_(None), memories.c.invocation_id.is_distinct_from(running)))
        .order_by(asked.c.positions, memories.c.position)
    )


@cache
def search(shape: Shape) -> Statement[SearchParameters]:
    """Finds the memories that answer a question best, the best first; one row at least.

    Returns the memory's columns (all null in the one row of a search that found nothing), whether
    its content is cut, position, score, cosine, recency, importance_factor and lexemes; lexical,
    dated and said_by, which are null by vectors alone; ``drawn``, the facts drawn from it, each
    with its heir, which superseded it; by vectors also ``parts``, its passages, each as start, end
    and cosine, both null or empty if there are none; and in every row ``approximate``,
    the scopes that the HNSW index holds, ``active_model``, the app's, which is null if it has none
    yet, and ``waiting``, whether some of the memories have no vector since no worker comes. Of a
    search by words each row has size, shared and mean_length, as counted or as given; of one by
    vectors alone ``crowded``, if it may have to be asked with `Shape.crowded`. Vectors of a model
    that is not active are not compared.
    """
    question = by_vectors.question_vector()
    model = by_vectors.compared_model(inactive=shape.inactive) if shape.vector else None
    eligible = _eligible(shape.filters) if shape.filters else None
    dead = dead_places()
    scope = by_words.scope_of(dead)
    reach = _reach()
    nearest = None
    if model is not None:
        nearest = by_vectors.nearest(
            question,
            model,
            dead,
            eligible,
            large=shape.large,
            approximate=shape.approximate,
            enough=_enough_by_vectors(reach, shape),
            crowded=shape.crowded,
        )
    asked = by_words.words() if shape.lexical else None
    matched = rarity = lexical = dated = None
    if asked is not None:
        dates = by_words.in_dates(asked) if shape.dates else None
        matched, rarity = by_words.matched(asked, scope, dead, eligible, dates)
        lexical = by_words.scored(matched, asked, scope)
        if shape.dated:
            dated = _dated(dead, eligible, scope, apart=shape.apart)
    by_cosine = None if nearest is None else nearest.memories
    scored = _scored(_candidates(lexical, by_cosine, dated), question, model, dated, shape)
    info = _info(model)
    first: Any = info
    told: list[Any] = [*info.c]
    if shape.lexical and not shape.apart:  # else the totals tell
        first, told = info.join(scope, true()), [*told, *_sizes(scope)]
    words: list[Any] = [
        cast(null(), ARRAY(Text)).label("lexemes"),
        cast(null(), ARRAY(Double)).label("idfs"),
    ]
    source: Any
    if shape.apart:
        source = best = _rated(scored)
        if asked is not None and matched is not None and rarity is not None:
            parted = _parted(matched, best)
            source = best.outerjoin(parted, parted.c.position == best.c.position)
            words = [column for column in parted.c if column.name != "position"]
            totals = _totals(asked, rarity, scope, dated)
            first, told = info.join(totals, true()), [*told, *totals.c]
    else:
        measures = _measures(scored, scope, shape) if shape.lexical else None
        fused = _fused(scored, measures, shape)
        source = best = _best(fused, measures, _relevant(fused, measures, shape), reach)
        if shape.explain and asked is not None and matched is not None:
            said = _said(matched, asked, best)
            words = [said.c.lexemes, said.c.idfs]
            source = best.outerjoin(said, said.c.position == best.c.position)
    # Only now what takes time: of all that is relevant few are returned.
    stored = {column.name for column in STORED}
    found = select(
        *stored_columns(best, cut=True),
        *(column for column in best.c if column.name not in stored),
        *words,
        _drawn(best).label("drawn"),
        *told,
    ).select_from(first.outerjoin(source, true()))
    if model is not None and nearest is not None:
        passages = by_vectors.passages_at(best.c.position, question, model, large=shape.large)
        # Of as many characters as a passage has tokens: it has no passages.
        long = func.length(best.c.body) > number(PASSAGE_TOKENS)
        found = found.add_columns(case((long, passages)).label("parts"))
        if nearest.crowded is not None:
            found = found.add_columns(nearest.crowded.label("crowded"))
    if not shape.apart:
        found = found.order_by(best.c.score.desc(), best.c.timestamp.desc(), best.c.position.desc())
    return Statement(found, long=True)


def _drawn(best: CTE) -> ColumnElement[Any]:
    """The facts drawn from a memory of the user's, each with its heir; null or empty without."""
    fact = memories.alias("fact")
    some = select(true()).select_from(memory_provenance).where(in_scope(memory_provenance)).exists()
    pair = array([fact.c.memory_id, fact.c.superseded_by])
    own = (
        select(pair)
        .select_from(
            memory_provenance.join(
                fact,
                and_(
                    fact.c.memory_id == memory_provenance.c.memory_id,
                    fact.c.app_name == memory_provenance.c.app_name,
                    fact.c.user_id == memory_provenance.c.user_id,
                ),
            )
        )
        .where(in_scope(memory_provenance), memory_provenance.c.origin_id == best.c.memory_id)
        .correlate(best)
        .scalar_subquery()
    )
    return case((and_(some, best.c.position >= number(0)), func.array(own, type_=ARRAY(Text))))


def _relevant(fused: Any, measures: CTE | None, shape: Shape) -> ColumnElement[bool]:
    """Whether a candidate is a hit: more speaks for it than chance has among all memories.

    The best of n unrelated memories comes the nearer the more there are, about as ln n; of a user's
    own and of the app's, each for itself: a person's few are not hidden by many documents. The very
    nearest are hits with less, since a paraphrase shares no word; so are the best few, and more of
    them if nothing is asked but something told. By words alone the best few are hits too, or a name
    that nobody said would hide what is about the rest of a question. What is of a time that is
    asked for is a hit.
    """
    floor = bindparam("min_cosine", type_=Double)
    near: ColumnElement[bool] = fused.c.cosine >= floor
    if measures is None:
        return near
    return or_(_told(fused, measures, shape, floor, near), fused.c.dated > number(0))


def _told(
    fused: Any,
    measures: CTE,
    shape: Shape,
    floor: ColumnElement[float],
    near: ColumnElement[bool],
) -> ColumnElement[bool]:
    """Whether words and cosine tell that a candidate is a hit."""
    known = measures.c
    chance = case((fused.c.position < number(0), known.chance_of_shared), else_=known.chance)
    if not shape.vector:
        best_of_own: ColumnElement[bool] = and_(
            fused.c.position >= number(0),  # of many documents any word is said in some
            fused.c.place <= number(RANKING.best_of_words),
            fused.c.coverage >= RANKING.share_of_best * known.covered,
        )
        return or_(fused.c.coverage >= chance, best_of_own)
    meaning = (fused.c.cosine - floor) / func.nullif(1 - floor, 0, type_=Double)
    noise = func.nullif(1 - known.noise, 0, type_=Double)
    told = func.greatest(func.coalesce((fused.c.cosine - known.noise) / noise, 0.0), 0.0)
    evidence = told + fused.c.coverage / by_words.WORDINESS
    after = cast(func.greatest(fused.c.place - number(RANKING.sure), 0), Double)
    return or_(
        and_(
            or_(fused.c.lexical > number(0), fused.c.cosine >= known.noise),
            evidence >= chance + known.rise * after / 10,
        ),
        and_(
            fused.c.place <= bindparam("best_hits", type_=Integer),
            fused.c.cosine >= floor - bindparam("leeway", type_=Double) * (1 - floor),
        ),
        and_(
            near,
            meaning >= bindparam("near", type_=Double),
            fused.c.nearness <= bindparam("nearest", type_=Integer),
        ),
    )


def _info(model: CTE | None) -> CTE:
    """Facts that the caller must know for its next search; one row."""
    if model is None:
        nothing: list[Any] = [cast(null(), ARRAY(Text)), null(), false()]
        names = ("approximate", "active_model", "waiting")
        return materialized(
            select(*(each.label(name) for each, name in zip(nothing, names, strict=True))), "info"
        )
    held = (
        select(approximate_scopes.c.user_id)
        .where(
            in_scopes(approximate_scopes),
            approximate_scopes.c.model_id == model.c.own,
            approximate_scopes.c.ready,
        )
        .correlate(model)
        .scalar_subquery()
    )
    # Made once, not for each row that is returned.
    return materialized(
        select(
            func.array(held, type_=ARRAY(Text)).label("approximate"),
            model.c.active.label("active_model"),
            _waiting().label("waiting"),
        ),
        "info",
    )


def _waiting() -> ColumnElement[bool]:
    """Whether memories have waited for a minute, and no worker has come yet."""
    return (
        select(true())
        .select_from(memory_jobs)
        .where(
            in_scopes(memory_jobs),
            memory_jobs.c.task == literal("embed", Text),
            memory_jobs.c.attempts == number(0),
            memory_jobs.c.error.is_(None),
            memory_jobs.c.created_at < func.now() - literal_column("interval '1 minute'"),
        )
        .exists()
    )


def _eligible(asked: frozenset[str]) -> CTE:
    return materialized(
        select(memories.c.position).where(in_scopes(memories), *conditions(asked)), "eligible"
    )


def _best(fused: Any, measures: CTE | None, match: ColumnElement[bool], reach: CTE) -> CTE:
    """The memories to return, with what changes their score besides the question."""
    source = fused if measures is None else fused.join(measures, true())
    kept = (
        fused.c.position,
        fused.c.lexical,
        fused.c.cosine,
        fused.c.score,
        fused.c.dated,
        fused.c.said_by,
    )
    relevant = materialized(select(*kept).select_from(source).where(match), "relevant")
    rated = looked_up(_rated_memory().where(at_place(memories, relevant.c.position)), "rated")
    score = (relevant.c.score * rated.c.recency * rated.c.importance_factor).label("score")
    return (
        select(
            relevant.c.position,
            score,
            relevant.c.lexical,
            relevant.c.cosine,
            relevant.c.dated,
            relevant.c.said_by,
            *rated.c,
        )
        .select_from(relevant.join(rated, true()))
        .where(or_(_HALF_LIFE_S.is_not(None), _within_reach(relevant, reach)))
        .order_by(score.desc(), rated.c.timestamp.desc(), relevant.c.position.desc())
        .limit(TOP_K)
        .cte("best")
    )


def _rated_memory() -> Select[Any]:
    """A memory, and what its score is multiplied by, whatever the question is."""
    low, high = RANKING.importance_factors
    age_s = cast(func.extract("epoch", func.now() - memories.c.timestamp), Double)
    # Beyond 1,000 half-lives a power underflows, which Postgres takes for an error.
    faded = func.power(
        literal(0.5, Double), func.least(func.greatest(age_s, 0) / _HALF_LIFE_S, 1000)
    )
    return select(
        *STORED,
        case((_HALF_LIFE_S.is_(None), literal(1.0, Double)), else_=faded).label("recency"),
        (low + cast(memories.c.importance, Double) * (high - low)).label("importance_factor"),
    )


def _rated(scored: CTE) -> CTE:
    """All candidates, with what changes their score besides the question."""
    rated = looked_up(_rated_memory().where(at_place(memories, scored.c.position)), "rated")
    kept = [column for column in scored.c if column.name != "coverage"]
    return select(*kept, *rated.c).select_from(scored.join(rated, true())).cte("best")


def _parted(matched: CTE, best: CTE) -> CTE:
    """What a candidate's score by words is made of: which count how much, and how it stands."""
    return (
        select(
            matched.c.position,
            func.array_agg(matched.c.word).label("words"),
            func.array_agg(matched.c.weight).label("weights"),
            func.max(matched.c.length).label("length"),
            func.max(matched.c.speech).label("speech"),
            func.bool_or(matched.c.answers).label("answers"),
        )
        .where(among(matched.c.position, best))
        .group_by(matched.c.position)
        .cte("parted")
    )


def _totals(asked: CTE, rarity: CTE, scope: CTE, dated: CTE | None) -> CTE:
    """What scores are measured by; one row, so that those of several scopes can be added.

    Returns size, shared, mean_length; ``asked``, the question's lexemes in the order of their
    numbers; known, found_in and touched, in parallel: of each word that occurs its number, in how
    many memories, and how many it touches, null if it is not counted; and ``of_time``, how many
    memories are of the times that the question names.
    """
    of_time: Any = literal(0, BigInteger)
    if dated is not None:
        of_time = func.coalesce(select(func.max(dated.c.total)).scalar_subquery(), 0)
    known = select(
        func.array_agg(rarity.c.word).label("known"),
        func.array_agg(rarity.c.found_in).label("found_in"),
        func.array_agg(rarity.c.touched).label("touched"),
    ).subquery("words")
    lexemes = select(func.array_agg(aggregate_order_by(asked.c.lexeme, asked.c.word)))
    return materialized(
        select(
            *_sizes(scope),
            lexemes.scalar_subquery().label("asked"),
            *known.c,
            of_time.label("of_time"),
        ).select_from(scope.join(known, true())),
        "totals",
    )


def _said(matched: CTE, asked: CTE, best: CTE) -> CTE:
    """The question's words that each of the best has, in its own or a neighbouring turn."""
    return (
        select(
            matched.c.position,
            func.array_agg(asked.c.lexeme).label("lexemes"),
            func.array_agg(cast(matched.c.idf, Double)).label("idfs"),
        )
        .select_from(matched.join(asked, asked.c.word == matched.c.word))
        .where(among(matched.c.position, best))
        .group_by(matched.c.position)
        .cte("said")
    )


def _sizes(scope: CTE) -> list[Any]:
    """What is told of the scopes, for the next search and for other scopes' answers."""
    return [scope.c.size, scope.c.shared, scope.c.mean_length]


def _reach() -> CTE:
    """How low a score may be, as a share of a better one, and still exceed it by importance."""
    low, high = RANKING.importance_factors
    # In the order of its index: with EXISTS the planner may read the table up to the first.
    rated = (
        select(true())
        .select_from(memories)
        .where(in_scopes(memories), memories.c.importance != literal_column("0.5"))
        .order_by(memories.c.user_id)
        .limit(number(1))
        .scalar_subquery()
    )
    share = case((rated.is_not(None), low / high), else_=1.0)
    return materialized(select(share.label("share")), "reach")


def _enough_by_vectors(reach: CTE, shape: Shape) -> ColumnElement[int] | None:
    """How many of the nearest are looked at by vectors alone; None: all candidates.

    If neither importance nor age tells them apart, the nearest are the best.
    """
    if shape.lexical or shape.apart or shape.approximate is not None:
        return None
    share = select(reach.c.share).scalar_subquery()
    other = or_(_HALF_LIFE_S.is_not(None), share < 1.0)
    return case((other, at_least(RANKING.candidates)), else_=TOP_K)


def _within_reach(relevant: CTE, reach: CTE) -> ColumnElement[bool]:
    """Whether a candidate can be among the best, however important it is and they are not.

    Most cannot, and in a scope whose memories are all of usual importance no other than the best:
    these are not looked up.
    """
    last = relevant.alias("last")
    bar = (
        select(func.least(last.c.score * reach.c.share, last.c.score / reach.c.share))
        .select_from(last.join(reach, true()))
        .order_by(last.c.score.desc())
        .offset(TOP_K - 1)
        .limit(number(1))
        .scalar_subquery()
    )
    return func.coalesce(relevant.c.score >= bar, true())


def _dated(dead: CTE, eligible: CTE | None, scope: CTE, *, apart: bool) -> CTE:
    """The memories of the times that the question names, unless these are most of all.

    Apart, these too, and how many they are. Parameters: since, until, first.
    """
    times = given_rows(since=TIMESTAMP(timezone=True), until=TIMESTAMP(timezone=True))
    first_turn = (
        select(func.min(memories.c.timestamp))
        .where(in_scopes(memories), memories.c.speech > number(0))
        .scalar_subquery()
    )
    first_day = func.date_trunc("day", first_turn, "UTC")
    of_time = materialized(
        select(memories.c.position, func.count().over().label("total")).where(
            in_scopes(memories),
            outside(memories.c.position, dead),
            *within(memories.c.position, eligible),
            or_(
                select(true())
                .select_from(times)
                .where(memories.c.timestamp >= times.c.since, memories.c.timestamp < times.c.until)
                .exists(),
                and_(
                    bindparam("first", type_=Boolean),
                    memories.c.timestamp >= first_day,
                    memories.c.timestamp < first_day + literal_column("interval '1 day'"),
                ),
            ),
        ),
        "of_time",
    )
    candidate = (of_time.c.total <= RANKING.most_dated).label("candidate")
    if apart:
        return materialized(select(of_time.c.position, candidate, of_time.c.total), "dated")
    return materialized(
        select(of_time.c.position, candidate).where(
            of_time.c.total <= select(scope.c.size).scalar_subquery() * RANKING.dated_share
        ),
        "dated",
    )


def _candidates(lexical: CTE | None, nearest: CTE | None, dated: CTE | None) -> Select[Any]:
    """The best of each way, with the scores that it knows: position, lexical, coverage, cosine."""
    found = _best_of_each(lexical, nearest)
    if dated is None or lexical is None:
        return found
    ways = materialized(found, "ways")
    told = lexical.alias("told")
    rest = (
        select(
            dated.c.position,
            func.coalesce(told.c.score, 0.0).label("lexical"),
            func.coalesce(told.c.coverage, 0.0).label("coverage"),
            cast(null(), Double).label("cosine"),
        )
        .select_from(dated.join(told, told.c.position == dated.c.position, full=True))
        .where(func.coalesce(dated.c.candidate, false()), ~among(dated.c.position, ways))
    )
    return select(union_all(select(ways), rest).subquery("all_ways"))


def _best_of_each(lexical: CTE | None, nearest: CTE | None) -> Select[Any]:
    most = at_least(RANKING.candidates)
    if lexical is None:
        assert nearest is not None
        return select(
            nearest.c.position,
            cast(null(), Double).label("lexical"),
            cast(null(), Double).label("coverage"),
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
    # No COALESCE, which row-level security lets no index look up.
    position = case((worded.c.position.is_not(None), worded.c.position), else_=nearest.c.position)
    return select(
        position.label("position"),
        func.coalesce(worded.c.score, 0.0).label("lexical"),
        func.coalesce(worded.c.coverage, 0.0).label("coverage"),
        nearest.c.cosine,
    ).select_from(worded.join(nearest, nearest.c.position == worded.c.position, full=True))


def _scored(
    found: Select[Any], question: CTE, model: CTE | None, dated: CTE | None, shape: Shape
) -> CTE:
    """Each candidate with both scores, and what it gains by its time and its speaker."""
    candidates = found.cte("candidates")
    source: Any = candidates
    cosine: Any = candidates.c.cosine
    if shape.lexical and model is not None:
        own = by_vectors.cosine_at(candidates.c.position, question, model, large=shape.large)
        other = looked_up(own.where(candidates.c.cosine.is_(None)), "other")
        source = candidates.outerjoin(other, true())
        cosine = func.coalesce(cosine, other.c.cosine)
    nothing: Any = literal(0.0, Double) if shape.lexical else cast(null(), Double)
    of_time = of_speaker = nothing
    if dated is not None:
        of_time = case((among(candidates.c.position, dated), RANKING.dated), else_=of_time)
    if shape.said_by and shape.lexical:
        turn = looked_up(
            select(memories.c.author).where(at_place(memories, candidates.c.position)), "turn"
        )
        source = source.outerjoin(turn, true())
        by_user = (turn.c.author == literal("user", Text)) == bindparam("by_user", type_=Boolean)
        of_speaker = case((by_user, RANKING.said_by), else_=of_speaker)
    scored = select(
        candidates.c.position,
        candidates.c.lexical,
        candidates.c.coverage,
        cosine.label("cosine"),
        of_time.label("dated"),
        of_speaker.label("said_by"),
    ).select_from(source)
    # By vectors alone nothing is computed here, so no rows are kept.
    return materialized(scored, "scored") if shape.lexical else scored.cte("scored")


def _measures(scored: CTE, scope: CTE, shape: Shape) -> CTE:
    """What all candidates are measured by; one row, so that it is computed once.

    Returns best, the highest lexical score; what chance has among the user's own memories, and
    among those that are shared: ``chance``, ``chance_of_shared``. By words alone also
    ``covered``, the highest coverage. By both ways also ``noise``, the
    cosine that is no evidence, ``low`` and ``high``, the lowest and the highest cosine, ``weight``,
    the cosine's, and ``rise``, how fast the bar rises with each ten hits.
    """
    ranges: list[Any] = [
        func.max(scored.c.lexical).label("best"),
        func.nullif(func.max(scored.c.coverage), 0, type_=Double).label("covered"),
    ]
    if shape.vector:
        cosine = scored.c.cosine
        ranges += [
            func.min(cosine).label("low"),
            func.max(cosine).label("high"),
            (func.avg(cosine) + RANKING.above_usual * func.stddev_pop(cosine)).label("unusual"),
        ]
    all_of = select(*ranges).select_from(scored).subquery("ranges")
    own, shared = scope.c.size - scope.c.shared, scope.c.shared
    measures: list[Any] = [
        all_of.c.best,
        _chance(own, shape).label("chance"),
        _chance(shared, shape).label("chance_of_shared"),
    ]
    if not shape.vector:
        measures.append(all_of.c.covered)
    else:
        usual_length = RANKING.usual_turn * by_words.WORDINESS
        longer = func.ln(func.greatest(scope.c.mean_length / usual_length, 1))
        measures += [
            all_of.c.low,
            all_of.c.high,
            _noise(all_of, scope).label("noise"),
            _weight(all_of, scope).label("weight"),
            (bindparam("rising", type_=Double) * longer).label("rise"),
        ]
    return materialized(select(*measures).select_from(all_of.join(scope, true())), "measures")


def _chance(size: ColumnElement[Any], shape: Shape) -> ColumnElement[Any]:
    """What the best of so many unrelated memories has: of coverage, or of coverage and cosine."""
    if not shape.vector:
        of_words = RANKING.relevance_of_words * func.ln(func.greatest(size, 1))
        return case((size <= RANKING.small_scope, 0.0), else_=of_words)
    chance = func.ln(func.greatest(size / RANKING.small_scope, 1))
    return func.least(RANKING.relevance * chance, RANKING.enough)


def _noise(ranges: Any, scope: CTE) -> ColumnElement[Any]:
    """The cosine that is no evidence: the floor, or if all candidates are above it, more.

    A floor is of one language; in another all cosines of the same model may be above it.
    """
    floor = bindparam("min_cosine", type_=Double)
    above = and_(floor > number(0), ranges.c.low > floor, scope.c.size > RANKING.small_scope)
    return case((above, func.least(ranges.c.unusual, 1.0)), else_=floor)


def _weight(ranges: Any, scope: CTE) -> ColumnElement[Any]:
    """How much the scaled cosine weighs: by how much the words and the vectors have to say.

    Where even the farthest candidate is as near as the model's floor, it tells nothing apart; but
    the candidates of a small scope may well all be near. Parameters: model_floor.
    """
    uncovered = func.coalesce(RANKING.covered / ranges.c.covered, 1.0)
    more = func.greatest(func.least(uncovered, RANKING.most_vector), 1.0)
    floor = bindparam("model_floor", type_=Double)
    loud, silent = RANKING.silent
    nearest_of_far = (ranges.c.low - floor) / func.nullif(1 - floor, 0, type_=Double)
    said = (silent - nearest_of_far) / (silent - loud)
    heard = case(
        # GREATEST leaves a null out: without a floor it would be the least.
        (or_(said.is_(None), scope.c.size <= RANKING.small_scope), 1.0),
        else_=func.least(func.greatest(said, RANKING.least_vector), 1.0),
    )
    return RANKING.vector * more * heard


def _fused(scored: CTE, measures: CTE | None, shape: Shape) -> Any:
    """Each candidate with its scores added, its place by their sum and its nearness by cosine."""
    if measures is None:
        by_cosine = select(*scored.c, scored.c.cosine.label("score"))
        return by_cosine.subquery("fused")
    told = scored.c.dated + scored.c.said_by
    if not shape.vector:
        by_words_alone = (
            select(*scored.c, (scored.c.lexical + measures.c.best * told).label("score"))
            .select_from(scored.join(measures, true()))
            .subquery("added")
        )
        return _placed(by_words_alone)
    low, reach = measures.c.low, measures.c.high - measures.c.low
    words = func.coalesce(scored.c.lexical / func.nullif(measures.c.best, 0, type_=Double), 0.0)
    meaning = func.coalesce((scored.c.cosine - low) / func.nullif(reach, 0, type_=Double), 0.0)
    added = (
        select(
            *scored.c,
            func.row_number().over(order_by=scored.c.cosine.desc().nulls_last()).label("nearness"),
            (words + measures.c.weight * meaning + told).label("score"),
        )
        .select_from(scored.join(measures, true()))
        .subquery("added")
    )
    return _placed(added)


def _placed(added: Any) -> Any:
    """The candidates, each with its place by their score."""
    place = func.row_number().over(order_by=(added.c.score.desc(), added.c.position.desc()))
    return select(*added.c, place.label("place")).subquery("fused")
