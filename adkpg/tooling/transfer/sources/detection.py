"""Detection: which of ADK's writers made a database, by its tables alone. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from adkpg.errors import ConfigurationError
from adkpg.tooling.transfer.sources.statements import A2A_TABLES, TASK_JSON, Layout

_GO = {"routes_json", "output_json", "node_info_json", "requested_input_json", "isolation_scope"}
_JS_KEY = 191

_Columns = Mapping[str, tuple[str, int | None]]


def tables_of(rows: Sequence[Any]) -> dict[str, dict[str, dict[str, tuple[str, int | None]]]]:
    """Returns the columns' types and lengths by schema, table and column."""
    found: dict[str, dict[str, dict[str, tuple[str, int | None]]]] = {}
    for row in rows:
        columns = found.setdefault(row.place, {}).setdefault(row.table_name, {})
        columns[row.column_name] = (str(row.data_type), row.length)
    return found


def is_of_adk(tables: Mapping[str, _Columns]) -> bool:
    """Whether tables are those of a session service of ADK's."""
    events, sessions = tables.get("events", {}), tables.get("sessions", {})
    known = "event_data" in events or "actions" in events
    return known and {"app_name", "user_id", "id", "state", "update_time"} <= sessions.keys()


def has_tasks(tables: Mapping[str, _Columns]) -> bool:
    """Whether the A2A sdk's task store has its table among these."""
    return {"id", "context_id", *TASK_JSON} <= tables.get("tasks", {}).keys()


def is_legacy(tables: Mapping[str, _Columns]) -> bool:
    """Whether an event of ADK's has a column for each field."""
    return "event_data" not in tables["events"]


def layout_of(
    name: str, dialect: str, schema: str | None, tables: Mapping[str, _Columns]
) -> Layout:
    """Returns how a database of ADK's is laid out.

    Args:
      name: What a message calls it.
      dialect: The database's.
      schema: The Postgres schema.
      tables: Its tables.

    Raises:
      ConfigurationError: These are no tables of ADK's.
    """
    of_adk, of_a2a = is_of_adk(tables), has_tasks(tables)
    if not of_adk and not of_a2a:
        raise ConfigurationError(
            f"{name} has no tables of ADK's session services, and no tasks of the A2A sdk's; name "
            "a database or file that has."
        )
    legacy = of_adk and is_legacy(tables)
    writer = "python"
    if of_adk:
        writer = _legacy_writer(tables["events"]) if legacy else _writer(dialect, tables)
    return Layout(
        dialect=dialect,
        schema=schema,
        legacy=legacy,
        writer=writer,
        columns={
            table: frozenset(columns)
            for table, columns in tables.items()
            if (of_a2a if table in A2A_TABLES else of_adk)  # else another program's of that name
        },
    )


def _legacy_writer(events: _Columns) -> str:
    return "go" if _GO & events.keys() else "python"


def _writer(dialect: str, tables: Mapping[str, _Columns]) -> str:
    type_, _ = tables["events"]["timestamp"]
    if dialect == "sqlite":
        if type_ == "REAL" and "adk_internal_metadata" not in tables:
            return "sqlite_service"
        return "js" if type_ == "datetime" else "python"
    _, length = tables["events"]["app_name"]
    return "js" if length == _JS_KEY or type_ == "timestamp with time zone" else "python"
