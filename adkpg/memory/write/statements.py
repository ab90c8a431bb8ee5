"""Statements that write memories. No I/O.

Positions are places in a user's history; see `adkpg.memory.write.plan`. Memories travel as one JSON
array (`drafts.as_json`), so their columns are listed once, in `drafts.Draft`.
"""

from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Delete,
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
    delete,
    exists,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    true,
    union_all,
    update,
    values,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSON, JSONB, TIMESTAMP, Insert, insert
from sqlalchemy.sql.selectable import TableValuedAlias

from adkpg.keys import ScopeKey, SessionKey
from adkpg.memory.drafts import COLUMNS
from adkpg.memory.duplicates import IGNORED
from adkpg.memory.write.posting_steps import length_of, posted_words, words_of
from adkpg.sql import (
    APP_NAME,
    SESSION_ID,
    USER_ID,
    Call,
    Statement,
    given_rows,
    in_scope,
    live,
    set_for_person,
    stored_columns,
    to_be_extracted,
)
from adkpg.tables import (
    events,
    memories,
    memory_jobs,
    memory_lexemes,
    memory_provenance,
    memory_tombstones,
    memory_vectors,
    sessions,
)

_MEMORY_ID = bindparam("memory_id", type_=Text)
_MEMORY_IDS = bindparam("memory_ids", type_=ARRAY(Text))
_POSITIONS = bindparam("positions", type_=ARRAY(BigInteger))
_IGNORED: ColumnElement[str] = literal_column(
    "'[" + "".join(f"\\u{ord(each):04x}" for each in IGNORED) + "]+'"
)
_BEGINNING: ColumnElement[int] = literal_column("48")
_ATTRIBUTES = ("custom_metadata", "topics", "importance", "expires_at")


class MemoriesParameters(ScopeKey):
    """Memories, as `drafts.as_json` writes them; the configuration of words without another."""

    memories: str
    config: str


class PositionsParameters(ScopeKey):
    """Memories by their places."""

    positions: list[int]


class AttributesParameters(PositionsParameters):
    """Memories by their places, and as `drafts.as_json` writes them."""

    memories: str


class RewriteParameters(AttributesParameters):
    """The same with the configuration of words without another."""

    config: str


class MemoryParameters(ScopeKey):
    """One memory."""

    memory_id: str


class EndsParameters(ScopeKey):
    """Memories that end at another time now, and when they were to end; None is never."""

    origins: list[str]
    was: list[datetime | None]


class IdsParameters(ScopeKey):
    """Memories by their ids."""

    memory_ids: list[str]


class MoveParameters(ScopeKey):
    """From where to where, in parallel."""

    froms: list[int]
    tos: list[int]


class EventsParameters(SessionKey):
    """Events of a session."""

    event_ids: list[str]


class ComparedParameters(EventsParameters):
    """Events of a session and, in parallel, the digests of what they are to be in memory."""

    digests: list[str]


class TurnsParameters(ComparedParameters):
    """A session's events, in parallel with the digests, and the memories of some of them.

    Attributes:
      whole: Whether they are all of the session, or come after what it has.
      given_ids: The events whose memories are given.
      memories: As `drafts.as_json` writes them, in their order; their positions say nothing.
      config: The configuration of words without another.
      place: Where to write the first memory of a session that has none.
      model_id: Of the writer's embedder; null if the new ones are left to others.
      claim: Of the writer, who embeds them, for `lease_s`.
    """

    whole: bool
    given_ids: list[str]
    memories: str
    config: str
    place: int
    model_id: int | None
    claim: str
    lease_s: float


class PlaceParameters(SessionKey):
    """Where a session's next memory goes."""

    next: int | None


def _key(*parts: ColumnElement[Any]) -> ColumnElement[int]:
    array = func.jsonb_build_array(*parts).cast(Text)
    return func.hashtextextended(array, literal(0, BigInteger))


def with_person() -> ColumnElement[Any]:
    """Waits for whoever forgets the person, and makes them wait, to the transaction's end."""
    return func.pg_advisory_xact_lock_shared(_key(APP_NAME, USER_ID))


@cache
def give_way() -> Statement[ScopeKey]:
    """Bounds how long each lock on rows of a person is waited for, to the transaction's end."""
    return set_for_person(lock_timeout="200ms")


@cache
def lock_session() -> Statement[SessionKey]:
    """Makes writers of one session's memories wait for each other, to the transaction's end.

    They wait for whoever forgets the person too, and that one for them (`lock_person`).
    """
    locks = select(with_person(), func.pg_advisory_xact_lock(_key(APP_NAME, USER_ID, SESSION_ID)))
    return Statement(locks)


