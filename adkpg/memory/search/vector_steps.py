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
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    not_,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, array

from adkpg.memory.search.ranking import RANKING
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

_PASSAGES = 3  # for each memory that is wanted


class Nearest(NamedTuple):
    """What is the nearest.

    Attributes:
      memories: Position and cosine, the nearest first.
      crowded: Whether the passages that were looked at are of too few memories; None: they are not.
    """

    memories: CTE
    crowded: ColumnElement[bool] | None = None


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


def nearest(
    question: CTE,
    model: CTE,
    dead: CTE,
    eligible: CTE | None,
    *,
    large: bool,
    approximate: tuple[int, int] | None,
    enough: ColumnElement[int] | None = None,
    crowded: bool = False,
) -> Nearest:
    """The nearest memories by cosine, as many as there are candidates.

    Args:
      question: Its vector.
      model: The models.
      dead: Where not to look.
      eligible: Where to look alone; then no scope is answered from the HNSW index.
      large: The vectors have more than 1,024 dimensions.
      approximate: The model's number and dimensions, to answer some scopes from the HNSW index.
      enough: As many will do, and those that are as near as the last; then no scope is answered
        from the HNSW index.
      crowded: With ``enough``, all passages may be looked at. Otherwise it is only told that they
        should be, since few memories have so many, and a step is set up also where it never runs.
    """
    if approximate is None:
        mine = in_scopes(memory_vectors)
        if enough is not None and not large and not crowded:
            return _enough(question, model, dead, eligible, mine, enough)
        found = _exact(question, model, dead, eligible, mine, large=large, enough=enough)
        return Nearest(materialized(found, "nearest"))
    model_id, dimensions = approximate
    vectors = memory_vectors
    column = vectors.c.large if large else vectors.c.embedding
    # The expression and the predicate of the index, and numbers where the planner sees them.
    distance = cast(column, HALFVEC(dimensions)).op("<=>", return_type=Double)(_asked(question))
    most = at_least(RANKING.candidates)
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
        found = _exact(question, model, dead, eligible, scope, large=large, prefix=f"{name}_")
        return found.subquery(name)

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
    return Nearest(materialized(by_cosine.limit(most), "nearest"))


def _enough(
    question: CTE,
    model: CTE,
    dead: CTE,
    eligible: CTE | None,
    scope: ColumnElement[bool],
    enough: ColumnElement[int],
) -> Nearest:
    """The memories of the nearest passages, as in `_exact`, and whether these are too few."""
    mine = _compared_in(scope, model, dead, eligible)
    ranked, passages = _ranked(question, mine, enough)
    found = materialized(_of_memories(ranked, at_least(RANKING.candidates), enough), "nearest")
    return Nearest(found, and_(_as_many(ranked, passages), not_(_as_many(found, enough))))


def _exact(
    question: CTE,
    model: CTE,
    dead: CTE,
    eligible: CTE | None,
    scope: ColumnElement[bool],
    *,
    large: bool,
    enough: ColumnElement[int] | None = None,
    prefix: str = "",
) -> Select[Any]:
    """The memories whose nearest passages are the nearest.

    The nearest passages tell them, as many as make enough memories, since the first of a memory's
    passages is its nearest. Where many are of few memories, all passages are looked at.
    """
    vectors = memory_vectors
    mine = _compared_in(scope, model, dead, eligible)
    vector: ColumnElement[Any] = vectors.c.large if large else vectors.c.embedding
    most = at_least(RANKING.candidates)
    if large:
        bits = select(cast(func.binary_quantize(question.c.vector), vectors.c.bits.type))
        coarse = materialized(
            select(vectors.c.position, vectors.c.passage)
            .where(mine)
            .order_by(vectors.c.bits.op("<~>")(bits.scalar_subquery()))
            .limit(at_least(RANKING.coarse)),
            f"{prefix}coarse",
        )
        same = and_(vectors.c.position == coarse.c.position, vectors.c.passage == coarse.c.passage)
        cosine = func.max(-distance_to(vector, question)).label("cosine")
        whole = (
            select(vectors.c.position, cosine)
            .select_from(coarse.join(vectors, same))
            .where(scope, is_of(vectors, compared(model)))
            .group_by(vectors.c.position)
            .order_by(cosine.desc())
        )
        return _first(whole, most, enough)
    wanted = most if enough is None else enough
    ranked, passages = _ranked(question, mine, wanted, prefix=prefix)
    # Asked once, and before any row is read again; of few passages only whether they are few.
    memories_of_these = select(func.count(ranked.c.position.distinct())).scalar_subquery()
    too_few = and_(_as_many(ranked, passages), memories_of_these < wanted)
    looked_at = union_all(
        select(ranked.c.position, ranked.c.distance),
        select(vectors.c.position, distance_to(vector, question)).where(mine, too_few),
    ).subquery("looked_at")
    return _of_memories(looked_at, most, enough)


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


