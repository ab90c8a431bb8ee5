"""Statements that read ADK's databases, whichever dialect they are in. No I/O."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Double,
    LargeBinary,
    Select,
    Text,
    and_,
    case,
    cast,
    collate,
    column,
    func,
    literal,
    literal_column,
    null,
    select,
    table,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB

A2A_TABLES = ("tasks", "push_notification_configs")
"""Those of the A2A sdk's stores, which ADK may have beside its own."""

TABLES = (
    *("sessions", "events", "app_states", "user_states", "adk_internal_metadata"),
    *A2A_TABLES,
)
"""Those of ADK."""

_MILLISECONDS = 1e11


@dataclass(frozen=True)
class Layout:
    """How a database of ADK's is laid out.

    Attributes:
      dialect: ``sqlite``, ``postgresql`` or ``mysql``.
      schema: The Postgres schema; None in the others.
      legacy: Whether an event has a column for each field (schema v0), or one of JSON (v1).
      writer: ``python``, ``sqlite_service``, ``js`` or ``go``; of sessions.
      columns: Names of the columns of each table; without ``sessions`` if ADK has none there, and
        without ``tasks`` if the A2A sdk has none.
    """

    dialect: str
    schema: str | None
    legacy: bool
    writer: str
    columns: dict[str, frozenset[str]]


def select_columns(dialect: str) -> Select[Any]:
    """Reads the columns of all tables that are called as ADK's or the A2A sdk's.

    Returns place (the schema), table_name, column_name, data_type, length.
    """
    if dialect == "sqlite":
        master = table("sqlite_master", column("name"), column("type"))
        info = func.pragma_table_info(master.c.name).table_valued("name", "type", name="info")
        return (
            select(
                literal_column("''").label("place"),
                master.c.name.label("table_name"),
                info.c.name.label("column_name"),
                info.c.type.label("data_type"),
                null().label("length"),
            )
            .select_from(master.join(info, true()))
            .where(master.c.type == literal("table"), master.c.name.in_(TABLES))
        )
    names = ("table_schema", "table_name", "column_name", "data_type", "character_maximum_length")
    columns = table("columns", *(column(name) for name in names), schema="information_schema")
    found = select(
        columns.c.table_schema.label("place"),
        columns.c.table_name.label("table_name"),
        columns.c.column_name.label("column_name"),
        columns.c.data_type.label("data_type"),
        columns.c.character_maximum_length.label("length"),
    ).where(columns.c.table_name.in_(TABLES))
    if dialect == "mysql":
        return found.where(columns.c.table_schema == func.database())
    return found


def select_search_path() -> Select[Any]:
    """Reads the Postgres schemas in which a name without one is looked for, in order."""
    schema = func.unnest(func.current_schemas(literal_column("false"))).column_valued("place")
    return select(cast(schema, Text))


def select_version(layout_schema: str | None) -> Select[Any]:
    """Reads the value of ADK's schema version."""
    metadata = table("adk_internal_metadata", column("key"), column("value"), schema=layout_schema)
    return select(metadata.c.value).where(metadata.c.key == literal("schema_version"))


def _table(layout: Layout, name: str) -> Any:
    return table(name, *(column(each) for each in layout.columns[name]), schema=layout.schema)


def _bytes(layout: Layout, value: ColumnElement[Any]) -> ColumnElement[Any]:
    """A text that is ordered by its bytes, whatever the collation is."""
    if layout.dialect == "postgresql":
        return collate(cast(value, Text), "C")
    if layout.dialect == "mysql":
        return cast(value, LargeBinary)
    return collate(value, "BINARY")


def _text(layout: Layout, value: ColumnElement[Any]) -> ColumnElement[Any]:
    """JSON as text."""
    return value if layout.dialect == "sqlite" else cast(value, Text)


def _wanted(source: Any, app_name: str | None, user_id: str | None) -> list[ColumnElement[bool]]:
    conditions = []
    if app_name is not None:
        conditions.append(source.c.app_name == literal(app_name))
    if user_id is not None and "user_id" in source.c:
        conditions.append(source.c.user_id == literal(user_id))
    return conditions


def count_events(layout: Layout, app_name: str | None, user_id: str | None) -> Select[Any]:
    """Counts the events."""
    events = _table(layout, "events")
    return select(func.count()).select_from(events).where(*_wanted(events, app_name, user_id))


def _newest(layout: Layout, app_name: str | None, user_id: str | None) -> CTE:
    events = _table(layout, "events")
    key = (events.c.app_name, events.c.user_id, events.c.session_id)
    return (
        select(*key, func.max(events.c.timestamp).label("newest"))
        .where(*_wanted(events, app_name, user_id))
        .group_by(*key)
        .cte("newest")
    )