@cache
def lock_person() -> Statement[ScopeKey]:
    """Waits for all who write a person's memories, and makes later ones wait."""
    return Statement(select(func.pg_advisory_xact_lock(_key(APP_NAME, USER_ID))))


@cache
def lock_stored_session() -> Statement[SessionKey]:
    """Makes appends that remember wait too, to the transaction's end; no row if not stored."""
    return Statement(
        select(sessions.c.memory_position)
        .where(in_scope(sessions), sessions.c.session_id == SESSION_ID)
        .with_for_update(key_share=True)
    )


@cache
def place_next_memory() -> Statement[PlaceParameters]:
    """Says where a session's next memory goes."""
    return Statement(
        update(sessions)
        .where(in_scope(sessions), sessions.c.session_id == SESSION_ID)
        .values(memory_position=bindparam("next", type_=BigInteger))
    )


def _of_session() -> ColumnElement[bool]:
    """The memories that a session's events became."""
    return and_(
        in_scope(memories), memories.c.session_id == SESSION_ID, memories.c.event_id.is_not(None)
    )


def _here() -> ColumnElement[bool]:
    """Memories at the given positions, so that a join reads no others of their user."""
    return and_(in_scope(memories), memories.c.position == func.any(_POSITIONS))


def _session_memories() -> Subquery:
    """Those, whoever has few memories or many.

    Read in the order of their own key: the planner takes every user for small, and may prefer to
    read all that one has.
    """
    columns = (memories.c[name] for name in ("event_id", "position", "memory_id", "digest"))
    return (
        select(*columns)
        .where(_of_session())
        .order_by(memories.c.event_id)
        .offset(literal_column("0"))
        .subquery("stored")
    )


def _in_session(event_id: ColumnElement[Any]) -> ColumnElement[bool]:
    return exists(
        select(events.c.seq).where(
            in_scope(events), events.c.session_id == SESSION_ID, events.c.event_id == event_id
        )
    )


@cache
def select_known_events() -> Statement[EventsParameters]:
    """Reads which of some events are in memory already, or were deleted from it."""
    event_ids = bindparam("event_ids", type_=ARRAY(Text))
    stored = select(memories.c.event_id).where(
        _of_session(), memories.c.event_id == func.any(event_ids)
    )
    deleted = select(memory_tombstones.c.event_id).where(
        in_scope(memory_tombstones),
        memory_tombstones.c.session_id == SESSION_ID,
        memory_tombstones.c.event_id == func.any(event_ids),
    )
    return Statement(stored.union_all(deleted).add_cte(_renewed()))


def _renewed() -> CTE:
    """Marks of deleted memories stay for as long as somebody gives their events to memory.

    They are renewed once an hour at most: the shortest useful time that they stay is days.
    """
    return (
        update(memory_tombstones)
        .where(
            in_scope(memory_tombstones),
            memory_tombstones.c.session_id == SESSION_ID,
            memory_tombstones.c.event_id == func.any(bindparam("event_ids", type_=ARRAY(Text))),
            memory_tombstones.c.needed_at < func.now() - func.make_interval(0, 0, 0, 0, 1),
        )
        .values(needed_at=func.now())
        .cte("renewed")
    )


@cache
def select_last_position() -> Statement[SessionKey]:
    """Reads the last place of a session's memories, of however many; no row without any.

    One of them tells where they are: the others are its neighbours, within reach of their number.
    """
    one = select(_session_memories().c.position).limit(1).cte("one")
    others = memories.alias("others")
    return Statement(
        select(others.c.position)
        .where(
            in_scope(others),
            others.c.session_id == SESSION_ID,
            others.c.event_id.is_not(None),
            others.c.position >= select(one.c.position).scalar_subquery(),
            others.c.position < select(one.c.position + (1 << 24)).scalar_subquery(),
        )
        .order_by(others.c.position.desc())
        .limit(1)
    )


@cache
def select_session_memories() -> Statement[SessionKey]:
    """Reads what a session has in memory, by position, as `plan.Stored` has it."""
    stored = _session_memories()
    in_session = _in_session(stored.c.event_id).label("in_session")
    return Statement(select(*stored.c, in_session).order_by(stored.c.position))


