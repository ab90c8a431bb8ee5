"""The lexical step of a search: BM25F over the postings, and how much of the question is covered.

No I/O. The question's words are or-ed. A posting counts for the memory it stands in and, by weight,
for its neighbours, whose positions are next to it; so neighbours are found without being stored,
and a deleted turn's words are gone everywhere.

The planner's knowledge of a user is old or nothing: for a question of thousands of words, and for
memories that came after the last ANALYZE, it would expect one row, choose nested loops, and take
minutes. So joins are FULL where they need not be, since a nested loop cannot do one, and a place
is looked up in a hash table (`steps.among`).

A memory's date, written out, has words too: day, month and year. They are not stored, as each would
be a posting of many memories: a question that may name one counts how many are of that date. Which
they are is read of words that lead; of others, only among the places that promise most or, with
filters, among all that is eligible.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Double,
    Select,
    Subquery,
    Text,
    and_,
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

from adkpg.memory.search.ranking import RANKING
from adkpg.memory.search.steps import (
    among,
    at_least,
    at_places,
    in_scopes,
    looked_up,
    materialized,
    number,
    outside,
    text,
)
from adkpg.sql import config_of
from adkpg.tables import memories, memory_lexemes

UNSAID, ASKS = 0, 2  # values of memories.speech

# As to_char writes them, whatever the locale.
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MONTHS_AND_DAYS = " ".join((*_MONTHS, *map(str, range(1, 32))))

WORDINESS = bindparam("wordiness", type_=Double)
"""How many times as many words a text has as one in English that says as much."""


def scope_of(dead: CTE) -> CTE:
    """How many live memories there are, and how long they are; one row.

    Those that the app knows for all its users are also counted apart: ``shared``. A scope that is
    known is not counted (`counts.Counts`), which of many memories takes most of a search's time.
    Parameters: known_size, known_shared, known_mean_length.
    """
    size = cast(func.count(), Double)
    measures = {
        "size": size,
        "shared": cast(func.count().filter(memories.c.position < number(0)), Double),
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


def in_dates(asked: CTE) -> CTE:
    """The question's words that a date may have: which part of it, and its value.

    A month's word depends on the configuration, which may stem it.

    Parameters: script, config.
    """
    vector = func.to_tsvector(config_of(bindparam("script", type_=Text)), text(_MONTHS_AND_DAYS))
    parts = func.unnest(vector).table_valued(
        column("lexeme", Text), column("positions"), column("weights"), name="parts"
    )
    nths = (
        func.unnest(parts.c.positions)
        .table_valued(column("nth", Double), name="nths")
        .render_derived()
    )
    nth, months = nths.c.nth, number(len(_MONTHS))
    return materialized(
        union_all(
            select(
                asked.c.word,
                case((nth <= months, text("month")), else_=text("day")).label("part"),
                cast(case((nth <= months, nth), else_=nth - months), Double).label("value"),
            ).select_from(
                asked.join(parts, collate(parts.c.lexeme, "C") == asked.c.lexeme).join(nths, true())
            ),
            select(
                asked.c.word,
                text("year"),
                cast(asked.c.lexeme, Double),
            ).where(asked.c.lexeme.op("~")(text("^[0-9]{4}$"))),
        ),
        "in_dates",
    )


def matched(
    asked: CTE, scope: CTE, dead: CTE, eligible: CTE | None, dates: CTE | None = None
) -> tuple[CTE, CTE]:
    """What each word counts for the memories that promise most, with what their score needs.

    And how rare each word is, as `_rarity` says.

    A word of thousands of memories tells little of any, and spreading it costs most. So the
    question's rarest words, up to a number of postings, lead to memories, and those that promise
    most by them, some hundreds, are scored on all words. With filters every word leads to what is
    eligible: what only a frequent word leads to must not be hidden by rarer words of the rest.

    Args:
      asked: The question's words.
      scope: What is known of all memories.
      dead: Which memories are not found.
      eligible: Which may be, with filters.
      dates: Those of the words that a date may have, if the question may name one.
    """
    posting = looked_up(
        select(
            memory_lexemes.c.position,
            memory_lexemes.c.frequency,
            memory_lexemes.c.date_frequency,
            memory_lexemes.c.memory_length,
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
    days = None if dates is None else _Days(dates, dead)
    counted = _counted(postings, days)
    every = in_scopes(memories)
    leading = _touched(postings, counted, days, every, leads=True)
    rarity = _rarity(counted, leading, scope)
    if eligible is None:
        promising = _promising(leading, rarity)
        these = at_places(memories, select(promising.c.position))
        following = _touched(postings, counted, days, these, leads=False, places=promising)
    else:
        these = and_(every, among(memories.c.position, eligible))
        following = _touched(postings, counted, days, these, leads=False, places=eligible)
        led = select(leading).where(among(leading.c.position, eligible))
        reached = materialized(union_all(led, select(following)), "reached")
        promising = _promising(reached, rarity)
    touched = union_all(
        select(leading).where(among(leading.c.position, promising)),
        select(following).where(among(following.c.position, promising)),
    ).subquery("touched")
    turns = _turns(promising, dead)
    answered = case((turns.c.answers, touched.c.before), else_=0)
    matches = materialized(
        select(
            touched.c.word,
            touched.c.position,
            (touched.c.weight + RANKING.answer * answered).label("weight"),
            turns.c.length,
            turns.c.speech,
            turns.c.answers,
            rarity.c.idf,
        )
        .select_from(
            touched.join(turns, turns.c.position == touched.c.position, full=True).join(
                rarity, rarity.c.word == touched.c.word, full=True
            )
        )
        # All sides are there; said so that the planner does not see it and undo the FULL joins.
        .where(func.coalesce(touched.c.weight, 0) > 0, func.coalesce(turns.c.length, -1) >= 0),
        "matched",
    )
    return matches, rarity


def scored(matches: CTE, asked: CTE, scope: CTE) -> CTE:
    """Of every match: its BM25F score, and the coverage of the question.

    Coverage is the share of the question's words that it holds, weighed by their rarity; of long
    questions a few telling words are enough.
    """
    size = select(scope.c.size).scalar_subquery()
    mean_length = select(scope.c.mean_length).scalar_subquery()
    k1, b = RANKING.k1, RANKING.b
    norm = k1 * (1 - b + b * matches.c.length / mean_length)
    speech, length = func.max(matches.c.speech), cast(func.max(matches.c.length), Double)
    long = RANKING.long_turn * WORDINESS
    standing = case(
        (speech == UNSAID, 1.0),
        else_=case((func.bool_or(matches.c.answers), 1.0), else_=length / (length + RANKING.thin))
        * case((speech == ASKS, RANKING.question), else_=1.0)
        * case((length > long, func.power(long / length, RANKING.long_turn_power)), else_=1.0),
    )
    score = standing * func.sum(
        matches.c.idf * matches.c.weight * (k1 + 1) / (matches.c.weight + norm)
    )
    known = (
        select(matches.c.word, func.max(matches.c.idf).label("idf"))
        .group_by(matches.c.word)
        .subquery("known")
    )
    unknown = func.ln(1 + (size + 0.5) / 0.5)
    asked_for = select(func.count()).select_from(asked).scalar_subquery()
    whole = select(
        func.least(
            func.sum(known.c.idf) + (asked_for - func.count()) * unknown,
            RANKING.telling * unknown,
            type_=Double,  # or each row would be divided as a numeric
        )
    ).scalar_subquery()
    coverage = func.sum(matches.c.idf * func.least(matches.c.weight, 1)) / whole
    return materialized(
        select(
            matches.c.position,
            cast(score, Double).label("score"),
            cast(coverage, Double).label("coverage"),
        ).group_by(matches.c.position),
        "lexical",
    )


@dataclass(frozen=True)
class _Days:
    """The memories whose date has some of the question's words.

    Attributes:
      dates: The words that a date may have.
      dead: Which memories are not found.
    """

    dates: CTE
    dead: CTE

    def of(self, chosen: ColumnElement[bool], where: ColumnElement[bool]) -> Select[Any]:
        """Each word with the places of these memories.

        Args:
          chosen: Of which words.
          where: Of which memories.
        """
        dates = self.dates
        said_then = looked_up(
            select(memories.c.position).where(
                where,
                outside(memories.c.position, self.dead),
                func.date_part(dates.c.part, func.timezone("UTC", memories.c.timestamp))
                == dates.c.value,
            ),
            "said_then",
        )
        return (
            select(dates.c.word, said_then.c.position)
            .select_from(dates.join(said_then, true()))
            .where(chosen)
        )


def _promising(touched: CTE, rarity: CTE) -> CTE:
    """The places where the words that touch them weigh most."""
    promise = touched.c.weight * rarity.c.idf / (touched.c.weight + RANKING.k1)
    return materialized(
        select(touched.c.position)
        .select_from(touched.join(rarity, rarity.c.word == touched.c.word, full=True))
        .group_by(touched.c.position)
        .order_by(func.sum(promise).desc().nulls_last(), touched.c.position.desc())
        .limit(at_least(RANKING.promising)),
        "promising",
    )


def _counted(postings: CTE, days: _Days | None) -> CTE:
    """The question's words that occur: how often, and whether they lead."""
    found = (
        select(postings.c.word, func.count().label("found_in"))
        # What has a word in its date as well is counted with its date.
        .where(true() if days is None else postings.c.date_frequency == number(0))
        .group_by(postings.c.word)
    )
    counts = found.subquery("counts")
    if days is not None:
        then = days.of(true(), in_scopes(memories)).subquery("then")
        by_date = select(then.c.word, func.count()).group_by(then.c.word)
        both = union_all(found, by_date).subquery("both")
        counts = (
            select(both.c.word, func.sum(both.c.found_in).label("found_in"))
            .group_by(both.c.word)
            .subquery("counts")
        )
    rarest_first = (counts.c.found_in, counts.c.word)
    return materialized(
        select(
            counts.c.word,
            cast(counts.c.found_in, Double).label("found_in"),
            or_(
                func.sum(counts.c.found_in).over(order_by=rarest_first)
                <= number(RANKING.leading_postings),
                func.row_number().over(order_by=rarest_first) == 1,
            ).label("leads"),
        ),
        "counted",
    )


