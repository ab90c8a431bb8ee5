"""The lexical step of a search: which memories have the question's words, and how much each counts.

No I/O. The question's words are or-ed. A posting counts for the memory it stands in and, by weight,
for its neighbours, whose positions are next to it; so neighbours are found without being stored,
and a deleted turn's words are gone everywhere.

The planner's knowledge of a user is old or nothing: for a question of thousands of words, and for
memories that came after the last ANALYZE, it would expect one row, choose nested loops, and take
minutes. So joins are FULL where they need not be, since a nested loop cannot do one, and a place
is looked up in a hash table (`steps.among`).
"""

from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    BigInteger,
    Double,
    Subquery,
    Text,
    bindparam,
    case,
    cast,
    collate,
    column,
    func,
    or_,
    select,
    true,
    union_all,
    values,
)

from adkpg.memory.search.ranking import Ranking
from adkpg.memory.search.steps import (
    TOP_K,
    among,
    in_scopes,
    looked_up,
    materialized,
    number,
    outside,
)
from adkpg.sql import config_of
from adkpg.tables import memories, memory_lexemes

WORDINESS = bindparam("wordiness", type_=Double)
"""How many times as many words a text has as one in English that says as much."""


def scope_of(dead: CTE) -> CTE:
    """How many live memories there are, and how long they are; one row.

    A scope that is known is not counted (`counts.Counts`), which of many memories takes most of a
    search's time. Parameters: known_size, known_mean_length.
    """
    size = cast(func.count(), Double)
    measures = {
        "size": size,
        # As floats: a numeric's average takes longer than all of the look at the index.
        "mean_length": func.greatest(
            cast(func.sum(memories.c.length), Double) / func.nullif(size, 0, type_=Double), 1.0
        ),
    }
    known = {name: bindparam(f"known_{name}", type_=Double) for name in measures}
    counted = (
        select(*(measure.label(name) for name, measure in measures.items()))
        .where(known["size"].is_(None), in_scopes(memories), outside(memories.c.position, dead))
        .subquery("counted")
    )
    return materialized(
        select(*(func.coalesce(known[name], counted.c[name]).label(name) for name in measures)),
        "scope",
    )


def words() -> CTE:
    """The question's words, numbered: a number is grouped by in less time than a text.

    Parameters: query, script, config.
    """
    vector = func.to_tsvector(
        config_of(bindparam("script", type_=Text)), bindparam("query", type_=Text)
    )
    lexemes = func.unnest(vector).table_valued(column("lexeme", Text), name="lexemes")
    return materialized(
        select(
            collate(lexemes.c.lexeme, "C").label("lexeme"),
            func.row_number().over().label("word"),
        ),
        "asked",
    )


class Matched(NamedTuple):
    """What the question's words lead to.

    Attributes:
      weights: What each word counts for a memory: word, position, weight.
      rarity: Each word that occurs: word, found_in, touched (null if it was not counted).
      promising: The places that promise most, of which some may hold nothing: position.
    """

    weights: Subquery
    rarity: CTE
    promising: CTE


def matched(asked: CTE, scope: CTE, dead: CTE, eligible: CTE | None, ranking: Ranking) -> Matched:
    """Finds the memories that promise most.

    A word of thousands of memories tells little of any, and spreading it costs most. So the
    question's rarest words, up to a number of postings, lead to memories, and those that promise
    most by them, some hundreds, are looked at for all words. With filters every word leads to what
    is eligible: what only a frequent word leads to must not be hidden by rarer words of the rest.

    Args:
      asked: The question's words.
      scope: What is known of all memories.
      dead: Which memories are not found.
      eligible: Which may be, with filters.
      ranking: The constants.
    """
    length, bar = memory_lexemes.c.memory_length, ranking.lends * WORDINESS
    posting = looked_up(
        select(
            memory_lexemes.c.position,
            memory_lexemes.c.frequency,
            # A long memory lends its neighbours less of each.
            (memory_lexemes.c.frequency * case((length > bar, bar / length), else_=1.0)).label(
                "lent"
            ),
        ).where(
            in_scopes(memory_lexemes),
            memory_lexemes.c.lexeme == asked.c.lexeme,
            outside(memory_lexemes.c.position, dead),
        ),
        "posting",
    )
    postings = materialized(
        select(asked.c.word, *posting.c).select_from(asked.join(posting, true())), "postings"
    )
    counted = _counted(postings, ranking)
    leading = _spread(postings, counted, ranking)
    rarity = _rarity(counted, leading, scope)
    if eligible is None:
        promising = _promising(leading, rarity, ranking)
        following = _gathered(postings, counted, promising, ranking)
    else:
        following = _gathered(postings, counted, eligible, ranking)
        led = select(leading).where(among(leading.c.position, eligible))
        promising = _promising(
            materialized(union_all(led, select(following)), "reached"), rarity, ranking
        )
    weights = union_all(select(leading), select(following)).subquery("matched")
    return Matched(weights, rarity, promising)