@cache
def select_differences() -> Statement[ComparedParameters]:
    """Compares what a session has in memory with what it is to have.

    Returns rows as `plan.Stored` has them, by position, of memories that are to go, to change, or
    to be written (those have no position), and one more: without an event id, at the last place of
    all that stay. It has no position if none stay, and its `in_session` says whether those that
    stay are in the order given, before all that are new.
    """
    given = given_rows(numbered=True, event_ids=Text, digests=Text)
    stored = select(_session_memories()).cte("stored")
    buried = exists(
        select(memory_tombstones.c.event_id).where(
            in_scope(memory_tombstones),
            memory_tombstones.c.session_id == SESSION_ID,
            memory_tombstones.c.event_id == given.c.event_ids,
        )
    )
    wanted = (
        select(given.c.event_ids.label("event_id"), given.c.digests.label("digest"), given.c.number)
        .where(~buried)
        .cte("wanted")
    )
    both = (
        select(
            func.coalesce(stored.c.event_id, wanted.c.event_id).label("event_id"),
            stored.c.position,
            stored.c.memory_id,
            stored.c.digest,
            wanted.c.number,
            (stored.c.digest == wanted.c.digest).label("same"),
            # Only events that were not given are looked up.
            case((wanted.c.number.is_(None), _in_session(stored.c.event_id)), else_=true()).label(
                "in_session"
            ),
        )
        .select_from(stored.join(wanted, stored.c.event_id == wanted.c.event_id, full=True))
        .cte("compared")
    )
    staying = (
        select(
            both.c.position,
            both.c.number,
            func.lag(both.c.position).over(order_by=both.c.number).label("before"),
        )
        .where(both.c.position.is_not(None), both.c.number.is_not(None))
        .subquery("staying")
    )
    ascending = func.bool_and(func.coalesce(staying.c.position > staying.c.before, true()))
    in_order = select(func.coalesce(ascending, true())).select_from(staying).scalar_subquery()
    first_new = select(func.min(both.c.number)).where(both.c.position.is_(None)).scalar_subquery()
    last_known = select(func.max(staying.c.number)).scalar_subquery()
    summary = select(
        cast(null(), Text).label("event_id"),
        select(func.max(both.c.position))
        .where(both.c.in_session)
        .scalar_subquery()
        .label("position"),
        cast(null(), Text).label("memory_id"),
        cast(null(), Text).label("digest"),
        and_(in_order, func.coalesce(first_new > last_known, true())).label("in_session"),
    )
    differing = select(
        both.c.event_id, both.c.position, both.c.memory_id, both.c.digest, both.c.in_session
    ).where(or_(~both.c.in_session, both.c.position.is_(None), ~both.c.same))
    rows = union_all(differing, summary).subquery("rows")
    return Statement(select(rows).order_by(rows.c.position).add_cte(_renewed()))


@cache
def select_tombstones() -> Statement[SessionKey]:
    """Reads the event ids that must not come back."""
    return Statement(
        select(memory_tombstones.c.event_id).where(
            in_scope(memory_tombstones), memory_tombstones.c.session_id == SESSION_ID
        )
    )


@cache
def select_by_ids() -> Statement[IdsParameters]:
    """Reads where memories are, and what they were made of."""
    return Statement(
        select(
            memories.c.memory_id,
            memories.c.position,
            memories.c.session_id,
            memories.c.event_id,
            memories.c.digest,
        ).where(
            in_scope(memories),
            memories.c.memory_id == func.any(_MEMORY_IDS),
        )
    )


@cache
def select_same(*, lock: bool) -> Statement[MemoryParameters]:
    """Reads a memory and, if it is live, what may say the same; `duplicates.groups_of_rows` knows.

    Returns their columns and positions.

    Args:
      lock: Whether other writers are kept from them, to the transaction's end.
    """
    given = memories.alias("given")
    asked = (
        select(
            given.c.author,
            given.c.artifacts.is_(None).label("bare"),
            _loosely(given.c.body).label("said"),
            live(given).label("live"),
        )
        .where(in_scope(given), given.c.memory_id == _MEMORY_ID)
        .cte("asked")
        .prefix_with("MATERIALIZED")
    )
    # What a text begins with tells most others apart, at less cost.
    begun = func.starts_with(asked.c.said, _loosely(func.left(memories.c.body, _BEGINNING)))
    # The names of artifacts are part of the body, in any order.
    alike = case(
        (
            and_(asked.c.bare, memories.c.artifacts.is_(None)),
            func.coalesce(and_(begun, _loosely(memories.c.body) == asked.c.said), true()),
        ),
        else_=and_(~asked.c.bare, memories.c.artifacts.is_not(None)),
    )
    statement = (
        select(*stored_columns(), memories.c.position)
        .select_from(memories.join(asked, true()))
        .where(
            in_scope(memories),
            or_(
                memories.c.memory_id == _MEMORY_ID,
                and_(
                    asked.c.live,
                    live(),
                    memories.c.author.is_not_distinct_from(asked.c.author),
                    alike,
                ),
            ),
        )
        .order_by(memories.c.position)
    )
    return Statement(statement.with_for_update(of=memories) if lock else statement)