def _rarity(counted: CTE, leading: CTE, scope: CTE) -> CTE:
    """Lucene's idf of the memories that a word touches, neighbours included.

    Those of a word that does not lead are not counted but estimated, as if its occurrences fell
    independently of each other. With what it is made of: ``found_in``, ``touched``, which is null
    if it was not counted.
    """
    exact = (
        select(leading.c.word, cast(func.count(), Double).label("touched"))
        .group_by(leading.c.word)
        .subquery("exact_counts")
    )
    share = func.least(counted.c.found_in / func.greatest(scope.c.size, 1), 1)
    estimate = scope.c.size * (1 - func.power(1 - share, len(RANKING.spread)))
    touched = func.least(func.coalesce(exact.c.touched, estimate), scope.c.size)
    return materialized(
        select(
            counted.c.word,
            func.ln(1 + (scope.c.size - touched + 0.5) / (touched + 0.5)).label("idf"),
            counted.c.found_in,
            exact.c.touched,
        ).select_from(
            counted.join(exact, exact.c.word == counted.c.word, full=True).join(scope, true())
        ),
        "rarity",
    )


def _touched(
    postings: CTE,
    counted: CTE,
    days: _Days | None,
    dated: ColumnElement[bool],
    *,
    leads: bool,
    places: CTE | None = None,
) -> CTE:
    """What some of the words count for each memory, their own and their neighbours'.

    ``before`` is how often the turn before says them: for an answer they count more. A long memory
    lends its neighbours less of each.

    Args:
      postings: Of all words.
      counted: How often each occurs.
      days: What has some of them in its date.
      dated: Which memories' dates are read.
      leads: Of the words that lead, or of the others.
      places: For which memories; None for all.
    """
    name = "leading" if leads else "following"
    spread = values(
        column("shift", BigInteger), column("weight", Double), name="spread", literal_binds=True
    ).data([(shift, weight) for shift, weight in RANKING.spread])
    chosen = select(counted.c.word).where(counted.c.leads if leads else ~counted.c.leads)
    length, bar = postings.c.memory_length, RANKING.lends * WORDINESS
    own: Any = select(
        postings.c.word,
        postings.c.position,
        postings.c.frequency,
        (postings.c.date_frequency if days is None else number(0)).label("date_frequency"),
        (postings.c.frequency * case((length > bar, bar / length), else_=1.0)).label("lent"),
    ).where(postings.c.word.in_(chosen).is_(True))
    if places is not None:
        # Most postings touch none of the places: only the rest is spread.
        sources = materialized(
            select((places.c.position - spread.c.shift).label("position")).select_from(
                places.join(spread, true())
            ),
            f"{name}_sources",
        )
        own = own.where(among(postings.c.position, sources))
    if days is not None:
        then = days.of(days.dates.c.word.in_(chosen).is_(True), dated).subquery("then")
        by_date = select(then.c.word, then.c.position, number(0), number(1), cast(0, Double))
        own = union_all(own, by_date)
    posting = materialized(own, f"{name}_postings")
    own_date = case((spread.c.shift == 0, posting.c.date_frequency), else_=0)
    place = posting.c.position + spread.c.shift
    counted_here = case((spread.c.shift == 0, posting.c.frequency), else_=posting.c.lent)
    weight = func.sum(counted_here * cast(spread.c.weight, Double) + own_date)
    before = func.sum(case((spread.c.shift == 1, posting.c.lent), else_=0))
    return materialized(
        select(
            posting.c.word,
            place.label("position"),
            weight.label("weight"),
            before.label("before"),
        )
        .select_from(posting.join(spread, true()))
        .where(
            or_(posting.c.frequency > 0, spread.c.shift == 0),
            *([] if places is None else [among(place, places)]),
        )
        .group_by(posting.c.word, place),
        name,
    )


def _turns(promising: CTE, dead: CTE) -> Subquery:
    """The memories at the promising places and before them, and whether they answer."""
    wanted = union_all(select(promising.c.position), select(promising.c.position - 1))
    seen = materialized(
        select(memories.c.position, memories.c.length, memories.c.speech).where(
            at_places(memories, wanted),
            outside(memories.c.position, dead),
        ),
        "seen",
    )
    asking = select(seen.c.position).where(seen.c.speech == number(ASKS))
    return select(
        seen.c.position,
        seen.c.length,
        seen.c.speech,
        (seen.c.position - 1).in_(asking).is_(True).label("answers"),
    ).subquery("turns")
