"""The statements of a search: what speaks for memories, and the memories that are found. No I/O.

Words (`lexical_steps`) and vectors (`vector_steps`) put memories forward. What each is worth is
ranked elsewhere (`adkpg.memory.search.ranking`); then the best are read.
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
    union,
)
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP, array

from adkpg.memory.search import lexical_steps as by_words
from adkpg.memory.search import vector_steps as by_vectors
from adkpg.memory.search.counts import CountParameters
from adkpg.memory.search.ranking import ASKS, RANKING, Ranking
from adkpg.memory.search.steps import (
    among,
    at_places,
    dead_places,
    in_scopes,
    looked_up,
    materialized,
    number,
    outside,
    within,
)
from adkpg.memory.vectors.passages import PASSAGE_TOKENS
from adkpg.memory.vectors.statements import model_number
from adkpg.sql import (
    FilterParameters,
    Statement,
    conditions,
    given_rows,
    in_scope,
    live,
    stored_columns,
)
from adkpg.tables import approximate_scopes, memories, memory_jobs, memory_provenance


@dataclass(frozen=True)
class Shape:
    """Which evidence to ask for. There are few: what costs nothing is a parameter.

    Attributes:
      lexical: By words.
      vector: By vectors.
      large: The model's vectors have more than 1,024 dimensions.
      approximate: The model's number and dimensions, to answer by vectors for some scopes from its
        HNSW index instead of exactly; not with filters.
      filters: The conditions that memories must meet, as `SearchFilters.shape` names them.
      dated: The question names a time.
      inactive: Vectors of the embedder's model are compared also if the app has another.
    """

    lexical: bool
    vector: bool
    large: bool = False
    approximate: tuple[int, int] | None = None
    filters: frozenset[str] = frozenset()
    dated: bool = False
    inactive: bool = False


class EvidenceParameters(FilterParameters, CountParameters):
    """Parameters of `evidence`; each shape reads its own.

    Attributes:
      user_id, also_user_id: The scopes; twice the same if it is one.
      top_k: As many memories are wanted.
      invocation_id: The agent's run whose memories are left out.
      query, script, config: By words.
      query_vector, model, dimensions: By vectors, the first as `records.vector_text` writes it.
      passages: By vectors: how many passages are compared closely.
      exact_user_ids, approximate_user_ids: Which scopes are answered from the HNSW index.
      wordiness: See `cues.Cues`.
      since, until: The times that the question names, in parallel; the ends are excluded.
      first: Whether it asks about the first conversation.
    """

    app_name: str
    user_id: str
    also_user_id: str
    top_k: int
    invocation_id: str | None
    query: str
    script: str | None
    config: str
    query_vector: str
    model: str
    dimensions: int
    passages: int
    exact_user_ids: list[str]
    approximate_user_ids: list[str]
    wordiness: float
    since: list[datetime]
    until: list[datetime]
    first: bool


class ScopesParameters(TypedDict):
    """Of statements on the scopes that a search asks for."""

    app_name: str
    user_id: str
    also_user_id: str


class IndexedParameters(ScopesParameters):
    """Parameters of `select_indexed`."""

    model: str
    dimensions: int


class FoundParameters(FilterParameters, ScopesParameters):
    """Parameters of `select_found`; the last two by vectors, as `evidence` has them."""

    invocation_id: str | None
    positions: list[int]
    query_vector: str
    model_id: int | None


class NeighbourParameters(ScopesParameters):
    """Parameters of `select_neighbours`."""

    invocation_id: str | None
    positions: list[int]
    reach: int


@cache
def select_indexed() -> Statement[IndexedParameters]:
    """Reads which of the scopes asked for the HNSW index of the embedder's model holds."""
    return Statement(
        select(approximate_scopes.c.user_id).where(
            in_scopes(approximate_scopes),
            approximate_scopes.c.model_id == model_number().scalar_subquery(),
            approximate_scopes.c.ready,
        )
    )


@cache
def select_waiting() -> Statement[ScopesParameters]:
    """Tells whether memories have waited for a vector for a minute, and no worker has come yet."""
    waiting = (
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
    return Statement(select(waiting.label("waiting")))


@cache
def select_neighbours() -> Statement[NeighbourParameters]:
    """Reads the memories around some that a search may find, by position.

    Returns the memories' columns and ``of_position``, the one that each is next to.
    """
    asked = given_rows(positions=BigInteger)
    reach = bindparam("reach", type_=BigInteger)
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
        .where(live(), _not_running())
        .order_by(asked.c.positions, memories.c.position)
    )