def _loosely(body: ColumnElement[Any]) -> ColumnElement[str]:
    """A form that texts which say the same have in common, whatever the database's locale.

    Wider than `duplicates.normal`: once decomposed, the ASCII characters in lower case and a mark
    for each other one, without those that may come and go. What a text begins with has the
    beginning of its form.
    """
    ascii_lower = func.lower(collate(func.normalize(body, literal_column("NFD")), "C"))
    g: ColumnElement[str] = literal_column("'g'")
    told = func.regexp_replace(ascii_lower, _IGNORED, literal_column("''"), g)
    return func.regexp_replace(told, literal_column("'[^!-~]'"), literal_column("'?'"), g)


@cache
def lock_positions() -> Statement[PositionsParameters]:
    """Keeps others from memories that are to be changed, and from adding to them.

    By position, as `store_vectors` does, so that the two never deadlock. A statement that comes
    later sees what those have added for which this one waited.
    """
    return Statement(
        select(memories.c.position)
        .where(in_scope(memories), memories.c.position == func.any(_POSITIONS))
        .order_by(memories.c.position)
        .with_for_update()
    )


@cache
def update_attributes() -> Statement[AttributesParameters]:
    """Changes what is stored alongside some memories' content."""
    rows = given_memories()
    return Statement(
        update(memories)
        .where(_here(), memories.c.position == rows.c.position)
        .values({name: _stored(rows, name) for name in (*_ATTRIBUTES, "digest")})
    )


@cache
def delete_positions() -> Statement[PositionsParameters]:
    """Deletes memories with all that belongs to them."""
    chosen = (
        select(memories.c.app_name, memories.c.user_id, memories.c.memory_id)
        .where(in_scope(memories), memories.c.position == func.any(_POSITIONS))
        .order_by(memories.c.position)
        .with_for_update()
        .cte("locked")
    )
    return Statement(erased(chosen))


def erased(chosen: CTE) -> Delete:
    """Deletes memories, and the facts and summaries that were drawn from them.

    Words, vectors and jobs go with their memory, by a trigger and foreign keys.

    Args:
      chosen: Their app_name, user_id and memory_id.
    """
    drawn = (
        select(memories.c.app_name, memories.c.user_id, memories.c.memory_id)
        .select_from(
            memory_provenance.join(
                chosen,
                and_(
                    memory_provenance.c.origin_id == chosen.c.memory_id,
                    memory_provenance.c.app_name == chosen.c.app_name,
                    memory_provenance.c.user_id == chosen.c.user_id,
                ),
            ).join(memories, _same_memory(memory_provenance))
        )
        # In one order too: two sources may share facts.
        .order_by(memories.c.position)
        .with_for_update(of=memories)
        .cte("drawn")
    )
    direct = select(chosen.c.app_name, chosen.c.user_id, chosen.c.memory_id)
    gone = union_all(direct, select(drawn.c.app_name, drawn.c.user_id, drawn.c.memory_id)).cte(
        "gone"
    )
    return delete(memories).where(_same_memory(gone))


def _same_memory(row: Any) -> ColumnElement[bool]:
    return and_(
        memories.c.memory_id == row.c.memory_id,
        memories.c.app_name == row.c.app_name,
        memories.c.user_id == row.c.user_id,
    )


@cache
def move_positions() -> Statement[MoveParameters]:
    """Moves memories with their words and vectors, in one statement; their rows are locked before.

    Foreign keys are checked at its end, when parents and children have moved alike; so none needs
    ON UPDATE CASCADE, which tables distributed by user could not have.

    Returns how many memories moved.
    """
    given = (
        select(given_rows(froms=BigInteger, tos=BigInteger))
        .cte("given")
        .prefix_with("MATERIALIZED")
    )
    children = [
        update(table)
        .where(in_scope(table), table.c.position == given.c.froms)
        .values(position=given.c.tos)
        .cte(f"moved_{table.name}")
        for table in (memory_lexemes, memory_vectors, memory_jobs)
    ]
    moved = (
        update(memories)
        .where(in_scope(memories), memories.c.position == given.c.froms)
        .values(position=given.c.tos)
        .returning(memories.c.position)
        .cte("moved")
    )
    return Statement(select(func.count().label("moved")).select_from(moved).add_cte(*children))