def select_newest(layout: Layout, app_name: str | None, user_id: str | None) -> Select[Any]:
    """Reads of each session its update and the newest time of its events: updated, newest."""
    sessions, newest = _table(layout, "sessions"), _newest(layout, app_name, user_id)
    same = and_(
        newest.c.app_name == sessions.c.app_name,
        newest.c.user_id == sessions.c.user_id,
        newest.c.session_id == sessions.c.id,
    )
    return select(sessions.c.update_time.label("updated"), newest.c.newest).join_from(
        sessions, newest, same
    )


def select_shared(
    layout: Layout, name: str, app_name: str | None, user_id: str | None
) -> Select[Any]:
    """Reads the states of apps or users: their keys, state (JSON text), update_time."""
    states = _table(layout, name)
    keys = [states.c[key] for key in ("app_name", "user_id") if key in states.c]
    return select(*keys, _text(layout, states.c.state).label("state"), states.c.update_time).where(
        *_wanted(states, app_name, user_id)
    )


def select_sessions(layout: Layout, app_name: str | None, user_id: str | None) -> Select[Any]:
    """Reads sessions in the order of their keys' bytes; states are JSON text."""
    sessions = _table(layout, "sessions")
    key = (sessions.c.app_name, sessions.c.user_id, sessions.c.id)
    return (
        select(
            sessions.c.app_name,
            sessions.c.user_id,
            sessions.c.id,
            _text(layout, sessions.c.state).label("state"),
            sessions.c.create_time,
            sessions.c.update_time,
        )
        .where(*_wanted(sessions, app_name, user_id))
        .order_by(*(_bytes(layout, each) for each in key))
    )


def select_events(
    layout: Layout, names: tuple[str, ...], app_name: str | None, user_id: str | None
) -> Select[Any]:
    """Reads events in the order of their sessions' keys' bytes, and as ADK orders them within.

    The events of schema v1 have their instant in their JSON, which tells the order where the column
    has local times of two halves of a year.
    """
    events = _table(layout, "events")
    key = (events.c.app_name, events.c.user_id, events.c.session_id)
    order = [_bytes(layout, each) for each in key]
    if not layout.legacy:
        order.append(_instant(layout, events.c.event_data))
    order.append(events.c.timestamp)
    if layout.writer == "python" or layout.dialect == "mysql":
        order.append(_bytes(layout, events.c.id))
    elif layout.dialect == "sqlite":
        order.append(literal_column("events.rowid"))
    else:
        order.append(literal_column("events.ctid"))
    columns = [
        _text(layout, events.c[name]).label(name) if name in JSON_COLUMNS else events.c[name]
        for name in names
    ]
    return select(*columns).where(*_wanted(events, app_name, user_id)).order_by(*order)


def count_tasks(layout: Layout) -> Select[Any]:
    """Counts the tasks of A2A."""
    return select(func.count()).select_from(_table(layout, "tasks"))


def select_tasks(layout: Layout) -> Select[Any]:
    """Reads the tasks of A2A; JSON is text, and what an old table lacks is null."""
    tasks = _table(layout, "tasks")
    plain = ("id", "context_id", "owner", "last_updated", "protocol_version")
    columns = [(tasks.c[name] if name in tasks.c else null()).label(name) for name in plain]
    texts = [_text(layout, tasks.c[name]).label(name) for name in TASK_JSON]
    return select(*columns, *texts)


TASK_JSON = ("status", "artifacts", "history", "metadata")
"""Columns of a task that are JSON."""

JSON_COLUMNS = frozenset(
    {
        "event_data",
        "content",
        "grounding_metadata",
        "custom_metadata",
        "usage_metadata",
        "citation_metadata",
        "input_transcription",
        "output_transcription",
        "routes_json",
        "output_json",
        "node_info_json",
        "requested_input_json",
    }
)
"""Columns of JSON, which are read as text."""


def _instant(layout: Layout, data: ColumnElement[Any]) -> ColumnElement[Any]:
    """The instant of an event in Unix seconds, by its JSON; null where that has none."""
    name: ColumnElement[Any] = literal_column("'timestamp'")
    path: ColumnElement[Any] = literal_column("'$.timestamp'")
    if layout.dialect == "postgresql":
        value = func.jsonb_extract_path(cast(data, JSONB), name)
        number = case(
            (
                func.jsonb_typeof(value) == literal_column("'number'"),
                cast(cast(value, Text), Double),
            )
        )
    elif layout.dialect == "mysql":
        number = case(
            (func.json_valid(data), cast(func.json_extract(data, path), Double)),
        )
    else:
        number = case((func.json_valid(data), func.json_extract(data, path)))
    return case(
        (number >= literal_column(str(_MILLISECONDS)), number / literal_column("1000.0")),
        else_=number,
    )
