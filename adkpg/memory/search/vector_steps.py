"""The vector step of a search: the nearest memories by cosine. No I/O.

A long memory has a vector for each of its passages, of which the nearest counts. Exact, from an
index that holds a user's vectors side by side. Above 1,024 dimensions it holds their sign bits; the
best by those are compared whole. Scopes that have an HNSW index are answered from it, and from
their fresh vectors, which it does not hold yet, exactly.
"""

from typing import Any, NamedTuple

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    CTE,
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
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, array

from adkpg.memory.search.ranking import Ranking
from adkpg.memory.search.steps import (
    SCOPES,
    at_least,
    at_place,
    in_scopes,
    materialized,
    number,
    outside,
    within,
)
from adkpg.memory.vectors.statements import is_of, model_number, unit_halfvec
from adkpg.sql import APP_NAME
from adkpg.tables import app_settings, memory_vectors

PASSAGES = bindparam("passages", type_=Integer)
"""How many passages are compared closely."""


def question_vector() -> CTE:
    """The question's vector. Parameters: query_vector (its text)."""
    # Read once: in place, it would be read for every row once the plan is generic.
    vector = unit_halfvec(bindparam("query_vector", type_=Text))
    return materialized(select(vector.label("vector")), "question")


def compared_model(*, inactive: bool) -> CTE:
    """The embedder's model, the app's active one, and the one to compare.

    The last is the embedder's, unless it differs from the active one, which may be allowed.
    """
    own = model_number().scalar_subquery()
    active = (
        select(app_settings.c.model_id).where(app_settings.c.app_name == APP_NAME).scalar_subquery()
    )
    # A step of its own, or each mention of the two would look them up again.
    both = materialized(select(own.label("own"), active.label("active")), "models")
    same: ColumnElement[Any] = both.c.own
    if not inactive:
        same = case((func.coalesce(both.c.active, both.c.own) == both.c.own, both.c.own))
    return materialized(select(both.c.own, both.c.active, same.label("compared")), "model")


def compared(model: CTE) -> ColumnElement[Any]:
    """The number of the model whose vectors are compared; null if none are."""
    return select(model.c.compared).scalar_subquery()


class Near(NamedTuple):
    """What the vectors say.

    Attributes:
      nearest: The nearest memories, as many as there are candidates: position and cosine.
      cosines: Those of all memories that were looked at closely, likewise.
      usual: What cosines are usual: seen, mean_cosine and deviation; one row.
      crowded: Whether more passages are to be looked at: those that were are of few memories.
      others: Whether the cosines of other memories count, too: an index names few.
    """

    nearest: CTE
    cosines: CTE
    usual: CTE
    crowded: ColumnElement[bool]
    others: bool


def near(
    question: CTE,
    model: CTE,
    dead: CTE,
    eligible: CTE | None,
    *,
    large: bool,
    approximate: tuple[int, int] | None,
    ranking: Ranking,
) -> Near:
    """Compares vectors.

    Args:
      question: Its vector.
      model: The models.
      dead: Where not to look.
      eligible: Where to look alone; then no scope is answered from the HNSW index.
      large: The vectors have more than 1,024 dimensions.
      approximate: The model's number and dimensions, to answer some scopes from the HNSW index.
      ranking: The constants.
    """
    vectors = memory_vectors
    crowded: ColumnElement[bool] = false()
    if approximate is not None:
        cosines = _from_index(
            question, model, dead, eligible, large=large, approximate=approximate, ranking=ranking
        )
    else:
        mine = in_scopes(vectors)
        ranked = materialized(
            _passages(question, model, dead, eligible, mine, large=large),
            "nearest_passages",
        )
        cosines = materialized(_of_memories(ranked), "cosines")
        few = select(func.count()).select_from(cosines).scalar_subquery()
        crowded = and_(_as_many(ranked, PASSAGES), few < at_least(ranking.candidates))
    best = (
        select(cosines.c.position, cosines.c.cosine)
        .order_by(cosines.c.cosine.desc(), cosines.c.position.desc())
        .limit(at_least(ranking.candidates))
    )
    usual = _usual(question, model, dead, eligible, large=large, ranking=ranking)
    return Near(
        materialized(best, "nearest"), cosines, usual, crowded, others=approximate is not None
    )


def _usual(
    question: CTE,
    model: CTE,
    dead: CTE,
    eligible: CTE | None,
    *,
    large: bool,
    ranking: Ranking,
) -> CTE:
    """What cosines are usual, by the first vectors of each scope: no more are read."""
    vectors = memory_vectors
    vector = vectors.c.large if large else vectors.c.embedding
    scopes = select(func.unnest(SCOPES).label("user_id")).distinct().subquery("scopes")
    mine = and_(vectors.c.app_name == APP_NAME, vectors.c.user_id == scopes.c.user_id)
    some = (
        select((-distance_to(vector, question)).label("cosine"))
        .where(_compared_in(mine, model, dead, eligible))
        .limit(number(ranking.sampled_of(large=large)))
        .lateral("some")
    )
    return materialized(
        select(
            func.count().label("seen"),
            func.avg(some.c.cosine).label("mean_cosine"),
            func.stddev_pop(some.c.cosine).label("deviation"),
        ).select_from(scopes.join(some, true())),
        "usual",
    )


