"""Statements that write sessions, events and shared states of elsewhere, in batches. No I/O.

They come in a transaction that holds the rows of the sessions that are there already, so each may
be run again: what it wrote is then found.
"""

from datetime import datetime
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSON, JSONB, TIMESTAMP, insert
from sqlalchemy.sql.selectable import TableValuedAlias

from adkpg.keys import SessionKey
from adkpg.sql import SESSION_ID, Statement, given_rows, in_scope
from adkpg.tables import app_states, events, sessions, user_states

_TIME = TIMESTAMP(timezone=True)


class KeysParameters(TypedDict):
    """Sessions, in parallel arrays."""

    app_names: list[str]
    user_ids: list[str]
    session_ids: list[str]


class WindowsParameters(KeysParameters):
    """Some events of each session, by the first and the last number."""

    firsts: list[int]
    lasts: list[int]


class SessionsParameters(KeysParameters):
    """Sessions as they are to be stored; states are JSON text."""

    states: list[str]
    revisions: list[int]
    created: list[datetime]
    updated: list[datetime]
    places: list[int | None]
    sizes: list[int]
    initials: list[str | None]
    ttls: list[float | None]
    ends: list[datetime | None]


class EventsParameters(KeysParameters):
    """Events in parallel arrays; payloads are JSON text."""

    seqs: list[int]
    event_ids: list[str]
    timestamps: list[datetime]
    payloads: list[str]


class KnownParameters(SessionKey):
    """Event ids that a session may have before a number."""

    event_ids: list[str]
    before: int


class AppsParameters(TypedDict):
    """Apps."""

    app_names: list[str]


class UsersParameters(AppsParameters):
    """Users, in parallel arrays."""

    user_ids: list[str]


class AppStatesParameters(AppsParameters):
    """States of apps, in parallel arrays; JSON text, and null where no time is known."""

    states: list[str]
    updated: list[datetime | None]


class UserStatesParameters(AppStatesParameters):
    """States of users, in parallel arrays."""

    user_ids: list[str]


def _same(given: TableValuedAlias, table: Any) -> ColumnElement[bool]:
    return and_(
        table.c.app_name == given.c.app_names,
        table.c.user_id == given.c.user_ids,
        table.c.session_id == given.c.session_ids,
    )


_KEYS: dict[str, Any] = {"app_names": Text, "user_ids": Text, "session_ids": Text}


@cache
def select_sessions(*, held: bool) -> Statement[KeysParameters]:
    """Reads those of the sessions that are stored; `held` locks them, in the order of their keys.

    Returns app_name, user_id, session_id, revision, state (JSON text), updated_at.
    """
    given = given_rows(**_KEYS)
    found = (
        select(
            sessions.c.app_name,
            sessions.c.user_id,
            sessions.c.session_id,
            sessions.c.revision,
            cast(sessions.c.state, Text).label("state"),
            sessions.c.updated_at,
        )
        .join_from(given, sessions, _same(given, sessions))
        .order_by(sessions.c.app_name, sessions.c.user_id, sessions.c.session_id)
    )
    return Statement(found.with_for_update(of=sessions) if held else found)


@cache
def select_windows(*, payloads: bool) -> Statement[WindowsParameters]:
    """Reads some events of each session: app_name, user_id, session_id, seq, event_id, payload.

    Payloads are JSON text, or null unless they are asked for.
    """
    given = given_rows(**_KEYS, firsts=BigInteger, lasts=BigInteger)
    payload = cast(events.c.payload, Text) if payloads else literal_column("NULL::text")
    return Statement(
        select(
            events.c.app_name,
            events.c.user_id,
            events.c.session_id,
            events.c.seq,
            events.c.event_id,
            payload.label("payload"),
        ).join_from(
            given,
            events,
            and_(_same(given, events), events.c.seq.between(given.c.firsts, given.c.lasts)),
        )
    )


@cache
def select_known() -> Statement[KnownParameters]:
    """Reads which of some event ids a session has before a number."""
    return Statement(
        select(events.c.event_id).where(
            in_scope(events),
            events.c.session_id == SESSION_ID,
            events.c.event_id == func.any(bindparam("event_ids", type_=ARRAY(Text))),
            events.c.seq < bindparam("before", type_=BigInteger),
        )
    )


def _given_sessions() -> TableValuedAlias:
    return given_rows(
        **_KEYS,
        states=Text,
        revisions=BigInteger,
        created=_TIME,
        updated=_TIME,
        places=BigInteger,
        sizes=BigInteger,
        initials=Text,
        ttls=Double,
        ends=_TIME,
    )


def _past(time: ColumnElement[Any]) -> ColumnElement[Any]:
    """A time, but none that lies ahead: what is newest wins, and is not pruned."""
    return func.least(time, func.now())


def _span(given: TableValuedAlias) -> ColumnElement[Any]:
    return func.make_interval(0, 0, 0, 0, 0, 0, given.c.ttls)