def given_memories() -> TableValuedAlias:
    """The rows of the parameter ``memories``: a writer's columns, the position, and the words."""
    columns = [column(name, _given_type(name)) for name in (*COLUMNS, "position")]
    columns += [column("ttl_s", Double), column("words", Text), column("script", Text)]
    rows = func.json_to_recordset(cast(bindparam("memories", type_=Text), JSON))
    return rows.table_valued(*columns, name="given_memories").render_derived(with_types=True)


def _given_type(name: str) -> Any:
    kind = memories.c[name].type
    return Text if isinstance(kind, (JSON, JSONB, Text)) else kind


def _stored(given: Any, name: str) -> ColumnElement[Any]:
    """A given value as its column has it."""
    value: ColumnElement[Any] = given.c[name]
    if name == "expires_at" and "ttl_s" in given.c:
        lasting = func.make_interval(0, 0, 0, 0, 0, 0, given.c.ttl_s)
        return func.coalesce(func.now() + lasting, value)
    kind = memories.c[name].type
    return cast(value, kind) if isinstance(kind, (JSON, JSONB)) else value


@cache
def ingest_turns() -> Statement[TurnsParameters]:
    """Writes what a session's events are to be in memory, where only new ones come at its end.

    Returns:
      ``answer``: null if more is to be done than to write new ones, as `plan` knows; else JSON.
      ``needed``: the events whose memories are needed, if some of them were not given, and then
      nothing was written. Else ``written``: the events whose memories were, and ``first``, where
      they begin; ``claimed_until``, when the writer's claim of them lapses, null if the app has
      another active model; ``others``, whether the user has more to embed.
    """
    return Call(
        "ingest_turns_1",
        *("app_name", "user_id", "session_id", "whole", "event_ids", "digests"),
        *("given_ids", "memories", "config", "place", "model_id", "claim", "lease_s"),
    )


@cache
def insert_memories() -> Statement[MemoriesParameters]:
    """Writes memories at their positions, with their words, and what is still to be done with them.

    A memory of an event that is stored already is left alone. The ``answer`` is how many were
    given.
    """
    names = ("app_name", "user_id", "memories", "config")
    return Call("write_memories_1", *names, entered=False)


@cache
def rewrite_memories() -> Statement[RewriteParameters]:
    """Gives memories another text where they stand, with its words, once `forget_derived` ran.

    They keep their id, origin, provenance, attributes and time of creation, and wait for what their
    text is used for, whatever became of it before.
    """
    source = select(*given_memories().columns).subquery("source")
    given = _with_words(source)
    kept = (*_ATTRIBUTES, "memory_id", "session_id", "event_id", "invocation_id")
    values = {name: _stored(given, name) for name in COLUMNS if name not in kept}
    written = ("app_name", "user_id", "position", "kind", "length")
    rewritten = (
        update(memories)
        .where(_here(), memories.c.position == given.c.position)
        .values(**values, length=length_of(given.c.words), extracted_at=null())
        .returning(*(memories.c[each] for each in written))
        .cte("rewritten")
    )
    posted = posted_words(rewritten, given, given.c.position == rewritten.c.position)
    upsert = _queued(rewritten)
    queued = upsert.on_conflict_do_update(
        index_elements=["app_name", "user_id", "position", "task"],
        set_={
            "due_at": upsert.excluded.due_at,
            "lease_expires_at": None,
            "attempts": 0,
            "error": None,
            "dead": False,
        },
    ).cte("queued")
    return Statement(
        select(func.count().label("written")).select_from(rewritten).add_cte(posted, queued)
    )


def _with_words(source: Any) -> CTE:
    plain = (each for each in source.c if each.key not in ("words", "script"))
    return select(*plain, words_of(source)).cte("given")


def _queued(stored: CTE) -> Insert:
    """Makes memories wait for a vector and, where the app wants it, for facts drawn from them."""
    key = (stored.c.app_name, stored.c.user_id, stored.c.position)
    task = column("task", Text)
    tasks = values(task, name="tasks", literal_binds=True).data([("embed",), ("extract",)])
    rows = (
        select(*key, tasks.c.task)
        .select_from(stored.join(tasks, true()))
        .where(or_(tasks.c.task == literal_column("'embed'"), to_be_extracted(stored.c.kind)))
    )
    return insert(memory_jobs).from_select(["app_name", "user_id", "position", "task"], rows)