@cache
def select_found(asked: frozenset[str], *, vector: bool, large: bool) -> Statement[FoundParameters]:
    """Reads memories by position, in any order.

    Those that have gone meanwhile, or have become what is not asked for, are left out.

    Returns the memories' columns, whether its content is cut, ``position``, and ``drawn``, the
    facts drawn from it, each with its heir, which superseded it; by vectors also ``parts``, its
    passages, each as start, end and cosine, null or empty if there are none.

    Args:
      asked: The conditions that memories must meet, as `SearchFilters.shape` names them.
      vector: With passages' cosines.
      large: As in `Shape`.
    """
    found = select(
        *stored_columns(cut=True),
        memories.c.position,
        _drawn().label("drawn"),
    ).where(
        at_places(memories, select(given_rows(positions=BigInteger).c.positions)),
        live(),
        _not_running(),
        *conditions(asked),
    )
    if vector:
        question = by_vectors.question_vector()
        passages = by_vectors.passages_at(memories.c.position, question, large=large)
        # Of as many characters as a passage has tokens: it has no passages.
        long = func.length(memories.c.body) > number(PASSAGE_TOKENS)
        found = found.add_columns(case((long, passages)).label("parts"))
    return Statement(found, long=True)


def _not_running() -> ColumnElement[bool]:
    """The memories that are not of the invocation that asks."""
    running = bindparam("invocation_id", type_=Text)
    return or_(running.is_(None), memories.c.invocation_id.is_distinct_from(running))


def _drawn() -> ColumnElement[Any]:
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
        .where(in_scope(memory_provenance), memory_provenance.c.origin_id == memories.c.memory_id)
        .correlate(memories)
        .scalar_subquery()
    )
    return case((and_(some, memories.c.position >= number(0)), func.array(own, type_=ARRAY(Text))))


@cache
def evidence(shape: Shape, ranking: Ranking = RANKING) -> Statement[EvidenceParameters]:
    """Says what speaks for the memories that may answer a question; one row.

    In parallel arrays, null if they are empty:

    * for each memory: positions, lengths, speeches, answer (whether the turn before asks), cosines
      (null without a vector), timely (whether it is of a time that the question names), by_user,
      ages_s, importances;
    * for each word that a memory has: at (the memory's position), word (its number), weight;
    * for each of the question's words: asked (the lexeme), number, found_in (null if it does not
      occur), touched (how many memories it touches, null if that is not counted).

    And size and mean_length, as counted or as given; seen, mean_cosine and deviation, of some of
    the cosines; ``of_time``, how many memories are of the times that the question names;
    ``active_model``, the app's, null if it has none yet; ``compared_model``, null if no vectors are
    compared, since the app has another; and ``crowded``, whether more passages are to be compared.

    Args:
      shape: What to ask for.
      ranking: The constants.
    """
    dead = dead_places()
    eligible = _eligible(shape.filters) if shape.filters else None
    scope = by_words.scope_of(dead) if shape.lexical else None
    question = model = near = None
    if shape.vector:
        question = by_vectors.question_vector()
        model = by_vectors.compared_model(inactive=shape.inactive)
        near = by_vectors.near(
            question,
            model,
            dead,
            eligible,
            large=shape.large,
            approximate=shape.approximate,
            ranking=ranking,
        )
    matched = asked = dated = None
    if scope is not None:
        asked = by_words.words()
        matched = by_words.matched(asked, scope, dead, eligible, ranking)
        dated = _dated(dead, eligible, ranking) if shape.dated else None
    ways: list[Any] = []
    if matched is not None:
        ways.append(select(matched.promising.c.position))
    if near is not None:
        ways.append(select(near.nearest.c.position))
    if dated is not None:
        ways.append(select(dated.c.position).where(dated.c.candidate))
    found = materialized(union(*ways) if len(ways) > 1 else ways[0], "found")
    rated = _rated(found, dead)
    source: Any = rated
    cosine: Any = cast(null(), Double)
    if near is not None and question is not None and model is not None:
        known = near.cosines
        cosine, source = (
            known.c.cosine,
            # FULL, which is no nested loop; what is not rated is left out below.
            rated.outerjoin(known, known.c.position == rated.c.position, full=True),
        )
        if near.others:
            own = by_vectors.cosine_at(rated.c.position, question, model, large=shape.large)
            other = looked_up(own.where(known.c.cosine.is_(None)), "other")
            cosine, source = func.coalesce(cosine, other.c.cosine), source.outerjoin(other, true())
    of_time = false() if dated is None else among(rated.c.position, dated)
    told: list[Any] = [
        select(
            *_arrays(
                positions=rated.c.position,
                lengths=cast(rated.c.length, Double),
                speeches=rated.c.speech,
                answer=rated.c.answers,
                cosines=cosine,
                timely=of_time,
                by_user=rated.c.by_user,
                ages_s=rated.c.age_s,
                importances=rated.c.importance,
            )
        )
        .select_from(source)
        .where(func.coalesce(rated.c.length, number(-1)) >= number(0))
        .subquery("candidates")
    ]
    if scope is not None and asked is not None and matched is not None:
        weights, rarity = matched.weights, matched.rarity
        told += [
            scope,
            select(*_arrays(at=weights.c.position, word=weights.c.word, weight=weights.c.weight))
            .where(among(weights.c.position, rated))
            .subquery("weights"),
            select(
                *_arrays(
                    asked=asked.c.lexeme,
                    number=asked.c.word,
                    found_in=rarity.c.found_in,
                    touched=rarity.c.touched,
                )
            )
            .select_from(asked.outerjoin(rarity, rarity.c.word == asked.c.word))
            .subquery("words"),
        ]
    else:
        nothing = ("size", "mean_length", "at", "word", "weight", "asked", "number", "found_in")
        told.append(
            select(*(null().label(name) for name in (*nothing, "touched"))).subquery("no_words")
        )
    if near is not None:
        told.append(near.usual)
    else:
        none = ("seen", "mean_cosine", "deviation")
        told.append(select(*(cast(null(), Double).label(name) for name in none)).subquery("unseen"))
    total: Any = cast(null(), BigInteger)
    if dated is not None:
        total = select(func.max(dated.c.total)).scalar_subquery()
    whole = told[0]
    for each in told[1:]:
        whole = whole.join(each, true())
    columns = [column for each in told for column in each.c]
    active: Any = null()
    compared: Any = null()
    if model is not None:
        active = select(model.c.active).scalar_subquery()
        compared = by_vectors.compared(model)
    crowded: Any = false() if near is None else near.crowded
    columns += [
        total.label("of_time"),
        active.label("active_model"),
        compared.label("compared_model"),
        crowded.label("crowded"),
    ]
    return Statement(select(*columns).select_from(whole), long=True)


