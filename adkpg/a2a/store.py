"""DatabaseTaskStore: the tasks of A2A, next to the sessions that answer them."""

import json
import logging
import warnings
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from a2a.server.cluster import (
    ConcurrentTaskModificationError,
    StoredTask,
    TaskEventStream,
    TaskVersion,
    VersionedTaskStore,
)
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.types import ListTasksRequest, ListTasksResponse, Message, Task, TaskState
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.task import decode_page_token, encode_page_token

from adkpg.a2a import statements
from adkpg.a2a.owner import OwnerResolver, anonymous, app_here, authenticated
from adkpg.a2a.running import Running
from adkpg.a2a.stream import TaskEvents
from adkpg.a2a.task import (
    FINAL,
    StoredVersion,
    TaskKey,
    brought_to,
    canceled,
    copied,
    read,
    state_name,
    status_time,
    written,
    written_event,
)
from adkpg.a2a.words import GONE, for_peers
from adkpg.database import COMPARED, Database, UsesDatabase
from adkpg.interface.internal import internal
from adkpg.keys import require_storable, storable
from adkpg.limits import require_size
from adkpg.telemetry.calls import on, traced

_UNSTREAMED = "A VersionedTaskStore was configured without an event_stream"
_SUBSCRIBING = ("SubscribeToTask", "tasks/resubscribe")


