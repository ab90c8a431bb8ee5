"""The vector step of a search: the nearest memories by cosine. No I/O.

Exact, from the primary key's index, which holds a user's vectors side by side. Above 1,024
dimensions the index holds their sign bits; the best by those are compared whole. Scopes that the
HNSW index holds are answered from it.
"""

from typing import Any

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    CTE,
    ColumnElement,
    Double,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, REAL

from adkpg.memory.search.ranking import RANKING
from adkpg.memory.search.steps import at_least, in_scopes, materialized, number, outside, within
from adkpg.memory.vectors.statements import model_number
from adkpg.sql import APP_NAME
from adkpg.tables import app_settings, memory_vectors


def question_vector() -> CTE:
    """The question's vector. Parameters: query_vector (numbers)."""
    # Cast once: in place, the cast would be evaluated for every row once the plan is generic.
    vector = cast(bindparam("query_vector", type_=ARRAY(REAL)), HALFVEC())
    return materialized(select(vector.label("vector")), "question")


def compared_model() -> CTE:
    """The embedder's model, the app's active one, and the one to compare: null if they differ."""
    own = model_number().scalar_subquery()
    active = (
        select(app_settings.c.model_id).where(app_settings.c.app_name == APP_NAME).scalar_subquery()
    )
    # A step of its own, or each mention of the two would look them up again.
    both = materialized(select(own.label("own"), active.label("active")), "models")
    same = case((func.coalesce(both.c.active, both.c.own) == both.c.own, both.c.own))
    return materialized(select(both.c.own, both.c.active, same.label("compared")), "model")


def compared(model: CTE) -> ColumnElement[Any]:
    """The number of the model whose vectors are compared; null if none are."""
    return select(model.c.compared).scalar_subquery()


def nearest(
    question: CTE,
    model: CTE,
    dead: CTE,
    eligible: CTE | None,
    *,
    large: bool,
    approximate: tuple[int, int] | None,
) -> CTE:
    """The nearest memories by cosine, at most as many as there are candidates.

    Args:
      question: Its vector.
      model: The models.
      dead: Where not to look.
      eligible: Where to look alone; then no scope is answered from the HNSW index.
      large: The vectors have more than 1,024 dimensions.
      approximate: The model's number and dimensions, to answer some scopes from the HNSW index.
    """
    if approximate is None:
        mine = in_scopes(memory_vectors)
        return materialized(_exact(question, model, dead, eligible, mine, large=large), "nearest")
    model_id, dimensions = approximate
    vectors = memory_vectors
    column = vectors.c.large if large else vectors.c.embedding
    # The expression and the predicate of the index, and numbers where the planner sees them.
    distance = cast(column, HALFVEC(dimensions)).op("<=>", return_type=Double)(_asked(question))
    most = at_least(RANKING.candidates)
    indexed = materialized(
        select(vectors.c.position, (1 - distance).label("cosine"))
        .where(
            in_scopes(vectors, "approximate_user_ids"),
            vectors.c.model_id == number(model_id),
            vectors.c.approximate,
            compared(model) == number(model_id),
            outside(vectors.c.position, dead),
        )
        .order_by(distance)
        .limit(most),
        "indexed",
    )
    # The index is walked only so far: among many other users' vectors it may find too few.
    full = select(func.count() >= most).select_from(indexed).scalar_subquery()
    texts = ARRAY(Text)
    exact_users = case(
        (full, bindparam("exact_user_ids", type_=texts)), else_=bindparam("user_ids", type_=texts)
    )
    others = and_(vectors.c.app_name == APP_NAME, vectors.c.user_id == func.any(exact_users))
    exact = _exact(question, model, dead, eligible, others, large=large).subquery("exact")
    both = union_all(
        select(indexed.c.position, indexed.c.cosine).where(full),
        select(exact.c.position, exact.c.cosine),
    ).subquery("both_ways")
    return materialized(
        select(both.c.position, both.c.cosine).order_by(both.c.cosine.desc()).limit(most), "nearest"
    )


def _exact(
    question: CTE,
    model: CTE,
    dead: CTE,
    eligible: CTE | None,
    scope: ColumnElement[bool],
    *,
    large: bool,
) -> Select[Any]:
    vectors = memory_vectors
    of_model = and_(scope, vectors.c.model_id == compared(model))
    mine = and_(
        of_model,
        outside(vectors.c.position, dead),
        *within(vectors.c.position, eligible),
    )
    vector: ColumnElement[Any] = vectors.c.large if large else vectors.c.embedding
    source: Any = vectors
    if large:
        bits = select(cast(func.binary_quantize(question.c.vector), vectors.c.bits.type))
        coarse = materialized(
            select(vectors.c.position)
            .where(mine)
            .order_by(vectors.c.bits.op("<~>")(bits.scalar_subquery()))
            .limit(at_least(RANKING.coarse)),
            "coarse",
        )
        source = coarse.join(vectors, vectors.c.position == coarse.c.position)
        mine = of_model
    distance = distance_to(vector, question).label("distance")
    best = (
        select(vectors.c.position, distance)
        .select_from(source)
        .where(mine)
        .order_by(distance)
        .limit(at_least(RANKING.candidates))
        .subquery("best_vectors")
    )
    return select(best.c.position, (-best.c.distance).label("cosine"))


def distance_to(vector: ColumnElement[Any], question: CTE) -> Any:
    """The negative inner product, which of unit vectors is the negative cosine, and quicker."""
    return vector.op("<#>", return_type=Double)(_asked(question))


def _asked(question: CTE) -> ColumnElement[Any]:
    return select(question.c.vector).scalar_subquery()
