"""Statements of the session service. Each is built once per shape and does no I/O.

Every call of the service is one of these: one flight to the server. Row locks are taken in the
order session, app state, user state, and the order is forced by data: each step reads what the one
before returned, since Postgres runs sibling CTEs in whatever order the outer SELECT pulls them.
"""

from functools import cache
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    BindParameter,
    ColumnElement,
    Delete,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    literal,
    null,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB, TIMESTAMP, UUID, insert

from adkpg.memory.statements import written
from adkpg.sessions import outbox
from adkpg.tables import app_states, events, sessions, user_states

APP_NAME = bindparam("app_name", type_=Text)
USER_ID = bindparam("user_id", type_=Text)
SESSION_ID = bindparam("session_id", type_=Text)
EVENT_ID = bindparam("event_id", type_=Text)
_LIMIT = bindparam("limit", type_=BigInteger)


def _moment(name: str) -> BindParameter[Any]:
    return bindparam(name, type_=TIMESTAMP(timezone=True))


def _json(name: str) -> ColumnElement[Any]:
    return cast(bindparam(name, type_=Text), JSONB)


def _this_session() -> ColumnElement[bool]:
    return and_(
        sessions.c.app_name == APP_NAME,
        sessions.c.user_id == USER_ID,
        sessions.c.session_id == SESSION_ID,
    )


def _its_events() -> ColumnElement[bool]:
    return and_(
        events.c.app_name == APP_NAME,
        events.c.user_id == USER_ID,
        events.c.session_id == SESSION_ID,
    )


_APP_STATE = (
    select(cast(app_states.c.state, Text))
    .where(app_states.c.app_name == APP_NAME)
    .scalar_subquery()
)


def _user_state(user_id: ColumnElement[str]) -> Any:
    return (
        select(cast(user_states.c.state, Text))
        .where(user_states.c.app_name == APP_NAME, user_states.c.user_id == user_id)
        .scalar_subquery()
    )


_IDENTITY = (
    sessions.c.user_id,
    sessions.c.session_id,
    cast(sessions.c.incarnation, Text).label("incarnation"),
    sessions.c.revision,
    sessions.c.update_time,
)
_LISTED = (*_IDENTITY, sessions.c.create_time, cast(sessions.c.state, Text).label("state"))


@cache
def create_session(*, app: bool, user: bool) -> Select[Any]:
    """Inserts a session and merges the shared states it starts with; no row if it exists.

    Parameters: app_name, user_id, session_id, session_state, moment, and app_delta, user_delta
    where asked for. Returns the session's identity and the shared states after the merge.
    """
    created = (
        insert(sessions)
        .values(
            app_name=APP_NAME,
            user_id=USER_ID,
            session_id=SESSION_ID,
            state=_json("session_state"),
            create_time=_moment("moment"),
            update_time=_moment("moment"),
        )
        .on_conflict_do_nothing()
        .returning(
            sessions.c.app_name,
            sessions.c.user_id,
            sessions.c.session_id,
            cast(sessions.c.incarnation, Text).label("incarnation"),
            sessions.c.revision,
            sessions.c.update_time,
            cast(sessions.c.state, Text).label("state"),
        )
        .cte("created")
    )
    app_cte, user_cte = _shared_states(created, app=app, user=user)
    return _with(
        select(
            created,
            (_returned(app_cte) if app_cte is not None else _APP_STATE).label("app_state"),
            (_returned(user_cte) if user_cte is not None else _user_state(USER_ID)).label(
                "user_state"
            ),
        ),
        app_cte,
        user_cte,
    )


