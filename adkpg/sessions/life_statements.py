"""Statements on what is done to sessions besides conversing: forks, shared states, a search.

Each is built once per shape and does no I/O.
"""

from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Integer,
    Text,
    bindparam,
    case,
    cast,
    exists,
    func,
    literal_column,
    not_,
    null,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID, aggregate_order_by, insert

from adkpg.keys import AppKey, ScopeKey, SessionKey
from adkpg.sessions.statements import (
    REVISION,
    end_of_session,
    its_events,
    limited,
    live_session,
    time,
    unexpired,
)
from adkpg.sql import APP_NAME, Call, Statement, given_rows, in_scope
from adkpg.tables import events, sessions

_FORK_ID = bindparam("fork_id", type_=Text)

OPENING_EVENTS = 3
"""In how many events the first words of a session are looked for."""
OPENING_BYTES = 20_000
"""Longest of these events that is read, as JSON."""


class OpeningsParameters(AppKey):
    """Sessions of an app: each of the ids with each of the users."""

    user_ids: list[str]
    session_ids: list[str]


class InitialParameters(SessionKey):
    """A session as it was read."""

    incarnation: str


class ForkParameters(InitialParameters):
    """The session to copy, up to a revision; and what is made of it."""

    revision: int
    fork_id: str
    fork_incarnation: str
    state: str
    initial_state: str | None
    state_limit: int
    timestamp: datetime
    updated_at: datetime
    ttl: timedelta | None
    expires_at: datetime | None


class StatesParameters(ScopeKey):
    """The deltas are JSON text, None where a scope has none."""

    app_delta: str | None
    user_delta: str | None
    state_limit: int
    writer_limit: int


class FindParameters(ScopeKey):
    """Patterns for each of the words that are looked for; the place of the last one found."""

    patterns: list[str]
    session_id: str | None
    after: datetime | None
    before: datetime | None
    last_time: datetime | None
    last_session_id: str | None
    last_seq: int | None
    limit: int


def _incarnation(name: str) -> Any:
    return cast(bindparam(name, type_=Text), UUID)


@cache
def select_initial_state() -> Statement[InitialParameters]:
    """Reads a session's own state as it was before its first event; no row if it is another."""
    return Statement(
        select(cast(sessions.c.initial_state, Text).label("state")).where(
            live_session(), sessions.c.incarnation == _incarnation("incarnation")
        )
    )


@cache
def fork_session() -> Statement[ForkParameters]:
    """Copies a session with its events up to a revision, each with a token of its own.

    No row if it is another session now, or if one of the new id exists. A second run finds the copy
    of the first by its incarnation, which the caller gives. Returns ``session_id``.
    """
    source = (
        select(sessions.c.app_name, sessions.c.user_id, sessions.c.session_id)
        .where(live_session(), sessions.c.incarnation == _incarnation("incarnation"))
        .cte("source")
    )
    copied = (
        select(
            func.coalesce(func.max(events.c.seq), 0).label("revision"),
            func.coalesce(func.sum(func.octet_length(cast(events.c.payload, Text))), 0).label(
                "payload_bytes"
            ),
        )
        .where(its_events(), events.c.seq <= REVISION)
        .subquery("copied")
    )
    made_of: dict[str, Any] = {
        "app_name": source.c.app_name,
        "user_id": source.c.user_id,
        "session_id": _FORK_ID,
        "incarnation": _incarnation("fork_incarnation"),
        "revision": copied.c.revision,
        "payload_bytes": copied.c.payload_bytes,
        "state": limited(cast(bindparam("state", type_=Text), JSONB)),
        "initial_state": cast(bindparam("initial_state", type_=Text), JSONB),
        "created_at": time("timestamp"),
        "updated_at": time("updated_at"),
        **end_of_session(),
    }
    made = (
        insert(sessions)
        .from_select(
            list(made_of),
            select(*made_of.values()).join_from(source, copied, literal_column("true")),
        )
        .on_conflict_do_nothing()
        .returning(sessions.c.app_name, sessions.c.user_id, sessions.c.session_id)
        .cte("made")
    )
    filled = (
        insert(events)
        .from_select(
            ["app_name", "user_id", "session_id", "seq", "event_id", "timestamp", "payload"],
            select(
                made.c.app_name,
                made.c.user_id,
                made.c.session_id,
                events.c.seq,
                events.c.event_id,
                events.c.timestamp,
                events.c.payload,
            )
            .join_from(made, events, literal_column("true"))
            .where(its_events(), events.c.seq <= REVISION),
        )
        .cte("filled")
    )
    known = select(sessions.c.session_id).where(
        in_scope(sessions),
        sessions.c.session_id == _FORK_ID,
        sessions.c.incarnation == _incarnation("fork_incarnation"),
    )
    return Statement(select(made.c.session_id).union_all(known).add_cte(filled))