@cache
def forget_derived() -> Statement[PositionsParameters]:
    """Deletes what was made of memories' texts: words, vectors, and what was drawn from them.

    Returns ``erased``, how many facts and summaries went.
    """
    derived = [
        delete(table)
        .where(in_scope(table), table.c.position == func.any(_POSITIONS))
        .cte(f"derived_{table.name}")
        for table in (memory_lexemes, memory_vectors)
    ]
    key = ("app_name", "user_id", "memory_id")
    origin = and_(
        memory_provenance.c.origin_id == memories.c.memory_id,
        memory_provenance.c.app_name == memories.c.app_name,
        memory_provenance.c.user_id == memories.c.user_id,
    )
    drawn = (
        select(*(memory_provenance.c[name] for name in key))
        .select_from(memory_provenance.join(memories, origin))
        .where(in_scope(memories), memories.c.position == func.any(_POSITIONS))
        .cte("drawn_from_them")
    )
    gone = erased(drawn).returning(memories.c.memory_id).cte("erased")
    return Statement(select(func.count().label("erased")).select_from(gone).add_cte(*derived))


@cache
def delete_memories() -> Statement[IdsParameters]:
    """Deletes memories for good; see `buried`."""
    return Statement(buried(memories.c.memory_id == func.any(_MEMORY_IDS)))


def buried(which: ColumnElement[bool]) -> Select[Any]:
    """Erases memories of a user and what was drawn from them, so that they do not come back.

    Of those that came from an event a tombstone stays. Returns ``erased``, how many memories went,
    what was drawn included.

    Args:
      which: Tells them from the user's other memories.
    """
    chosen = (
        select(
            memories.c.app_name,
            memories.c.user_id,
            memories.c.memory_id,
            memories.c.session_id,
            memories.c.event_id,
        )
        .where(in_scope(memories), which)
        .order_by(memories.c.position)
        .with_for_update()
        .cte("chosen")
    )
    tombstones = (
        insert(memory_tombstones)
        .from_select(
            ["app_name", "user_id", "session_id", "event_id"],
            select(
                chosen.c.app_name, chosen.c.user_id, chosen.c.session_id, chosen.c.event_id
            ).where(chosen.c.event_id.is_not(None)),
        )
        .on_conflict_do_nothing()
        .cte("tombstones")
    )
    gone = erased(chosen).returning(memories.c.memory_id).cte("gone_for_good")
    return select(func.count().label("erased")).select_from(gone).add_cte(tombstones)


@cache
def end_derived() -> Statement[EndsParameters]:
    """Ends facts and summaries with the first memory of their provenance, after some were changed.

    Those that were to end sooner of themselves keep their end.
    """
    given = given_rows(origins=Text, was=TIMESTAMP(timezone=True))
    drawn, others = memory_provenance.alias("drawn"), memory_provenance.alias("others")
    origin = memories.alias("origin")
    held = (
        select(memories.c.memory_id)
        .where(
            in_scope(memories),
            memories.c.superseded_by.is_(None),
            memories.c.memory_id.in_(
                select(drawn.c.memory_id).where(
                    in_scope(drawn),
                    drawn.c.origin_id == func.any(bindparam("origins", type_=ARRAY(Text))),
                )
            ),
        )
        .order_by(memories.c.position)
        .with_for_update()
        .cte("held")
    )
    ends = (
        select(
            others.c.memory_id,
            func.min(
                case((given.c.origins.is_not(None), given.c.was), else_=origin.c.expires_at)
            ).label("before"),
            func.min(origin.c.expires_at).label("after"),
        )
        .join_from(others, origin, and_(in_scope(origin), origin.c.memory_id == others.c.origin_id))
        .outerjoin(given, given.c.origins == origin.c.memory_id)
        .where(in_scope(others), others.c.memory_id.in_(select(held.c.memory_id)))
        .group_by(others.c.memory_id)
        .cte("ends")
    )
    own = or_(ends.c.before.is_(None), memories.c.expires_at < ends.c.before)
    return Statement(
        update(memories)
        .where(in_scope(memories), memories.c.memory_id == ends.c.memory_id)
        .values(
            expires_at=case(
                (
                    and_(memories.c.expires_at.is_not(None), own),
                    func.least(memories.c.expires_at, ends.c.after),
                ),
                else_=ends.c.after,
            )
        )
    )
