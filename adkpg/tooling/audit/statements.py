"""Statements of the audit table. No I/O."""

from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Integer, Text, bindparam, cast, literal, select, true, tuple_, update
from sqlalchemy.dialects.postgresql import TIMESTAMP, UUID, insert

from adkpg.keys import ScopeKey
from adkpg.sql import APP_NAME, USER_ID, Statement, in_scope
from adkpg.tables import audit

_AUDIT_ID = cast(bindparam("audit_id", type_=Text), UUID(as_uuid=False))


class EntryParameters(ScopeKey):
    """Parameters of `begin`."""

    audit_id: str
    actor: str
    action: str
    subject: str | None


class OutcomeParameters(ScopeKey):
    """Parameters of `end`."""

    audit_id: str
    outcome: str


class PageParameters(ScopeKey):
    """Parameters of `select_entries`; app and user are ignored where nobody asks for them."""

    after_time: datetime | None
    after_id: str | None
    limit: int


@cache
def begin() -> Statement[EntryParameters]:
    """Notes a change that is about to be made; again, it does nothing."""
    return Statement(
        insert(audit)
        .values(
            app_name=APP_NAME,
            user_id=USER_ID,
            audit_id=_AUDIT_ID,
            actor=bindparam("actor", type_=Text),
            action=bindparam("action", type_=Text),
            subject=bindparam("subject", type_=Text),
            outcome=literal("begun", Text),
        )
        .on_conflict_do_nothing()
    )


@cache
def end() -> Statement[OutcomeParameters]:
    """Notes what became of a change; nothing, if its person was forgotten meanwhile."""
    return Statement(
        update(audit)
        .where(in_scope(audit), audit.c.audit_id == _AUDIT_ID)
        .values(outcome=bindparam("outcome", type_=Text))
    )


@cache
def select_entries(*, app: bool, user: bool, following: bool) -> Statement[PageParameters]:
    """Reads a page of changes, newest first: all, an app's, or a user's."""
    after: Any = tuple_(
        bindparam("after_time", type_=TIMESTAMP(timezone=True)),
        cast(bindparam("after_id", type_=Text), UUID(as_uuid=False)),
    )
    return Statement(
        select(
            audit.c.app_name,
            audit.c.user_id,
            cast(audit.c.audit_id, Text).label("audit_id"),
            audit.c.changed_at,
            audit.c.actor,
            audit.c.action,
            audit.c.subject,
            audit.c.outcome,
        )
        .where(
            audit.c.app_name == APP_NAME if app else true(),
            audit.c.user_id == USER_ID if user else true(),
            tuple_(audit.c.changed_at, audit.c.audit_id) < after if following else true(),
        )
        .order_by(audit.c.changed_at.desc(), audit.c.audit_id.desc())
        .limit(bindparam("limit", type_=Integer))
    )
