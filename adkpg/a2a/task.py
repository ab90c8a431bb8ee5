"""Task: how it is written, and what its events make of it. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from a2a.server.cluster import TaskVersion
from a2a.server.events.event_queue import Event
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import (
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InvalidAgentResponseError
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import Error, MessageToJson, Parse
from google.protobuf.message import Message

from adkpg.errors import InvalidInput
from adkpg.keys import ScopeKey

Change: TypeAlias = TaskStatusUpdateEvent | TaskArtifactUpdateEvent
"""An event that changes a part of a task."""

FINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_REJECTED,
    }
)
"""States that end a task."""

RUNNING = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})
"""States that a process works in; in others a task has ended, or waits for a client."""


class TaskKey(ScopeKey):
    """One task of one user."""

    task_id: str


class StoredVersion(TaskVersion):
    """A revision of a stored task, as the sdk hands it back.

    Args:
      revision: The number.
      place: The task.
      token: The revision's own.
      task: What is stored, if the one who saves next may be given it to compare with.
    """

    __slots__ = ("place", "revision", "task", "token")

    def __init__(self, revision: int, place: TaskKey, token: str, task: Task | None = None) -> None:
        super().__init__(revision)
        self.revision = revision
        self.place = place
        self.token = token
        self.task = task


def written(message: Message) -> str:
    """Returns ProtoJSON, which is the same for equal messages.

    Raises:
      InvalidInput: It holds what JSON does not know, such as NaN.
    """
    try:
        # The maps of protobuf have another order in each process.
        return MessageToJson(message, indent=None, sort_keys=True)
    except Error as exc:
        raise InvalidInput(f"A task cannot be written as JSON ({exc}); leave NaN out.") from exc


def written_event(event: Event) -> str:
    """Returns the ProtoJSON of an event."""
    return written(to_stream_response(event))


def read(payload: str, events: Sequence[str]) -> Task:
    """Returns a task as its events have left it."""
    task = Parse(payload, Task(), ignore_unknown_fields=True)
    for each in events:
        apply(task, read_event(each))
    return task


def read_event(payload: str) -> Change:
    """Returns an event."""
    response = Parse(payload, StreamResponse(), ignore_unknown_fields=True)
    return (
        response.artifact_update if response.HasField("artifact_update") else response.status_update
    )


def apply(task: Task, event: Change) -> None:
    """Changes a task by an event, as the sdk's ``TaskManager`` does.

    Raises:
      InvalidAgentResponseError: It continues a result that the task does not have.
    """
    if isinstance(event, TaskArtifactUpdateEvent):
        append_artifact_to_task(task, event)
        return
    said = task.status.HasField("message")
    if said and task.status.message != event.status.message:  # a cancellation keeps what was said
        task.history.append(task.status.message)
    if event.metadata:
        task.metadata.MergeFrom(event.metadata)
    task.status.CopyFrom(event.status)


def brought_to(task: Task, before: Task | None, event: Event) -> bool:
    """Changes what is stored by an event, and returns whether it is the task then.

    If it is not, it is of no use any more.
    """
    if before is None or not isinstance(event, TaskStatusUpdateEvent | TaskArtifactUpdateEvent):
        return False
    try:
        apply(before, event)
    except InvalidAgentResponseError:
        return False
    return before == task


def canceled(task: Task) -> TaskStatusUpdateEvent:
    """Returns the event that a task is canceled by, whatever else it became meanwhile."""
    return TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)


def copied(task: Task) -> Task:
    """Returns a copy that shares nothing with a task."""
    copy = Task()
    copy.CopyFrom(task)
    return copy


def state_name(task: Task) -> str:
    """Returns the name of a task's state, as the protocol has it."""
    return TaskState.Name(task.status.state)


def status_time(task: Task) -> datetime | None:
    """Returns the time of a task's status, to the microsecond; None if it has none."""
    if not task.status.HasField("timestamp"):
        return None
    return task.status.timestamp.ToDatetime(tzinfo=UTC)
