"""Statements of the session service that read. Each is built once per shape and does no I/O."""

from datetime import datetime
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    exists,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import UUID

from adkpg.keys import ScopeKey, SessionKey
from adkpg.queries import Place
from adkpg.sessions.statements import (
    APP_STATE,
    APP_STATE_VERSION,
    REVISION,
    REVISION_TOKEN,
    TOKEN_THERE,
    expected,
    its_events,
    live_session,
    time,
    token_of,
    unexpired,
    user_state,
    user_state_version,
)
from adkpg.sql import APP_NAME, USER_ID, Statement
from adkpg.tables import app_states, events, sessions, user_states

_LIMIT = bindparam("limit", type_=BigInteger)
_BEFORE_ALL = literal_column("'-9223372036854775808'::bigint", BigInteger)
# Of a session's events read together. One counts 4 kB besides its payload, so 1,000 always fill it.
_PAGE_EVENTS = 1_000
_PAGE_BYTES = 4_000_000

_IDENTITY = (
    sessions.c.user_id,
    sessions.c.session_id,
    cast(sessions.c.incarnation, Text).label("incarnation"),
    sessions.c.revision,
    sessions.c.updated_at,
)
STANDING = (
    *_IDENTITY,
    token_of(sessions),
    cast(sessions.c.state, Text).label("state"),
    APP_STATE.label("app_state"),
    user_state(USER_ID).label("user_state"),
    APP_STATE_VERSION.label("app_state_version"),
    user_state_version(USER_ID).label("user_state_version"),
)
"""A session's row and the shared states, with their versions."""
_LISTED = (sessions.c.app_name, *_IDENTITY, sessions.c.created_at, sessions.c.state)


class SessionEventsParameters(SessionKey):
    """`after` is inclusive, `limit` counts the last events; None where they are not asked for."""

    after: datetime | None
    limit: int | None


class SessionAgainParameters(SessionKey):
    """Up to which revision the caller has events, its token, and how many they are; or None."""

    incarnation: str | None
    revision: int | None
    revision_token: str | None
    count: int | None


class FurtherEventsParameters(SessionKey):
    """Where the page before ended, and the session as its first page was read."""

    incarnation: str
    revision: int
    revision_token: str
    next_seq: int
    after: datetime | None


class ListParameters(TypedDict):
    """A user's sessions, or the app's with None; at most so many, and bytes of states with them."""

    app_name: str
    user_id: str | None
    limit: int
    most_bytes: int


class SessionsPageParameters(ListParameters):
    """The last session of the page before, None on the first page."""

    after_time: datetime | None
    after_user_id: str | None
    after_session_id: str | None


class EventsPageParameters(SessionKey):
    """The last event of the page before, 0 on the first page."""

    after_seq: int
    limit: int


@cache
def select_session(
    *, events_wanted: bool, after: bool, recent: bool
) -> Statement[SessionEventsParameters]:
    """Reads a session, the shared states and its events, in one snapshot and one row.

    No row if the session does not exist. ``payloads`` is in append order; ``next_seq`` says where
    the events go on that there was no room for.
    """
    if not events_wanted:
        return Statement(select(*STANDING).where(live_session()))
    chosen = select(events.c.seq, events.c.payload).where(its_events())
    if after:
        chosen = chosen.where(events.c.timestamp >= time("after"))
    if recent:
        chosen = chosen.order_by(events.c.seq.desc()).limit(_LIMIT)
    return Statement(_with_page(chosen, *STANDING), long=True)


@cache
def select_further_events(*, after: bool) -> Statement[FurtherEventsParameters]:
    """Reads the events that a session's row had no room for; rows are as `select_session` says.

    No row if the session is no more the one that was read.
    """
    chosen = select(events.c.seq, events.c.payload).where(
        its_events(),
        events.c.seq >= bindparam("next_seq", type_=BigInteger),
        events.c.seq <= REVISION,
    )
    if after:
        chosen = chosen.where(events.c.timestamp >= time("after"))
    return Statement(_with_page(chosen).where(expected(later=True)))