@cache
def append_event(
    *, session: bool, app: bool, user: bool, merge: bool, remember: bool = False
) -> Select[Any]:
    """Appends an event where the session is as expected and the event is new; one row always.

    The session is moved to its next revision, which is the event's ``seq``; a scope's state is
    merged (``state || delta``) only where there is a delta. `merge` compares the incarnation but
    not the revision. `remember` writes the event's memory, its words and its place in the queue,
    behind the session's last memory.

    Parameters: app_name, user_id, session_id, event_id, moment, payload, incarnation, revision
    (without `merge`), and session_delta, app_delta, user_delta where asked for; block, config and
    those of `outbox.parameters` with `remember`.

    Returns one row. ``revision`` and ``update_time`` are null if nothing was appended; then, as
    the statement's snapshot saw them, ``found_incarnation`` and ``found_revision`` tell a missing
    from a stale session, and ``stored_seq`` and ``stored_payload`` a redelivered event.
    """
    known = (
        select(events.c.seq, cast(events.c.payload, Text).label("payload"))
        .where(_its_events(), events.c.event_id == EVENT_ID)
        .cte("known")
    )
    expected = [sessions.c.incarnation == cast(bindparam("incarnation", type_=Text), UUID)]
    if not merge:
        expected.append(sessions.c.revision == bindparam("revision", type_=BigInteger))
    values: dict[Any, Any] = {
        sessions.c.revision: sessions.c.revision + 1,
        sessions.c.update_time: _moment("moment"),
    }
    if session:
        values[sessions.c.state] = sessions.c.state.op("||")(_json("session_delta"))
    if remember:
        first = bindparam("block", type_=BigInteger)
        values[sessions.c.memory_position] = func.coalesce(sessions.c.memory_position, first) + 1
    moved = (
        update(sessions)
        .where(_this_session(), *expected, ~exists(select(known.c.seq)))
        .values(values)
        .returning(
            sessions.c.app_name,
            sessions.c.user_id,
            sessions.c.session_id,
            sessions.c.revision,
            sessions.c.update_time,
            *([sessions.c.memory_position] if remember else []),
        )
        .cte("moved")
    )
    app_cte, user_cte = _shared_states(moved, app=app, user=user)
    appended = (
        insert(events)
        .from_select(
            ["app_name", "user_id", "session_id", "seq", "event_id", "timestamp", "payload"],
            select(
                moved.c.app_name,
                moved.c.user_id,
                moved.c.session_id,
                moved.c.revision,
                EVENT_ID,
                _moment("moment"),
                cast(bindparam("payload", type_=Text), JSON),
            ),
        )
        .cte("appended")
    )
    found = (
        select(sessions.c.incarnation, sessions.c.revision).where(_this_session()).subquery("found")
    )
    one = select(literal(1).label("one")).subquery("one")
    return _with(
        select(
            moved.c.revision,
            moved.c.update_time,
            cast(found.c.incarnation, Text).label("found_incarnation"),
            found.c.revision.label("found_revision"),
            known.c.seq.label("stored_seq"),
            known.c.payload.label("stored_payload"),
        ).select_from(
            one.outerjoin(moved, true()).outerjoin(found, true()).outerjoin(known, true())
        ),
        app_cte,
        user_cte,
        appended,
        *(written(outbox.memory_of(moved)) if remember else ()),
    )


@cache
def select_head() -> Select[Any]:
    """Reads where a session stands: its marker, its last event's id, and one event if stored.

    Parameters: app_name, user_id, session_id, event_id. No row if the session does not exist.
    """
    last = (
        select(events.c.event_id)
        .where(_its_events())
        .order_by(events.c.seq.desc())
        .limit(1)
        .scalar_subquery()
    )
    stored = (
        select(events.c.seq, cast(events.c.payload, Text).label("payload"))
        .where(_its_events(), events.c.event_id == EVENT_ID)
        .subquery("stored")
    )
    return (
        select(
            cast(sessions.c.incarnation, Text).label("found_incarnation"),
            sessions.c.revision.label("found_revision"),
            sessions.c.update_time,
            last.label("last_event_id"),
            stored.c.seq.label("stored_seq"),
            stored.c.payload.label("stored_payload"),
        )
        .select_from(sessions.outerjoin(stored, true()))
        .where(_this_session())
    )


@cache
def select_session(*, events_wanted: bool, after: bool, recent: bool) -> Select[Any]:
    """Reads a session, the shared states and its events, in one snapshot and one row.

    Parameters: app_name, user_id, session_id; after (a moment, inclusive) and limit where asked
    for. No row if the session does not exist. ``payloads`` is in append order.
    """
    columns: list[Any] = [
        *_IDENTITY,
        cast(sessions.c.state, Text).label("state"),
        _APP_STATE.label("app_state"),
        _user_state(USER_ID).label("user_state"),
    ]
    if events_wanted:
        chosen = select(events.c.seq, events.c.payload).where(_its_events())
        if after:
            chosen = chosen.where(events.c.timestamp >= _moment("after"))
        if recent:
            chosen = chosen.order_by(events.c.seq.desc()).limit(_LIMIT)
        part = chosen.subquery("part")
        in_order = select(cast(part.c.payload, Text)).order_by(part.c.seq)
        columns.append(func.array(in_order.scalar_subquery()).label("payloads"))
    return select(*columns).where(_this_session())


