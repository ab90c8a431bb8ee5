"""Rules: what goes with what, one line for each table that has rows of an app or of a person. Pure.

Erasing, retention, exports and imports ask this table. Whose a row is, its columns say: one with
``user_id`` is a person's, one with ``session_id`` belongs to the session, too. A new kind of row is
a line here; a test refuses a table without one.
"""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Table

from adkpg import tables


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What goes with the rows of a table.

    The order of `RULES` is that in which tables are erased and locked: what refers to others comes
    before them.

    Attributes:
      table: The table.
      line: The type of its lines in an export; None: its rows do not travel.
      stays: Why they do not travel; None: they do.
      without: Columns that do not travel, because a database makes them itself.
      over: When a row is over, in SQL of the table's columns, as retention asks it; None: it goes
        with what it belongs to. ``:days`` is the setting of `days`.
      days: The setting that `over` goes by.
      order: The column that comes before the key in the index of what is over; None: the key's own
        order finds it.
      old: When a row is old, in SQL of the table as ``t``, as a call asks it that says how old;
        ``:before`` is the time. None: no call does.
      batch: How many rows go in one transaction; None is the usual number.
      counted: The table whose rows go with an old one, and are told; None: the row itself is.
      needed: When a row that is over is needed still, in SQL of the table as ``t``; then its
        `renewed` column becomes the time. None: never.
      renewed: The column that says when a row was last needed.
      renews: The table of marks that are needed for a while from when a row goes; None: none is.
      mark: The table that keeps an erased row of an event from coming back; None: none does.
      drawn: The table that says what was drawn from a row, and goes with it; None: nothing is.
      objects: Whether rows name objects of an object store. The bytes go after the rows.
    """

    table: Table
    line: str | None = None
    stays: str | None = None
    without: frozenset[str] = frozenset()
    over: str | None = None
    days: Literal["tombstone_days", "audit_days", "task_days"] | None = None
    order: str | None = None
    old: str | None = None
    batch: int | None = None
    counted: Table | None = None
    needed: str | None = None
    renewed: str | None = None
    renews: Table | None = None
    mark: Table | None = None
    drawn: Table | None = None
    objects: bool = False

    @property
    def personal(self) -> bool:
        """Whether its rows are persons'; else they are an app's."""
        return "user_id" in self.table.columns

    @property
    def of_sessions(self) -> bool:
        """Whether its rows belong to sessions."""
        return "session_id" in self.table.columns

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of its primary key, in order."""
        return tuple(column.name for column in self.table.primary_key)


_DERIVED = "derives from the memories"
_RUNS = "is of what runs in this database"
_OWN = "says what was done in this database"

RULES = (
    Rule(table=tables.artifact_chunks, line="artifact_chunk"),
    Rule(table=tables.task_events, line="task_event"),
    Rule(table=tables.memory_vectors, stays=_DERIVED),
    Rule(table=tables.memory_provenance, stays="is in the lines of what was drawn"),
    Rule(table=tables.memory_jobs, stays=_DERIVED),
    Rule(table=tables.invocation_waiters, stays=_RUNS),
    Rule(
        table=tables.invocation_results, stays=_RUNS, over="expires_at <= now()", order="expires_at"
    ),
    Rule(
        table=tables.events,
        line="event",
        without=frozenset({"revision_token"}),
        old="t.timestamp < :before",
        batch=5_000,
    ),
    Rule(table=tables.artifacts, line="artifact", objects=True),
    Rule(
        table=tables.artifact_uploads,
        stays="is not saved yet",
        over="began_at < now() - interval '48 hours'",
        objects=True,
    ),
    Rule(table=tables.approximate_scopes, stays=_DERIVED),
    Rule(
        table=tables.user_states,
        line="user_state",
        old="t.updated_at < :before AND NOT EXISTS (SELECT FROM {schema}.sessions AS s"
        " WHERE s.app_name = t.app_name AND s.user_id = t.user_id)",
    ),
    Rule(
        table=tables.tasks,
        line="task",
        without=frozenset({"revision_token"}),
        over="ends_at < now() - make_interval(secs => :days::float8 * 86400)",
        days="task_days",
        order="ends_at",
    ),
    Rule(
        table=tables.sessions,
        line="session",
        without=frozenset(
            {
                "incarnation",
                "revision_token",
                "payload_bytes",
                "settled_at",
                "expires",
                "invocation_holder",
                "invocation_expires_at",
                "invocation_lease_s",
                "watched_until",
            }
        ),
        over="expires AND expires_at <= now()",
        old="greatest(t.updated_at, t.created_at) < :before OR t.expires_at <= now()",
        batch=100,
        counted=tables.events,
        renews=tables.memory_tombstones,
    ),
    Rule(table=tables.saved_questions, line="saved_question"),
    Rule(
        table=tables.memory_tombstones,
        line="tombstone",
        over="needed_at < now() - make_interval(secs => :days::float8 * 86400)",
        days="tombstone_days",
        order="needed_at",
        needed="EXISTS (SELECT FROM {schema}.events AS e WHERE e.app_name = t.app_name"
        " AND e.user_id = t.user_id AND e.session_id = t.session_id AND e.event_id = t.event_id)",
        renewed="needed_at",
    ),
    Rule(table=tables.memory_lexemes, stays=_DERIVED),
    Rule(
        table=tables.memories,
        line="memory",
        without=frozenset({"length", "speech"}),
        over="expires_at <= now() AND superseded_by IS NULL",
        order="expires_at",
        mark=tables.memory_tombstones,
        drawn=tables.memory_provenance,
    ),
    Rule(
        table=tables.audit,
        stays=_OWN,
        over="changed_at < now() - make_interval(secs => :days::float8 * 86400)",
        days="audit_days",
        order="changed_at",
    ),
    Rule(table=tables.app_states, line="app_state", without=frozenset({"writers"})),
    Rule(table=tables.app_settings, line="app_settings", without=frozenset({"updated_at"})),
)
"""All of them, in the order of erasing and locking."""

PERSONAL = tuple(rule for rule in RULES if rule.personal)
"""Those of persons."""

BY_TABLE = {rule.table.name: rule for rule in RULES}
"""All of them by the table's name."""
