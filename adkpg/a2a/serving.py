"""Serving: ADK's A2A routes, on handlers that know of other processes."""

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from inspect import signature
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event, EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.request_handler import validate, validate_request_params
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types import (
    AgentCard,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route

from adkpg.a2a import words
from adkpg.a2a.store import DatabaseTaskStore
from adkpg.a2a.task import FINAL
from adkpg.errors import AdkpgError, ConfigurationError
from adkpg.sessions.doors import Door, app_of, door_here

logger = logging.getLogger(__name__)

# How long a process remembers a task that waits for input; any process goes on with it. The
# sdk can do so from 1.3 on.
_PARKED: dict[str, Any] = (
    {"interrupted_task_timeout": 300.0}
    if "interrupted_task_timeout" in signature(DefaultRequestHandler.__init__).parameters
    else {}
)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Has an app of ADK's serve the tasks of a `DatabaseTaskStore` across processes.

    ::

        app = get_fast_api_app(
            agents_dir="agents",
            session_service_uri="adkpg://",
            task_store_uri="adkpg://",
            a2a=True,
            web=False,
            lifespan=adkpg.a2a.lifespan,
        )

    or ``to_a2a(agent, runner=runner, task_store=store, lifespan=adkpg.a2a.lifespan)``. ADK's own
    handlers know of their process alone. With this, a subscriber gets the events of a task that
    another process works on. A run whose task was canceled or erased elsewhere stops. Messages of a
    context take turns. A peer is told of errors in words that name nothing of ours. Push
    notifications are refused, since ADK accepts them and never sends any.

    The app of ``/a2a/<app>`` is that of its tasks, unless the store was made for one.

    Args:
      app: An app of ADK's that serves A2A; routes of other stores are left alone.
    """
    replaced: list[tuple[list[BaseRoute], list[BaseRoute]]] = []
    handlers: list[_Handler] = []
    _complete(app.routes, handlers, replaced)
    if not handlers:
        logger.warning("This app serves no agent by A2A whose tasks are in a DatabaseTaskStore.")
    try:
        yield
    finally:
        for routes, before in replaced:
            routes[:] = before
        for handler in handlers:
            await handler.end()


def _complete(
    routes: list[BaseRoute],
    handlers: "list[_Handler]",
    replaced: list[tuple[list[BaseRoute], list[BaseRoute]]],
) -> None:
    """Serves the A2A routes among some, and among those of mounted apps, by handlers of ours."""
    before = list(routes)
    after: list[BaseRoute] = []
    for route in before:
        if isinstance(route, Mount) and isinstance(route.routes, list):
            _complete(route.routes, handlers, replaced)
        handler = _handler_of(route) if isinstance(route, Route) else None
        if handler is None or not isinstance(route, Route):
            after.append(route)
        else:
            handlers.append(handler)
            after += create_jsonrpc_routes(handler, route.path, enable_v0_3_compat=True)
    if after != before:
        routes[:] = after
        replaced.append((routes, before))


def _handler_of(route: Route) -> "_Handler | None":
    """Returns the handler that takes the place of that of one of ADK's routes; None of others.

    Raises:
      ConfigurationError: Nothing tells the app of its tasks.
    """
    dispatcher = getattr(getattr(route, "endpoint", None), "__self__", None)
    if not isinstance(dispatcher, JsonRpcDispatcher):
        return None
    asked = dispatcher.request_handler
    store = getattr(asked, "task_store", None)
    if not isinstance(asked, DefaultRequestHandler) or not isinstance(store, DatabaseTaskStore):
        return None
    if store.app_name is None:
        app_name = app_of(route.path)
        if app_name is None:
            raise ConfigurationError(
                f"Nothing tells the app of the tasks at {route.path}; name it, as "
                "DatabaseTaskStore(app_name=...)."
            )
        store = store.of_app(app_name)
    card = asked._agent_card
    card.capabilities.push_notifications = False
    return _Handler(asked.agent_executor, store, card)


class _Handler(DefaultRequestHandler):
    """The sdk's, which refuses what it would accept and drop, and knows of other processes.

    Args:
      executor: ADK's.
      store: The tasks.
      card: The agent's.
    """

    def __init__(self, executor: AgentExecutor, store: DatabaseTaskStore, card: AgentCard) -> None:
        self._store = store
        super().__init__(
            _Executor(executor, store), store, card, event_stream=store.event_stream(), **_PARKED
        )

    async def end(self) -> None:
        """Ends the runs of this process; peers find their tasks FAILED."""
        held = self._store.running.held()
        await self.aclose()
        try:
            await self._store.running.release(held)
        except AdkpgError as exc:
            logger.warning("Running tasks end with their lease: %s", exc)

    async def on_message_send(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> Message | Task:
        """Answers a message."""
        self._require_kept(params, context)
        answer: Message | Task = await super().on_message_send(params, context)
        return answer

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Answers a message by events."""
        self._require_kept(params, context)
        async for event in super().on_message_send_stream(params, context):
            yield event

    @validate_request_params
    @validate(lambda self: self._agent_card.capabilities.streaming, "Streaming is not supported")
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Yields a task and then its events, whichever process works on it."""
        stored = await self._store.get(params.id, context)
        if stored is None:
            raise TaskNotFoundError
        if stored.task.status.state in FINAL:
            raise UnsupportedOperationError("The task is in a terminal state; get it instead.")
        yield stored.task
        events = self._store.event_stream().subscribe(params.id, after=stored.version)
        async with aclosing(events):
            async for each in events:
                yield each.event

    def _require_kept(self, params: SendMessageRequest, context: ServerCallContext) -> None:
        if params.configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError
        self._store.require_kept(params.message, context)


class _Executor(AgentExecutor):
    """Runs an agent in its turn, until its task ends, wherever that is decided.

    Args:
      executor: ADK's.
      store: Keeps the tasks.
    """

    def __init__(self, executor: AgentExecutor, store: DatabaseTaskStore) -> None:
        self._executor = executor
        self._store = store

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Runs the agent.

        Raises:
          UnsupportedOperationError: The task has ended while the message waited for its turn.
        """
        assert context.task_id is not None  # the sdk has made them
        assert context.context_id is not None
        assert context.call_context is not None
        task_id, caller = context.task_id, context.call_context
        place = self._store.place(task_id, context.context_id, caller)
        loop, run = asyncio.get_running_loop(), asyncio.current_task()
        assert run is not None
        has_ended = threading.Event()
        found: int | None = None

        def stop() -> None:
            has_ended.set()
            loop.call_soon_threadsafe(run.cancel)

        async def on_turn() -> None:
            nonlocal found
            found = await self._store.running.state(place)
            if found in FINAL or (found is None and task_id in self._store.known(caller)):
                has_ended.set()
                raise asyncio.CancelledError

        outer = door_here()
        door = Door(timeout_s=None if outer is None else outer.timeout_s, on_turn=on_turn)
        try:
            with door.opened(), self._store.running.stopped_by(place, stop):
                await self._executor.execute(context, _InWords(event_queue))
        except asyncio.CancelledError:
            if not has_ended.is_set():
                raise
            if found in FINAL and found != TaskState.TASK_STATE_CANCELED:
                raise UnsupportedOperationError(
                    "The task has ended meanwhile; send the message without it."
                ) from None
            # The sdk reads what it has become, and tells who listens.
            canceled = TaskStatus(state=TaskState.TASK_STATE_CANCELED)
            await event_queue.enqueue_event(
                TaskStatusUpdateEvent(
                    task_id=task_id, context_id=context.context_id, status=canceled
                )
            )
            raise
        finally:
            await door.close()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Says that the task is canceled; the sdk ends the run."""
        await self._executor.cancel(context, event_queue)


class _InWords(EventQueue):
    """The sdk's queue, to which errors of ours go in words for peers.

    ADK publishes the text of an exception while it handles it.

    Args:
      queue: The sdk's.
    """

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue

    async def enqueue_event(self, event: Event) -> None:
        """Publishes an event."""
        error = sys.exc_info()[1]
        if isinstance(error, AdkpgError) and isinstance(event, TaskStatusUpdateEvent):
            logger.warning("A run of A2A failed: %s: %s", type(error).__name__, error)
            del event.status.message.parts[:]
            event.status.message.parts.add().text = words.of(error)
        await self._queue.enqueue_event(event)