@traced(save=on("tasks"), get=on("tasks"), list=on("tasks"), delete=on("tasks"))
class DatabaseTaskStore(UsesDatabase, VersionedTaskStore):
    """A versioned task store of the A2A sdk on Postgres, for agents of ADK.

    A task belongs to an app and to the user whose session answers it: the name that the server has
    authenticated, or ADK's ``A2A_USER_<context>`` of a caller without one. No other user, app or
    context finds it. It goes when the person is forgotten or its session is deleted, and a run
    that goes on does not write it again.

    Each save is one round trip that compares the revision before it, so no update is lost; what an
    event adds is a row of its own. A state that ends a task stays. Where the process of a running
    task is gone for ``ADKPG_INVOCATION_LEASE_S``, the next one to read the task finds it FAILED.

    Errors are the sdk's, in words that name nothing of the database, since peers are shown them.

    Args:
      database: A `Database` to share (it stays open when the store closes), or a URL.
      app_name: The app of all its tasks; None: each request tells it, if ADK's app has
        `lifespan` or `adkpg.adk.QueuedRuns`.
      owner_resolver: Returns the user of a request, where a ``request_converter`` of yours names
        another user than ADK does; ``""`` is a caller without a name.
      **options: With a URL: for a `Database` of its own.

    Raises:
      ConfigurationError: No database is named, or it cannot be read.
    """

    def __init__(
        self,
        database: Database | str | None = None,
        *,
        app_name: str | None = None,
        owner_resolver: OwnerResolver | None = None,
        **options: Any,
    ) -> None:
        super().__init__(database, **options)
        require_storable(app_name=app_name)
        self._app_name = app_name
        self._owner = owner_resolver or authenticated
        self._running = Running(self._database)
        self._mark = f"adkpg:{uuid4()}"
        self._events: TaskEvents | None = None
        _let_adk_make_handlers()

    def _told(self) -> dict[str, object]:
        return {} if self._app_name is None else {"app_name": self._app_name}

    @internal
    def of_app(self, app_name: str) -> "DatabaseTaskStore":
        """Returns a store of one app's tasks on the same Database, which it leaves open."""
        return DatabaseTaskStore(self._database, app_name=app_name, owner_resolver=self._owner)

    @property
    def app_name(self) -> str | None:
        """The app of all its tasks; None: each request tells it."""
        return self._app_name

    @property
    @internal
    def running(self) -> Running:
        """The tasks that this process works on."""
        return self._running

    @internal
    def place(self, task_id: str, context_id: str, context: ServerCallContext) -> TaskKey:
        """Returns what a task of a context is stored under.

        Args:
          task_id: The task.
          context_id: The context, of which a caller without a name is the user.
          context: The request.

        Raises:
          ConfigurationError: Nothing tells the app.
          InvalidInput: An id cannot be stored.
        """
        return self._place(task_id, self._owner(context) or anonymous(context_id))

    @internal
    def known(self, context: ServerCallContext) -> set[str]:
        """Returns the ids of the tasks that a request has found or saved."""
        known: set[str] = context.state.setdefault(self._mark, set())
        return known

    @internal
    def require_kept(self, message: Message, context: ServerCallContext) -> None:
        """Refuses a message that cannot be kept, before a task begins.

        Raises:
          InvalidParamsError: It is too large, or an id cannot be stored.
          InternalError: Nothing tells the app.
        """
        with for_peers():
            self._sized(written(message))
            self.place(message.task_id, message.context_id, context)

    def event_stream(self) -> TaskEventStream:
        """Returns what a request handler is given as its ``event_stream``.

        With it, who subscribes at another process than the one that works on a task gets the
        events as they come. Without it, such a subscription is refused.
        """
        if self._events is None:
            self._events = TaskEvents(self._database)
        return self._events

    async def save(
        self,
        task: Task,
        *,
        event: Event | None,
        prev: Task | None = None,
        prev_version: TaskVersion,
        context: ServerCallContext,
    ) -> TaskVersion:
        """Writes a task, or the event that made it of what is stored.

        Args:
          task: As it is now.
          event: What made it, if a single event did.
          prev: As the sdk gives it; the version knows what is stored.
          prev_version: What it was made of; ``TaskVersion.MISSING`` is nothing. For a task that is
            canceled, whatever is stored counts.
          context: The request.

        Returns:
          The version that it has now.

        Raises:
          ConcurrentTaskModificationError: What is stored is of another version, has
            ended, or is gone.
          TaskNotFoundError: It was erased while it was worked on.
          InvalidParamsError: An id cannot be stored, or the task is too large.
          InternalError: The database refused.
        """
        with for_peers():
            require_storable(context_id=task.context_id)
            place = self.place(task.id, task.context_id, context)
            read_at = prev_version if isinstance(prev_version, StoredVersion) else None
            before = None if read_at is None else read_at.task
            state = task.status.state
            token = str(uuid4())
            values: dict[str, Any] = {
                **place,
                "state": state_name(task),
                "status_at": status_time(task),
                "token": token,
                "lease_s": self._database.settings.invocation_lease_s,
            }
            if state == TaskState.TASK_STATE_CANCELED:
                # Not as a whole, so that what others have added meanwhile stays.
                values |= {"revision": None, "before": None}
                payload = self._sized(written_event(canceled(task)))
                query = statements.add_event(**values, payload=payload)
            elif prev_version.is_missing:
                if task.id in self.known(context):
                    raise TaskNotFoundError  # it is gone, and its run would write it once more
                payload = self._sized(written(task))
                query = statements.insert_task(
                    **values, session_id=task.context_id, payload=payload
                )
            else:
                values |= {
                    "revision": prev_version._value,
                    "before": None if read_at is None else read_at.token,
                }
                if event is not None and brought_to(task, before, event):
                    payload = self._sized(written_event(event))
                    query = statements.add_event(**values, payload=payload)
                else:
                    before = None
                    query = statements.replace_task(
                        **values, session_id=task.context_id, payload=written(task)
                    )
            self._running.saving(place, token)
            rows = await self._database.run.fetch(query, policy=COMPARED)
            if not rows:
                raise ConcurrentTaskModificationError(task.id)
            self._running.saved(place, state)
            self.known(context).add(task.id)
            if before is None and state not in FINAL:
                before = copied(task)
            return StoredVersion(rows[0]["revision"], place, token, before)

    async def get(self, task_id: str, context: ServerCallContext) -> StoredTask | None:
        """Returns a task of the request's user with its version; None if there is none.

        Raises:
          PushNotificationNotSupportedError: It is asked for to configure push notifications.
          UnsupportedOperationError: It is asked for to subscribe to it, this process does not
            work on it, and the handler has no ``event_stream``.
          InternalError: The database refused.
        """
        method = str(context.state.get("method"))
        if "pushnotificationconfig" in method.lower():
            raise PushNotificationNotSupportedError  # no process would deliver them
        with for_peers():
            place = await self._asked_for(task_id, context)
            if place is None:
                return None
            rows = await self._database.run.fetch(statements.select_task(**place))
            if not rows:
                return None
            (row,) = rows
            self.known(context).add(task_id)
            if row["lapsed"]:
                await self._fail_lapsed(place["app_name"], place["user_id"], task_id)
                return await self.get(task_id, context)
            task = read(row["payload"], row["events"])
            if (
                method in _SUBSCRIBING
                and self._events is None
                and task.status.state not in FINAL
                and place not in self._running.held()
            ):
                raise UnsupportedOperationError(
                    "No process here works on this task; get it again later, or send it a message."
                )
            return StoredTask(task, StoredVersion(row["revision"], place, row["token"]))

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Returns a page of the tasks of the request's user, the latest status first.

        A caller without a name is one for each context, and so has to name it.

        Raises:
          InvalidParamsError: A caller without a name names no context; the page token is none.
          InternalError: The database refused.
        """
        user = self._owner(context)
        if not user:
            if not params.context_id:
                raise InvalidParamsError(
                    "Without authentication, tasks are listed context by context; give contextId."
                )
            user = anonymous(params.context_id)
        size = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE
        since = None
        if params.HasField("status_timestamp_after"):
            since = params.status_timestamp_after.ToDatetime(tzinfo=UTC)
        with for_peers():
            after_at, after_id = _position(params.page_token)
            place = self._place("", user)
            query = statements.select_page(
                app_name=place["app_name"],
                user_id=user,
                session_id=params.context_id or None,
                state=TaskState.Name(params.status) if params.status else None,
                since=since,
                after_at=after_at,
                after_id=after_id,
                limit=size + 1,
            )
            rows = await self._database.run.fetch(query)
            if rows[0]["lapsed"]:
                await self._fail_lapsed(place["app_name"], user, None)
                rows = await self._database.run.fetch(query)
            tasks = [read(row["payload"], row["events"]) for row in rows if row["payload"]]
            return ListTasksResponse(
                tasks=tasks[:size],
                next_page_token=_token(tasks[size - 1]) if len(tasks) > size else None,
                total_size=rows[0]["total"],
                page_size=size,
            )

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Deletes a task of the request's user with its events; idempotent.

        Raises:
          InternalError: The database refused.
        """
        with for_peers():
            place = await self._asked_for(task_id, context)
            if place is not None:
                await self._database.run.fetch(statements.delete_task(**place))
                self.known(context).discard(task_id)

    def _place(self, task_id: str, user_id: str) -> TaskKey:
        app_name = self._app_name or app_here()
        require_storable(app_name=app_name, user_id=user_id, task_id=task_id)
        return {"app_name": app_name, "user_id": user_id, "task_id": task_id}

    async def _asked_for(self, task_id: str, context: ServerCallContext) -> TaskKey | None:
        """Returns the place of a task of the request's user; None if there can be none."""
        user_id = self._owner(context)
        if not storable(user_id=user_id, task_id=task_id):
            return None
        place = self._place(task_id, user_id)
        if not user_id:
            rows = await self._database.run.fetch(
                statements.select_anonymous_user(app_name=place["app_name"], task_id=task_id)
            )
            if not rows:
                return None
            place["user_id"] = rows[0]["user_id"]
        return place

    async def _fail_lapsed(self, app_name: str, user_id: str, task_id: str | None) -> None:
        await self._database.run.fetch(
            statements.fail_lapsed(app_name=app_name, user_id=user_id, task_id=task_id, reason=GONE)
        )

    def _sized(self, payload: str) -> str:
        require_size(self._database.settings, "max_event_mb", "A task", payload)
        return payload


def _let_adk_make_handlers() -> None:
    """Drops the sdk's warning of handlers without an ``event_stream``, in the whole process.

    All of ADK's are such. `lifespan` gives them one; without it, `DatabaseTaskStore.get` refuses
    what needs one.
    """
    warnings.filterwarnings("ignore", message=_UNSTREAMED, category=UserWarning)
    logging.getLogger("a2a.server.request_handlers.default_request_handler_v2").addFilter(
        _is_of_interest
    )


def _is_of_interest(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_UNSTREAMED)


def _token(last: Task) -> str:
    """Returns the token of the page after a task: a position, which stays if the task goes."""
    at = status_time(last)
    return encode_page_token(json.dumps([None if at is None else at.isoformat(), last.id]))


def _position(token: str) -> tuple[datetime | None, str | None]:
    """Returns the place that a token of `_token` names; of none, the beginning.

    Raises:
      InvalidParamsError: It is none.
    """
    if not token:
        return None, None
    try:
        at, task_id = json.loads(decode_page_token(token))
        require_storable(task_id=task_id)
        return None if at is None else datetime.fromisoformat(at).astimezone(UTC), task_id
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise InvalidParamsError(f"Invalid page token: {token}") from exc
