"""Audit: notes each change with the change, or before it and then what became of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from adkpg import jsontext
from adkpg.audit import statements
from adkpg.audit.actor import current
from adkpg.database import Database
from adkpg.errors import InvalidInput
from adkpg.keys import APP_WIDE, ScopeKey, Users, asked_user, require_storable, scope_user
from adkpg.limits import page_rows
from adkpg.pages import Page, cursor_of, place_of
from adkpg.queries import Nothing, Query
from adkpg.telemetry.calls import on, traced

_LONGEST = 200


@dataclass(frozen=True)
class AuditEntry:
    """One change.

    Attributes:
      app_name: The app.
      user_id: Whose rows were changed; None if they are the app's, or the person was forgotten.
      changed_at: When.
      actor: Who did it.
      action: What was done, such as ``delete_memory``.
      subject: Which memory or session; None if it was all.
      outcome: ``begun`` if its end is unknown, ``done``, or the error that ended it.
    """

    app_name: str
    user_id: str | None
    changed_at: datetime
    actor: str
    action: str
    subject: str | None
    outcome: str


@traced(
    entries=on("audit"),
)
class Audit:
    """What was erased, and what people changed by hand in the console.

    Each call that erases leaves an entry, whichever door it comes by, if it found something: in the
    transaction that erases, or begun before the first batch and done after the last. What expires
    by itself leaves none. `acting_as` names who did it.

    An entry is one of the person's rows: forgetting them erases it. So a change that erases a
    person is noted of the app, and has no user's id.

    Args:
      database: Where the changes are made.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def __repr__(self) -> str:
        return f"Audit({self._database!r})"

    @asynccontextmanager
    async def recording(
        self,
        *,
        app_name: str,
        user_id: str | None,
        action: str,
        actor: str | None = None,
        subject: str | None = None,
    ) -> AsyncIterator[None]:
        """Notes a change before what runs inside makes it, and then how that ended.

        Args:
          app_name: The app.
          user_id: Whose rows are changed; None are the app's own.
          action: What is done.
          actor: Who does it; None is whom `acting_as` names. A longer name is cut to its first 200
            characters.
          subject: To which memory or session.

        Raises:
          InvalidInput: An id cannot be stored; nothing ran.
          DatabaseError: The change could not be noted; nothing ran.
        """
        require_storable(app_name=app_name, user_id=user_id)
        scope: ScopeKey = {"app_name": app_name, "user_id": scope_user(user_id)}
        audit_id = str(uuid4())
        begun = _entry(scope, audit_id, actor, action, subject, "begun")
        await self._database.run.fetch(begun)
        try:
            yield
        except Exception as exc:
            await self._database.run.fetch(
                statements.end_entry(**scope, audit_id=audit_id, outcome=type(exc).__name__)
            )
            raise
        # A cancelled one may have ended either way: begun.
        await self._database.run.fetch(
            statements.end_entry(**scope, audit_id=audit_id, outcome="done")
        )

    async def entries(
        self,
        *,
        app_name: str | None = None,
        user_id: str | Users = Users.ALL,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[AuditEntry]:
        """Returns some changes, newest first.

        Args:
          app_name: An app's; None is every app's.
          user_id: A user's, or `Users`.
          limit: At most this many, at least 1, and at most ``ADKPG_MAX_RESULTS``.
          cursor: The `next_cursor` of the page before; None starts at the newest.

        Raises:
          InvalidInput: `limit` is below 1, an id cannot be stored, or `cursor` did not come from a
            page.
        """
        limit = page_rows(self._database.settings, limit)
        require_storable(app_name=app_name)
        user = asked_user(user_id)
        if app_name is None or user is None:
            self._database.run.require_every_scope()
        place = (None, None)
        if cursor is not None:
            place = place_of(cursor, datetime, str)
            _require_id(place[1])
        if app_name is not None and user is not None:
            query = statements.select_entries_of_user(
                app_name=app_name,
                user_id=user,
                after_time=place[0],
                after_id=place[1],
                limit=limit + 1,
            )
        else:
            query = statements.select_entries(
                of_app=app_name,
                of_user=user,
                after_time=place[0],
                after_id=place[1],
                limit=limit + 1,
            )
        rows = await self._database.run.fetch(query)
        following = None
        if len(rows) > limit:
            last = rows[limit - 1]
            following = cursor_of(last["changed_at"], last["audit_id"])
        entries = [
            AuditEntry(
                row["app_name"],
                None if row["user_id"] == APP_WIDE else row["user_id"],
                row["changed_at"],
                row["actor"],
                row["action"],
                row["subject"],
                row["outcome"],
            )
            for row in rows[:limit]
        ]
        return Page(entries, following)


def done(scope: ScopeKey, *, action: str, subject: str | None = None) -> Query[Nothing]:
    """Notes a change in the transaction that makes it.

    Args:
      scope: Whose rows are changed.
      action: What is done.
      subject: To which memory or session.
    """
    return _entry(scope, str(uuid4()), None, action, subject, "done")


def _entry(
    scope: ScopeKey,
    audit_id: str,
    actor: str | None,
    action: str,
    subject: str | None,
    outcome: str,
) -> Query[Nothing]:
    return statements.insert_entry(
        app_name=scope["app_name"],
        user_id=scope["user_id"],
        audit_id=audit_id,
        actor=jsontext.storable(current() if actor is None else actor)[:_LONGEST],
        action=jsontext.storable(action)[:_LONGEST],
        subject=None if subject is None else jsontext.storable(subject),
        outcome=outcome,
    )


def _require_id(value: object) -> None:
    try:
        UUID(str(value))
    except ValueError as exc:
        raise InvalidInput(
            "The cursor did not come from a page of this listing; give its next_cursor, or no "
            "cursor to start."
        ) from exc