def _promising(touched: CTE, rarity: CTE, ranking: Ranking) -> CTE:
    """The places where the words that touch them weigh most."""
    promise = touched.c.weight * rarity.c.idf / (touched.c.weight + ranking.k1)
    return materialized(
        select(touched.c.position)
        .select_from(touched.join(rarity, rarity.c.word == touched.c.word, full=True))
        .group_by(touched.c.position)
        .order_by(func.sum(promise).desc().nulls_last(), touched.c.position.desc())
        # A note has no neighbours, and yet its words touch their places.
        .limit(func.greatest(number(ranking.promising), number(len(ranking.spread)) * TOP_K)),
        "promising",
    )


def _counted(postings: CTE, ranking: Ranking) -> CTE:
    """The question's words that occur: how often, and whether they lead."""
    counts = (
        select(postings.c.word, func.count().label("found_in"))
        .group_by(postings.c.word)
        .subquery("counts")
    )
    rarest_first = (counts.c.found_in, counts.c.word)
    return materialized(
        select(
            counts.c.word,
            cast(counts.c.found_in, Double).label("found_in"),
            or_(
                func.sum(counts.c.found_in).over(order_by=rarest_first)
                <= number(ranking.leading_postings),
                func.row_number().over(order_by=rarest_first) == 1,
            ).label("leads"),
        ),
        "counted",
    )


def _rarity(counted: CTE, leading: CTE, scope: CTE) -> CTE:
    """How many memories each word is in, and how many it touches, neighbours included.

    Those of a word that does not lead are not counted. ``idf`` is what it promises.
    """
    exact = (
        select(leading.c.word, cast(func.count(), Double).label("touched"))
        .group_by(leading.c.word)
        .subquery("exact_counts")
    )
    found_in = func.coalesce(exact.c.touched, counted.c.found_in)
    return materialized(
        select(
            counted.c.word,
            func.ln(1 + (func.greatest(scope.c.size - found_in, 0) + 0.5) / (found_in + 0.5)).label(
                "idf"
            ),
            counted.c.found_in,
            exact.c.touched,
        ).select_from(
            counted.join(exact, exact.c.word == counted.c.word, full=True).join(scope, true())
        ),
        "rarity",
    )


def _spread(postings: CTE, counted: CTE, ranking: Ranking) -> CTE:
    """What the words that lead count for each memory, their own and their neighbours'."""
    shifts = _shifts(ranking)
    leads = select(counted.c.word).where(counted.c.leads)
    place = postings.c.position + shifts.c.shift
    return materialized(
        select(postings.c.word, place.label("position"), _weight(postings, shifts).label("weight"))
        .select_from(postings.join(shifts, true()))
        .where(postings.c.word.in_(leads).is_(True))
        .group_by(postings.c.word, place),
        "leading",
    )


def _gathered(postings: CTE, counted: CTE, places: CTE, ranking: Ranking) -> CTE:
    """What the other words count for some places: most of their postings touch none of these."""
    shifts = _shifts(ranking)
    follows = select(counted.c.word).where(~counted.c.leads)
    around = (
        select(
            places.c.position,
            (places.c.position - shifts.c.shift).label("source"),
            *shifts.c,
        )
        .select_from(places.join(shifts, true()))
        .subquery("around")
    )
    return materialized(
        select(postings.c.word, around.c.position, _weight(postings, around).label("weight"))
        .select_from(around.join(postings, postings.c.position == around.c.source, full=True))
        .where(postings.c.word.in_(follows).is_(True), func.coalesce(around.c.share, 0) > 0)
        .group_by(postings.c.word, around.c.position),
        "following",
    )


def _shifts(ranking: Ranking) -> Any:
    return values(
        column("shift", BigInteger), column("share", Double), name="shifts", literal_binds=True
    ).data([(shift, share) for shift, share in ranking.spread])


def _weight(postings: CTE, shifts: Any) -> Any:
    counts = case((shifts.c.shift == 0, postings.c.frequency), else_=postings.c.lent)
    return func.sum(counts * cast(shifts.c.share, Double))