def _arrays(**columns: Any) -> list[ColumnElement[Any]]:
    return [func.array_agg(column).label(name) for name, column in columns.items()]


def _rated(found: CTE, dead: CTE) -> CTE:
    """What the ranking needs to know of some memories, whatever the question is."""
    wanted = union(select(found.c.position), select(found.c.position - 1))
    seen = materialized(
        select(
            memories.c.position,
            memories.c.length,
            memories.c.speech,
            (memories.c.author == literal("user", Text)).is_(True).label("by_user"),
            cast(func.extract("epoch", func.now() - memories.c.timestamp), Double).label("age_s"),
            cast(memories.c.importance, Double).label("importance"),
        ).where(at_places(memories, wanted), outside(memories.c.position, dead)),
        "seen",
    )
    asking = select(seen.c.position).where(seen.c.speech == number(ASKS))
    answers = (seen.c.position - 1).in_(asking).is_(True).label("answers")
    return materialized(select(*seen.c, answers).where(among(seen.c.position, found)), "rated")


def _eligible(asked: frozenset[str]) -> CTE:
    return materialized(
        select(memories.c.position).where(in_scopes(memories), *conditions(asked)), "eligible"
    )


def _dated(dead: CTE, eligible: CTE | None, ranking: Ranking) -> CTE:
    """The memories of the times that the question names: position, candidate, total.

    Parameters: since, until, first.
    """
    times = given_rows(since=TIMESTAMP(timezone=True), until=TIMESTAMP(timezone=True))
    first_turn = (
        select(func.min(memories.c.timestamp))
        .where(in_scopes(memories), memories.c.speech > number(0))
        .scalar_subquery()
    )
    first_day = func.date_trunc("day", first_turn, "UTC")
    total = func.count().over()
    return materialized(
        select(
            memories.c.position,
            (total <= number(ranking.most_dated)).label("candidate"),
            total.label("total"),
        ).where(
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
        "dated",
    )