@cache
def insert_sessions() -> Statement[SessionsParameters]:
    """Creates sessions; returns those that it created, by app_name, user_id and session_id."""
    given = _given_sessions()
    source = select(
        given.c.app_names,
        given.c.user_ids,
        given.c.session_ids,
        cast(given.c.states, JSONB),
        given.c.revisions,
        _past(given.c.created),
        _past(given.c.updated),
        given.c.places,
        given.c.sizes,
        cast(given.c.initials, JSONB),
        _span(given),
        given.c.ends,
        given.c.ends.is_not(None),
        _past(given.c.updated),
    ).order_by(given.c.app_names, given.c.user_ids, given.c.session_ids)
    names = ["app_name", "user_id", "session_id", "state", "revision", "created_at", "updated_at"]
    names += ["memory_position", "payload_bytes", "initial_state", "ttl", "expires_at", "expires"]
    names += ["settled_at"]
    return Statement(
        insert(sessions)
        .from_select(names, source)
        .on_conflict_do_nothing()
        .returning(sessions.c.app_name, sessions.c.user_id, sessions.c.session_id)
    )


@cache
def advance_sessions() -> Statement[SessionsParameters]:
    """Moves sessions, which the transaction holds, to the revision of their new last event."""
    given = _given_sessions()
    return Statement(
        update(sessions)
        .where(_same(given, sessions), sessions.c.revision < given.c.revisions)
        .values(
            state=cast(given.c.states, JSONB),
            revision=given.c.revisions,
            revision_token=null(),
            updated_at=_past(given.c.updated),
            settled_at=_past(given.c.updated),
            ttl=func.coalesce(_span(given), sessions.c.ttl),
            expires_at=func.coalesce(given.c.ends, sessions.c.expires_at),
            payload_bytes=sessions.c.payload_bytes + given.c.sizes,
            memory_position=func.coalesce(sessions.c.memory_position, given.c.places),
        )
    )


@cache
def insert_events() -> Statement[EventsParameters]:
    """Writes events of sessions that the transaction holds or created."""
    given = given_rows(**_KEYS, seqs=BigInteger, event_ids=Text, timestamps=_TIME, payloads=Text)
    names = ["app_name", "user_id", "session_id", "seq", "event_id", "timestamp", "payload"]
    return Statement(
        insert(events).from_select(
            names,
            select(
                given.c.app_names,
                given.c.user_ids,
                given.c.session_ids,
                given.c.seqs,
                given.c.event_ids,
                given.c.timestamps,
                cast(given.c.payloads, JSON),
            ),
        )
    )


@cache
def merge_app_states() -> Statement[AppStatesParameters]:
    """Merges states of apps into those that are stored; of a key in both, the later wins."""
    given = given_rows(app_names=Text, states=Text, updated=_TIME)
    return Statement(_merging(app_states, ["app_name"], [given.c.app_names], given))


@cache
def merge_user_states() -> Statement[UserStatesParameters]:
    """Merges states of users into those that are stored; of a key in both, the later wins."""
    given = given_rows(app_names=Text, user_ids=Text, states=Text, updated=_TIME)
    key = [given.c.app_names, given.c.user_ids]
    return Statement(_merging(user_states, ["app_name", "user_id"], key, given))


def _merging(table: Any, names: list[str], key: list[Any], given: TableValuedAlias) -> Any:
    # A state of unknown time is older than any that is stored.
    beginning = func.to_timestamp(literal_column("0"))
    updated = _past(func.coalesce(given.c.updated, beginning))
    statement = insert(table).from_select(
        [*names, "state", "updated_at"],
        select(*key, cast(given.c.states, JSONB), updated).order_by(*key),
    )
    new = statement.excluded
    later = new.updated_at >= table.c.updated_at
    return statement.on_conflict_do_update(
        index_elements=names,
        set_={
            "state": case(
                (later, table.c.state.op("||")(new.state)),
                else_=new.state.op("||")(table.c.state),
            ),
            "updated_at": func.greatest(table.c.updated_at, new.updated_at),
        },
    )


@cache
def select_app_states() -> Statement[AppsParameters]:
    """Reads the states of apps: app_name, state (JSON text), updated_at."""
    names = bindparam("app_names", type_=ARRAY(Text))
    return Statement(
        select(
            app_states.c.app_name,
            cast(app_states.c.state, Text).label("state"),
            app_states.c.updated_at,
        ).where(app_states.c.app_name == func.any(names))
    )


@cache
def select_user_states() -> Statement[UsersParameters]:
    """Reads the states of users: app_name, user_id, state (JSON text), updated_at."""
    given = given_rows(app_names=Text, user_ids=Text)
    both = and_(
        user_states.c.app_name == given.c.app_names, user_states.c.user_id == given.c.user_ids
    )
    return Statement(
        select(
            user_states.c.app_name,
            user_states.c.user_id,
            cast(user_states.c.state, Text).label("state"),
            user_states.c.updated_at,
        ).join_from(given, user_states, both)
    )
