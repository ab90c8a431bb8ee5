"""Serving: ADK's A2A routes, on handlers that know of other processes."""

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from inspect import signature
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event, EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types import (
    Message,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import PushNotificationNotSupportedError
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route

from adkpg.a2a import words
from adkpg.a2a.owner import app_of
from adkpg.a2a.store import DatabaseTaskStore
from adkpg.errors import AdkpgError
from adkpg.sessions.doors import Door, door_here

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
    handlers = []
    for number, route in enumerate(app.routes):
        served = _served(route)
        if served is not None:
            handler, routes = served
            handlers.append(handler)
            app.routes[number : number + 1] = routes
    if not handlers:
        logger.info("This app serves no agent by A2A from a DatabaseTaskStore.")
    try:
        yield
    finally:
        for handler in handlers:
            await handler.aclose()


def _served(route: BaseRoute) -> tuple[DefaultRequestHandler, list[Route]] | None:
    """Returns what takes the place of a route of ADK's; None of any other."""
    dispatcher = getattr(getattr(route, "endpoint", None), "__self__", None)
    if not isinstance(route, Route) or not isinstance(dispatcher, JsonRpcDispatcher):
        return None
    asked = dispatcher.request_handler
    if not isinstance(asked, DefaultRequestHandler):
        return None
    store = asked.task_store
    if not isinstance(store, DatabaseTaskStore):
        return None
    if store.app_name is None and (app_name := app_of(route.path)) is not None:
        store = store.of_app(app_name)
    card = asked._agent_card
    card.capabilities.push_notifications = False
    handler = _Handler(
        _Executor(asked.agent_executor, store),
        store,
        card,
        event_stream=store.event_stream(),
        **_PARKED,
    )
    return handler, create_jsonrpc_routes(handler, route.path, enable_v0_3_compat=True)


class _Handler(DefaultRequestHandler):
    """The sdk's, which refuses what it would accept and drop."""

    async def on_message_send(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> Message | Task:
        """Answers a message."""
        _require_no_push(params)
        answer: Message | Task = await super().on_message_send(params, context)
        return answer

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Answers a message by events."""
        _require_no_push(params)
        async for event in super().on_message_send_stream(params, context):
            yield event


def _require_no_push(params: SendMessageRequest) -> None:
    if params.configuration.HasField("task_push_notification_config"):
        raise PushNotificationNotSupportedError


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
        """Runs the agent."""
        assert context.task_id is not None  # the sdk has made them
        assert context.context_id is not None
        assert context.call_context is not None
        place = self._store.place(context.task_id, context.context_id, context.call_context)
        loop, run = asyncio.get_running_loop(), asyncio.current_task()
        assert run is not None
        has_ended = threading.Event()

        def stop() -> None:
            has_ended.set()
            loop.call_soon_threadsafe(run.cancel)

        outer = door_here()
        # With a key, the request's own turn is what its retries are answered with.
        door = Door() if outer is None or outer.key is None else outer
        try:
            with door.opened(), self._store.running.stopped_by(place, stop):
                await self._executor.execute(context, _InWords(event_queue))
        except asyncio.CancelledError:
            if has_ended.is_set():  # the sdk reads what it has become, and tells who listens
                canceled = TaskStatus(state=TaskState.TASK_STATE_CANCELED)
                await event_queue.enqueue_event(
                    TaskStatusUpdateEvent(
                        task_id=context.task_id, context_id=context.context_id, status=canceled
                    )
                )
            raise
        finally:
            if door is not outer:
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
            for part in event.status.message.parts:
                part.text = words.of(error)
        await self._queue.enqueue_event(event)