@cache
def list_sessions(*, one_user: bool) -> Select[Any]:
    """Reads all sessions of an app or of one user, ordered as ADK wants them.

    Parameters: app_name, and user_id where asked for. Oldest update first, then user and id.
    """
    wanted = sessions.c.app_name == APP_NAME
    if one_user:
        wanted = and_(wanted, sessions.c.user_id == USER_ID)
    return _listing(select(*_LISTED).where(wanted), "update_time", newest_first=False)


@cache
def list_sessions_page(*, one_user: bool, after: bool) -> Select[Any]:
    """Reads one page of sessions, newest first: a user's by last update, an app's by creation.

    Parameters: app_name, limit, user_id where asked for, and after_moment, after_user_id,
    after_session_id where a page went before.
    """
    moment = "update_time" if one_user else "create_time"
    page = select(*_LISTED).where(sessions.c.app_name == APP_NAME)
    if one_user:
        page = page.where(sessions.c.user_id == USER_ID)
    key = (sessions.c[moment], sessions.c.user_id, sessions.c.session_id)
    if after:
        page = page.where(
            tuple_(*key)
            < tuple_(
                _moment("after_moment"),
                bindparam("after_user_id", type_=Text),
                bindparam("after_session_id", type_=Text),
            )
        )
    page = page.order_by(*(column.desc() for column in key)).limit(_LIMIT)
    return _listing(page, moment, newest_first=True)


def _listing(chosen: Select[Any], moment: str, *, newest_first: bool) -> Select[Any]:
    """Orders a listing and adds the shared states; each travels once, on its first row."""
    page = chosen.subquery("page")
    key = (page.c[moment], page.c.user_id, page.c.session_id)
    order = [column.desc() if newest_first else column.asc() for column in key]
    place = func.row_number().over(order_by=order)
    place_of_user = func.row_number().over(partition_by=page.c.user_id, order_by=order)
    return select(
        *page.c,
        case((place == 1, _APP_STATE), else_=null()).label("app_state"),
        case((place_of_user == 1, _user_state(page.c.user_id)), else_=null()).label("user_state"),
    ).order_by(*order)


@cache
def list_events_page() -> Select[Any]:
    """Reads one page of a session's events in append order.

    Parameters: app_name, user_id, session_id, after_seq (0 for the first page), limit.
    """
    return (
        select(events.c.seq, cast(events.c.payload, Text).label("payload"))
        .where(_its_events(), events.c.seq > bindparam("after_seq", type_=BigInteger))
        .order_by(events.c.seq)
        .limit(_LIMIT)
    )


@cache
def select_user_state() -> Select[Any]:
    """Reads a user's state. Parameters: app_name, user_id."""
    return select(_user_state(USER_ID).label("state"))


@cache
def delete_session() -> Delete:
    """Deletes a session; its events go with it. Parameters: app_name, user_id, session_id."""
    return delete(sessions).where(_this_session())


def _shared_states(written: CTE, *, app: bool, user: bool) -> tuple[CTE | None, CTE | None]:
    """Merges the shared deltas for the session row that was written: the app's, then the user's."""
    app_cte = user_cte = None
    if app:
        upsert = insert(app_states).from_select(
            ["app_name", "state"], select(written.c.app_name, _json("app_delta"))
        )
        app_cte = (
            upsert.on_conflict_do_update(
                index_elements=["app_name"],
                set_={
                    "state": app_states.c.state.op("||")(upsert.excluded.state),
                    "update_time": func.now(),
                },
            )
            .returning(cast(app_states.c.state, Text).label("state"))
            .cte("app")
        )
    if user:
        source = select(written.c.app_name, written.c.user_id, _json("user_delta"))
        if app_cte is not None:  # reads the app's row first, so it is locked first
            source = source.where(select(func.count()).select_from(app_cte).scalar_subquery() >= 0)
        upsert = insert(user_states).from_select(["app_name", "user_id", "state"], source)
        user_cte = (
            upsert.on_conflict_do_update(
                index_elements=["app_name", "user_id"],
                set_={
                    "state": user_states.c.state.op("||")(upsert.excluded.state),
                    "update_time": func.now(),
                },
            )
            .returning(cast(user_states.c.state, Text).label("state"))
            .cte("shared")
        )
    return app_cte, user_cte


def _returned(cte: CTE) -> Any:
    return select(cte.c.state).scalar_subquery()


def _with(statement: Select[Any], *ctes: CTE | Any) -> Select[Any]:
    for cte in ctes:
        if cte is not None:
            statement = statement.add_cte(cte)
    return statement
