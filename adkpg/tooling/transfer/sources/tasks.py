"""Tasks: rows of the A2A sdk's own task store as records. Pure; needs a2a-sdk."""

import json
from datetime import datetime
from typing import Any

from a2a.compat.v0_3.model_conversions import compat_task_model_to_core
from a2a.server.models import TaskModel
from a2a.types import Task
from google.protobuf.json_format import Error, ParseDict

from adkpg.a2a.owner import anonymous
from adkpg.a2a.task import FINAL, RUNNING, state_name, status_time, written
from adkpg.errors import InvalidInput
from adkpg.keys import require_storable
from adkpg.tooling.transfer.kinds import KINDS
from adkpg.tooling.transfer.records import Unread
from adkpg.tooling.transfer.sources.clock import read_time
from adkpg.tooling.transfer.sources.selection import Selection

_VERSION = "1.0"  # other rows, and those that say none, are of 0.3


def read_task(row: Any, selection: Selection, now: datetime) -> Any:
    """Returns the record of a task, or why there is none; None if it is not wanted.

    Args:
      row: The row, as `statements.select_tasks` reads it.
      selection: What is wanted. Its app is that of a task which names none.
      now: The time of a task without any.
    """
    app_name, user_id = selection.app_name, row.owner or None
    try:
        metadata = _value(row.metadata)
        app_name = _named(metadata, "adk_app_name") or app_name
        # The sdk's owner may be a name that no server has checked, which ADK's user never is.
        user_id = _named(metadata, "adk_user_id") or user_id or anonymous(row.context_id)
        if not selection.takes(app_name or "", user_id):
            return None
        task = _task(row, metadata)
        updated_at = read_time(row.last_updated) or status_time(task)
        if not selection.takes_time(updated_at):
            return None
        if app_name is None:
            raise InvalidInput("nothing tells its app; import it again with --app.")
        return _record(task, app_name, user_id, updated_at or now, now)
    except InvalidInput as exc:
        reason = str(exc)
    except (Error, TypeError, ValueError, RecursionError) as exc:  # a column holds any JSON
        reason = f"it cannot be read ({' '.join(str(exc).split())[:200]})."
    return Unread(
        reason=f"task {row.id!r}: {reason}",
        app_name=app_name,
        user_id=user_id,
        session_id=row.context_id,
    )


def _value(text: Any) -> Any:
    return None if text is None else json.loads(text)


def _named(metadata: Any, name: str) -> str | None:
    """Returns a name that ADK has written into a task's metadata; None if it has not."""
    value = metadata.get(name) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) and value else None


def _task(row: Any, metadata: Any) -> Task:
    status, artifacts, history = (_value(each) for each in (row.status, row.artifacts, row.history))
    if row.protocol_version != _VERSION:
        return compat_task_model_to_core(
            TaskModel(
                id=row.id,
                context_id=row.context_id,
                status=status,
                artifacts=artifacts,
                history=history,
                task_metadata=metadata,
            )
        )
    fields = {
        "id": row.id,
        "contextId": row.context_id,
        "status": status,
        "artifacts": artifacts,
        "history": history,
        "metadata": metadata,
    }
    return ParseDict({name: value for name, value in fields.items() if value}, Task())


def _record(task: Task, app_name: str, user_id: str, at: datetime, now: datetime) -> Any:
    require_storable(
        app_name=app_name, user_id=user_id, task_id=task.id, session_id=task.context_id
    )
    # No process works on it any more: its first reader finds it FAILED.
    is_over = task.status.state in FINAL | RUNNING
    return KINDS["task"].record(
        app_name=app_name,
        user_id=user_id,
        task_id=task.id,
        session_id=task.context_id,
        state=state_name(task),
        payload=written(task),
        revision=1,
        payload_revision=1,
        created_at=at,
        updated_at=at,
        status_at=status_time(task),
        ends_at=min(at, now) if is_over else None,
    )