@cache
def merge_states(*, app: bool) -> Statement[StatesParameters]:
    """Merges deltas into the shared states; the answer has the app's and the user's after it.

    Args:
      app: Whether the app's is one of them.
    """
    names = ("app_name", "user_id", "app_delta", "user_delta", "state_limit", "writer_limit")
    return Call("merge_states_1", *names, of_app=app)


@cache
def find_events(
    *, session: bool, after: bool, before: bool, following: bool
) -> Statement[FindParameters]:
    """Reads events of a user's sessions whose payloads match all patterns, newest first.

    Returns ``session_id``, ``seq``, ``timestamp`` and ``payload``. A payload is JSON text: what it
    matches may be no word that was said, so the caller looks again.
    """
    text = cast(events.c.payload, Text)
    given = given_rows(patterns=Text)
    # The variants of one word lie in one text, divided by a character that no JSON text holds.
    variants = func.string_to_array(given.c.patterns, literal_column("E'\\x1f'"))
    missing = exists(
        select(literal_column("1"))
        .select_from(given)
        .where(not_(text.bool_op("ILIKE")(func.any(variants))))
    )
    place = (events.c.timestamp, events.c.session_id, events.c.seq)
    seen = exists(
        select(sessions.c.session_id).where(
            sessions.c.app_name == events.c.app_name,
            sessions.c.user_id == events.c.user_id,
            sessions.c.session_id == events.c.session_id,
            unexpired(),
        )
    )
    found = (
        select(events.c.session_id, events.c.seq, events.c.timestamp, text.label("payload"))
        .where(in_scope(events), ~missing, seen)
        .order_by(*(each.desc() for each in place))
        .limit(bindparam("limit", type_=Integer))
    )
    if session:
        found = found.where(events.c.session_id == bindparam("session_id", type_=Text))
    if after:
        found = found.where(events.c.timestamp >= time("after"))
    if before:
        found = found.where(events.c.timestamp < time("before"))
    if following:
        last = (
            time("last_time"),
            bindparam("last_session_id", type_=Text),
            bindparam("last_seq", type_=BigInteger),
        )
        found = found.where(tuple_(*place) < tuple_(*last))
    return Statement(found)


@cache
def select_openings() -> Statement[OpeningsParameters]:
    """Counts the events of some of an app's sessions, and reads the first ones of each.

    Returns ``user_id``, ``session_id``, ``events`` and ``payloads``, a list of JSON texts in append
    order; NULL stands for one that is longer than an opening. A session without events has no row.
    """
    text = cast(events.c.payload, Text)
    brief = case((func.octet_length(text) <= OPENING_BYTES, text), else_=null())
    first = events.c.seq <= literal_column(str(OPENING_EVENTS))
    payloads = func.array_agg(aggregate_order_by(brief, events.c.seq)).filter(first)
    of_some = (
        events.c.user_id == func.any(bindparam("user_ids", type_=ARRAY(Text))),
        events.c.session_id == func.any(bindparam("session_ids", type_=ARRAY(Text))),
    )
    return Statement(
        select(
            events.c.user_id,
            events.c.session_id,
            func.count().label("events"),
            payloads.label("payloads"),
        )
        .where(events.c.app_name == APP_NAME, *of_some)
        .group_by(events.c.user_id, events.c.session_id)
    )