def _with_page(chosen: Select[Any], *columns: Any) -> Select[Any]:
    """The session with the first of chosen events, and in ``next_seq`` the first one left out.

    Most sessions are small by the count that appends keep, and nothing of theirs is measured.
    """
    each = literal_column(str(_PAGE_BYTES // _PAGE_EVENTS), BigInteger)
    full = literal_column(str(_PAGE_BYTES), BigInteger)
    small = sessions.c.payload_bytes.between(sessions.c.revision, full - each * sessions.c.revision)
    some = chosen.subquery("some")
    # As they are stored, which is compressed: no payload is unpacked to be measured, nor kept.
    size = func.pg_column_size(some.c.payload) + each
    before = func.sum(size).over(order_by=some.c.seq, rows=(None, 0)) - size
    measured = (
        select(some.c.seq, before.label("before"))
        .order_by(some.c.seq)
        .limit(literal_column(str(_PAGE_EVENTS + 1)))
        .subquery("measured")
    )
    rest = select(func.min(measured.c.seq)).where(measured.c.before >= full)
    page = (
        select(case((small, null()), else_=rest.scalar_subquery()).label("next_seq"))
        .correlate(sessions)
        .offset(literal_column("0"))  # else it would be worked out for each use
        .lateral("page")
    )
    again = chosen.subquery("chosen")
    payloads = (
        select(cast(again.c.payload, Text))
        .where(again.c.seq < func.coalesce(page.c.next_seq, literal_column(str(2**63 - 1))))
        .order_by(again.c.seq)
        .correlate(page)
    )
    return (
        select(*columns, func.array(payloads.scalar_subquery()).label("payloads"), page.c.next_seq)
        .select_from(sessions.join(page, true()))
        .where(live_session())
    )


@cache
def select_session_again() -> Statement[SessionAgainParameters]:
    """Reads a session like `select_session`, but only the events that the caller lacks.

    The caller has those up to a revision. It has them still, and ``had`` is true, if the session
    is the same incarnation, the event of that revision has the same token (a restored database
    or a standby may have another history), and none of those events was deleted. Else ``had`` is
    not true and ``payloads`` are all events. Those that there was no room for begin with
    ``next_seq``.
    """
    count = select(func.count()).select_from(events).where(its_events(), events.c.seq <= REVISION)
    known = (
        select(
            and_(
                sessions.c.incarnation == cast(bindparam("incarnation", type_=Text), UUID),
                TOKEN_THERE == REVISION_TOKEN,
                count.scalar_subquery() == bindparam("count", type_=BigInteger),
            ).label("had")
        )
        .where(live_session())
        .cte("known")
    )
    start = select(case((known.c.had, REVISION), else_=_BEFORE_ALL)).scalar_subquery()
    missing = select(events.c.seq, events.c.payload).where(its_events(), events.c.seq > start)
    had = select(known.c.had).scalar_subquery().label("had")
    return Statement(_with_page(missing, *STANDING, had), long=True)


@cache
def list_sessions(*, one_user: bool) -> Statement[ListParameters]:
    """Reads the sessions of an app or of one user: oldest update first, then by user and id.

    Any of them, if there are more than the limit or the bytes.
    """
    wanted = and_(sessions.c.app_name == APP_NAME, unexpired())
    if one_user:
        wanted = and_(wanted, sessions.c.user_id == USER_ID)
    page = select(*_LISTED).where(wanted).limit(_LIMIT)
    return _listing(page, "updated_at", newest_first=False, one_user=one_user)


@cache
def list_sessions_page(*, one_user: bool, after: bool) -> Statement[SessionsPageParameters]:
    """Reads one page of sessions, newest first: a user's by last update, an app's by creation."""
    if one_user:
        newest_of_user = _newest_of_user(after=after)
        return _listing(newest_of_user, "updated_at", newest_first=True, one_user=True)
    order = "created_at"
    newest = sessions.alias("newest")
    page = select(*_place(newest, order)).where(newest.c.app_name == APP_NAME, unexpired(newest))
    if after:
        page = page.where(_after_cursor(newest, order))
    page = page.order_by(*(column.desc() for column in _place(newest, order))).limit(_LIMIT)
    places = page.cte("places").prefix_with("MATERIALIZED")
    row = (
        select(*_LISTED)
        .where(
            sessions.c.app_name == APP_NAME,
            sessions.c.user_id == places.c.user_id,
            sessions.c.session_id == places.c.session_id,
        )
        # Found by key: a limit that the planner does not know looks to it like a tenth of all.
        .offset(literal_column("0"))
        .lateral("row")
    )
    page = select(*row.c).select_from(places.join(row, true()))
    return _listing(page, order, newest_first=True, one_user=False)


def _newest_of_user(*, after: bool) -> Select[Any]:
    """The active sessions, which are sorted, and the settled ones, which an index has in order."""
    either = []
    for order, of_kind in (
        ("updated_at", sessions.c.settled_at.is_(None)),
        ("settled_at", sessions.c.settled_at.is_not(None)),
    ):
        page = select(*_LISTED).where(
            sessions.c.app_name == APP_NAME, sessions.c.user_id == USER_ID, of_kind, unexpired()
        )
        if after:
            page = page.where(_after_cursor(sessions, order, one_user=True))
        newest = (sessions.c[order].desc(), sessions.c.session_id.desc())
        either.append(page.order_by(*newest).limit(_LIMIT).subquery(order))
    both = union_all(*map(select, either)).subquery("both")
    place = _place(both, "updated_at")
    return select(*both.c).order_by(*(column.desc() for column in place)).limit(_LIMIT)


def _place(table: Any, order: str) -> tuple[ColumnElement[Any], ...]:
    return table.c[order], table.c.user_id, table.c.session_id


def _after_cursor(table: Any, order: str, *, one_user: bool = False) -> ColumnElement[bool]:
    """What comes after the page before; of one user, whom the cursor names, as an index has it."""
    time_at, user_id, session_id = _place(table, order)
    after_time = time("after_time")
    after_user, after_session = (
        bindparam(name, type_=Text) for name in ("after_user_id", "after_session_id")
    )
    if one_user:
        return tuple_(time_at, session_id) < tuple_(after_time, after_session)
    return tuple_(time_at, user_id, session_id) < tuple_(after_time, after_user, after_session)


def _listing(
    chosen: Select[Any], order: str, *, newest_first: bool, one_user: bool
) -> Statement[Any]:
    """Orders a listing and adds the shared states; each travels once, on its first row.

    Each session is given with its states and the shared ones, so all of these count for each: the
    listing ends where they are too many bytes together, after one session at least. ``size`` is
    what each counts, ``number`` goes from 1 on, and ``listed`` says how many there would be.

    States become text here, and tokens are read: below a limit, those that are not on the page
    would too.
    """
    page = chosen.cte("page")
    place = [column.desc() if newest_first else column.asc() for column in _place(page, order)]
    each = select(page.c.user_id).distinct().subquery("each")
    of_user = select(_size(user_states)).where(
        user_states.c.app_name == APP_NAME,
        user_states.c.user_id == (USER_ID if one_user else each.c.user_id),
    )
    users = select(each.c.user_id, of_user.scalar_subquery().label("bytes")).cte("users")
    # Else a user's state would be measured for each session.
    users = users.prefix_with("MATERIALIZED")
    of_app = select(_size(app_states)).where(app_states.c.app_name == APP_NAME)
    size = (
        _size(page) + func.coalesce(of_app.scalar_subquery(), 0) + func.coalesce(users.c.bytes, 0)
    )
    number = func.row_number().over(order_by=place)
    number_of_user = number
    if not one_user:
        number_of_user = func.row_number().over(partition_by=page.c.user_id, order_by=place)
    measured = (
        select(
            *page.c,
            size.label("size"),
            number.label("number"),
            number_of_user.label("number_of_user"),
            func.sum(size).over(order_by=place, rows=(None, 0)).label("bytes"),
            func.count().over().label("listed"),
        )
        .select_from(page.outerjoin(users, users.c.user_id == page.c.user_id))
        .subquery("measured")
    )
    state_of_user = user_state(USER_ID if one_user else measured.c.user_id)
    listing = (
        select(
            *(measured.c[each.key] for each in page.c if each.key != "state"),
            measured.c.size,
            measured.c.number,
            measured.c.listed,
            token_of(measured),
            cast(measured.c.state, Text).label("state"),
            case((measured.c.number == 1, APP_STATE), else_=null()).label("app_state"),
            case((measured.c.number == 1, APP_STATE_VERSION), else_=null()).label(
                "app_state_version"
            ),
            case((measured.c.number_of_user == 1, state_of_user), else_=null()).label("user_state"),
        )
        .where(
            or_(
                measured.c.number == 1,
                measured.c.bytes <= bindparam("most_bytes", type_=BigInteger),
            )
        )
        .order_by(measured.c.number)
    )
    return Statement(listing, place=Place.ANYWHERE if one_user else Place.EACH_PART)


def _size(table: Any) -> ColumnElement[int]:
    """How many bytes a state has as text."""
    return func.octet_length(cast(table.c.state, Text))


@cache
def list_events_page() -> Statement[EventsPageParameters]:
    """Reads one page of a session's events in append order."""
    page = (
        select(events.c.seq, cast(events.c.payload, Text).label("payload"))
        .where(
            exists(select(sessions.c.session_id).where(live_session())),
            its_events(),
            events.c.seq > bindparam("after_seq", type_=BigInteger),
        )
        .order_by(events.c.seq)
        .limit(_LIMIT)
    )
    return Statement(page)


@cache
def select_user_state() -> Statement[ScopeKey]:
    """Reads a user's state."""
    return Statement(select(user_state(USER_ID).label("state")))