def _ranked(
    question: CTE, mine: ColumnElement[bool], wanted: ColumnElement[int], *, prefix: str = ""
) -> tuple[CTE, ColumnElement[int]]:
    """The nearest passages, and how many are looked for."""
    vectors = memory_vectors
    distance = distance_to(vectors.c.embedding, question).label("distance")
    passages = func.greatest(at_least(RANKING.candidates), number(_PASSAGES) * wanted)
    nearest_of_mine = select(vectors.c.position, distance).where(mine).order_by(distance)
    return materialized(nearest_of_mine.limit(passages), f"{prefix}nearest_passages"), passages


def _of_memories(
    passages: Any, most: ColumnElement[int], enough: ColumnElement[int] | None
) -> Select[Any]:
    """The memories of some passages, each as near as its nearest one."""
    cosine = (-func.min(passages.c.distance)).label("cosine")
    by_memory = select(passages.c.position, cosine).group_by(passages.c.position)
    return _first(by_memory.order_by(cosine.desc()), most, enough)


def _as_many(rows: CTE, wanted: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether there are so many rows; no more are read."""
    return select(true()).select_from(rows).offset(wanted - number(1)).limit(number(1)).exists()


def _first(
    by_cosine: Select[Any], most: ColumnElement[int], enough: ColumnElement[int] | None
) -> Select[Any]:
    """The first rows. Of equal ones the latest memory is the best, which no vector tells."""
    return by_cosine.limit(most) if enough is None else by_cosine.fetch(enough, with_ties=True)


def cosine_at(place: ColumnElement[Any], question: CTE, model: CTE, *, large: bool) -> Select[Any]:
    """The cosine of the memory at a place: of its nearest passage; null if it has no vector."""
    vectors = memory_vectors.alias("vectors")
    vector = vectors.c.large if large else vectors.c.embedding
    return select(func.max(-distance_to(vector, question)).label("cosine")).where(
        at_place(vectors, place), is_of(vectors, compared(model))
    )


def passages_at(
    place: ColumnElement[Any], question: CTE, model: CTE, *, large: bool
) -> ColumnElement[Any]:
    """The passages of the memory at a place, each as start, end and cosine; empty without any."""
    vectors = memory_vectors.alias("passages")
    vector = vectors.c.large if large else vectors.c.embedding
    part = array(
        [func.lower(vectors.c.span), func.upper(vectors.c.span), -distance_to(vector, question)],
        type_=Double,
    )
    parts = select(part).where(
        at_place(vectors, place),
        is_of(vectors, compared(model)),
        vectors.c.span.is_not(None),
    )
    # Not aggregated: whatever aggregates is set up in each search, even if it never runs.
    return func.array(parts.scalar_subquery(), type_=ARRAY(Double))


def distance_to(vector: ColumnElement[Any], question: CTE) -> Any:
    """The negative inner product, which of unit vectors is the negative cosine, and quicker."""
    return vector.op("<#>", return_type=Double)(_asked(question))


def _asked(question: CTE) -> ColumnElement[Any]:
    return select(question.c.vector).scalar_subquery()