def _from_index(
    question: CTE,
    model: CTE,
    dead: CTE,
    eligible: CTE | None,
    *,
    large: bool,
    approximate: tuple[int, int],
    ranking: Ranking,
) -> CTE:
    """The nearest memories, for some scopes from the HNSW index: position and cosine."""
    model_id, dimensions = approximate
    vectors = memory_vectors
    column = vectors.c.large if large else vectors.c.embedding
    # The expression and the predicate of the index, and numbers where the planner sees them.
    distance = cast(column, HALFVEC(dimensions)).op("<=>", return_type=Double)(_asked(question))
    most = at_least(ranking.candidates)
    texts = ARRAY(Text)
    listed = bindparam("approximate_user_ids", type_=texts)
    indexed = materialized(
        select(vectors.c.position, (1 - distance).label("cosine"))
        .where(
            vectors.c.app_name == APP_NAME,
            vectors.c.user_id == func.any(listed),
            vectors.c.model_id == number(model_id),
            vectors.c.approximate,
            compared(model) == number(model_id),
            outside(vectors.c.position, dead),
        )
        .order_by(distance)
        .limit(most),
        "indexed",
    )
    # Passages of the same memories may be among these, so fewer memories may come of them.
    # The index is walked only so far: among many other users' vectors it may find too few.
    full = select(func.count() >= most).select_from(indexed).scalar_subquery()
    exact_users = case((full, bindparam("exact_user_ids", type_=texts)), else_=cast(SCOPES, texts))
    fresh_users = case((full, listed), else_=cast(array([]), texts))

    def looked_at(users: ColumnElement[Any], *more: ColumnElement[bool], name: str) -> Any:
        scope = and_(vectors.c.app_name == APP_NAME, vectors.c.user_id == func.any(users), *more)
        found = _passages(question, model, dead, eligible, scope, large=large)
        return _of_memories(materialized(found, f"{name}_passages")).subquery(name)

    exact = looked_at(exact_users, name="exact")
    fresh = looked_at(fresh_users, ~vectors.c.approximate, name="fresh")
    ways = union_all(
        select(indexed).where(full),
        select(exact.c.position, exact.c.cosine),
        select(fresh.c.position, fresh.c.cosine),
    ).subquery("ways_to_vectors")
    # Of one memory's passages some may be in the index, and some fresh.
    cosine = func.max(ways.c.cosine).label("cosine")
    by_cosine = select(ways.c.position, cosine).group_by(ways.c.position).order_by(cosine.desc())
    return materialized(by_cosine.limit(most), "cosines")


def _passages(
    question: CTE,
    model: CTE,
    dead: CTE,
    eligible: CTE | None,
    scope: ColumnElement[bool],
    *,
    large: bool,
) -> Select[Any]:
    """The nearest passages: position and distance; of large vectors the best by their sign bits.

    Parameters: passages, as many are looked at.
    """
    vectors = memory_vectors
    mine = _compared_in(scope, model, dead, eligible)
    if not large:
        distance = distance_to(vectors.c.embedding, question).label("distance")
        return select(vectors.c.position, distance).where(mine).order_by(distance).limit(PASSAGES)
    bits = select(cast(func.binary_quantize(question.c.vector), vectors.c.bits.type))
    return (
        select(vectors.c.position, distance_to(vectors.c.large, question).label("distance"))
        .where(mine)
        .order_by(vectors.c.bits.op("<~>")(bits.scalar_subquery()))
        .limit(PASSAGES)
    )


def _of_memories(passages: CTE) -> Select[Any]:
    """The memories of some passages, each as near as its nearest one: position and cosine."""
    return select(passages.c.position, (-func.min(passages.c.distance)).label("cosine")).group_by(
        passages.c.position
    )


def _compared_in(
    scope: ColumnElement[bool], model: CTE, dead: CTE, eligible: CTE | None
) -> ColumnElement[bool]:
    """The vectors to compare."""
    vectors = memory_vectors
    return and_(
        scope,
        vectors.c.model_id == compared(model),
        outside(vectors.c.position, dead),
        *within(vectors.c.position, eligible),
    )


def _as_many(rows: CTE, wanted: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether there are so many rows; no more are read."""
    return select(true()).select_from(rows).offset(wanted - number(1)).limit(number(1)).exists()


def cosine_at(place: ColumnElement[Any], question: CTE, model: CTE, *, large: bool) -> Select[Any]:
    """The cosine of the memory at a place: of its nearest passage; null if it has no vector."""
    vectors = memory_vectors.alias("vectors")
    vector = vectors.c.large if large else vectors.c.embedding
    return select(func.max(-distance_to(vector, question)).label("cosine")).where(
        at_place(vectors, place), is_of(vectors, compared(model))
    )


def passages_at(place: ColumnElement[Any], question: CTE, *, large: bool) -> ColumnElement[Any]:
    """The passages of the memory at a place, each as start, end and cosine; empty without any.

    Parameters: model_id, the number of the model whose vectors were compared; null for none.
    """
    vectors = memory_vectors.alias("passages")
    vector = vectors.c.large if large else vectors.c.embedding
    part = array(
        [func.lower(vectors.c.span), func.upper(vectors.c.span), -distance_to(vector, question)],
        type_=Double,
    )
    parts = select(part).where(
        at_place(vectors, place),
        is_of(vectors, bindparam("model_id", type_=Integer)),
        vectors.c.span.is_not(None),
    )
    # Not aggregated: whatever aggregates is set up in each search, even if it never runs.
    return func.array(parts.scalar_subquery(), type_=ARRAY(Double))


def distance_to(vector: ColumnElement[Any], question: CTE) -> Any:
    """The negative inner product, which of unit vectors is the negative cosine, and quicker."""
    return vector.op("<#>", return_type=Double)(_asked(question))


def _asked(question: CTE) -> ColumnElement[Any]:
    return select(question.c.vector).scalar_subquery()
