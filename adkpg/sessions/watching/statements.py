"""Statements that watch a session. Each is built once and does no I/O."""

from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Text, bindparam, cast, func, literal_column, or_, select, update

from adkpg.sessions.statements import (
    REVISION,
    REVISION_TOKEN,
    TOKEN_THERE,
    its_events,
    live_session,
    token_of,
    watch_key,
)
from adkpg.sql import SessionParameters, Statement
from adkpg.tables import events, sessions

_LEASE: Any = literal_column("interval '60 seconds'")
_FRESH: Any = literal_column("interval '30 seconds'")


class NewsParameters(SessionParameters):
    """Where the watcher stands, and how many events it takes."""

    revision: int
    revision_token: str | None
    limit: int


@cache
def select_position() -> Statement[SessionParameters]:
    """Reads where a session stands: ``incarnation``, ``revision`` and ``revision_token``.

    And ``key``, the name by which appends tell of it. No row if there is no such session.
    """
    return Statement(
        select(
            cast(sessions.c.incarnation, Text).label("incarnation"),
            sessions.c.revision,
            token_of(sessions),
            watch_key(sessions).label("key"),
        ).where(live_session())
    )


@cache
def keep_watched() -> Statement[SessionParameters]:
    """Makes appends tell of themselves for another minute; writes nothing if others just did."""
    stale = or_(sessions.c.watched_until.is_(None), sessions.c.watched_until < func.now() + _FRESH)
    return Statement(
        update(sessions).where(live_session(), stale).values(watched_until=func.now() + _LEASE)
    )


@cache
def select_news() -> Statement[NewsParameters]:
    """Reads some events after a revision in append order, and what became of that revision.

    Returns a row for each event, and one without an event (``seq`` is null) if there is none: the
    session's ``incarnation``, ``went_back`` (whether storage lost the revision), ``seq``,
    ``revision_token`` and ``payload``. No row if there is no such session.
    """
    news = (
        select(
            events.c.seq,
            cast(events.c.revision_token, Text).label("revision_token"),
            cast(events.c.payload, Text).label("payload"),
        )
        .where(its_events(), events.c.seq > REVISION)
        .order_by(events.c.seq)
        .limit(bindparam("limit", type_=BigInteger))
        .subquery("news")
    )
    went_back = or_(sessions.c.revision < REVISION, REVISION_TOKEN != TOKEN_THERE)
    return Statement(
        select(
            cast(sessions.c.incarnation, Text).label("incarnation"),
            func.coalesce(went_back, literal_column("false")).label("went_back"),
            news,
        )
        .select_from(sessions.outerjoin(news, literal_column("true")))
        .where(live_session())
        .order_by(news.c.seq)
    )
