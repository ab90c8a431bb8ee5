"""The other doors: ``to_a2a``, a follow-up at another process, a store that knows no app."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest
from a2a.client import Client
from a2a.server.agent_execution import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.types import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InternalError
from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.runners import Runner
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from starlette.applications import Starlette
from starlette.routing import Mount

import adkpg.a2a
from adkpg import Database, DatabaseSessionService, Settings
from adkpg.a2a import DatabaseTaskStore
from adkpg.adk import task_store
from adkpg.errors import ConfigurationError
from adkpg.tooling.testing.scripted_llm import Part as Script
from adkpg.tooling.testing.scripted_llm import ScriptedLlm, call, text
from tests.a2a.conftest import ByA2a, Served, listening
from tests.a2a.test_serving import COMPLETED, FAILED, sent, state_of
from tests.fakes.gated import Gated

pytestmark = pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning")

Serves = Callable[[BaseAgent], Any]


@pytest.fixture
async def to_a2a_served(database: Database) -> AsyncIterator[Serves]:
    """Serves an agent by ``to_a2a``, with a session service of its own that queues nothing."""
    async with AsyncExitStack() as stack:

        async def served(agent: BaseAgent) -> Served:
            runner = Runner(
                app_name="shop", agent=agent, session_service=DatabaseSessionService(database)
            )
            tasks: Any = DatabaseTaskStore(database, app_name="shop")  # ADK names plain stores
            app = to_a2a(
                agent,
                runner=runner,
                task_store=tasks,
                lifespan=adkpg.a2a.lifespan,
            )
            return await stack.enter_async_context(listening(app, prefix=""))

        yield served


async def test_to_a2a_queues_and_keeps(
    to_a2a_served: Serves, connection: asyncpg.Connection
) -> None:
    client = await (await to_a2a_served(Gated(name="gated"))).client()
    answers = await asyncio.gather(*(sent(client, f"m{n}") for n in range(6)))
    assert [state_of(each) for each in answers] == [COMPLETED] * 6
    rows = await connection.fetch("SELECT DISTINCT app_name, user_id, session_id FROM tasks")
    assert [tuple(row) for row in rows] == [("shop", "A2A_USER_ctx", "ctx")]


async def test_to_a2a_tells_peers_nothing_of_the_database(
    to_a2a_served: Serves, connection: asyncpg.Connection
) -> None:
    client = await (await to_a2a_served(Gated(name="gated"))).client()
    await connection.execute("ALTER TABLE events ADD CONSTRAINT none CHECK (false) NOT VALID")
    answers = await sent(client, "hello")
    assert state_of(answers) == FAILED
    (part,) = answers[-1].status_update.status.message.parts
    assert part.text == "The agent cannot do this now; its operator knows why."


def ask_for_approval(amount: int) -> None:
    """Asks somebody for approval, which takes long."""


def in_task(text: str, task_id: str) -> SendMessageRequest:
    return SendMessageRequest(
        message=Message(
            message_id=f"m-{text}",
            role=Role.ROLE_USER,
            parts=[Part(text=text)],
            context_id="ctx",
            task_id=task_id,
        )
    )


async def test_a_task_that_waits_goes_on_at_another_process(
    to_a2a_served: Serves, connection: asyncpg.Connection
) -> None:
    script = Script(deque([call("ask_for_approval", amount=5), text("Asked."), text("Thanks.")]))

    async def client() -> Client:
        agent = LlmAgent(
            name="shop",
            model=ScriptedLlm.playing("scripted", script),
            tools=[LongRunningFunctionTool(ask_for_approval)],
        )
        served: Served = await to_a2a_served(agent)
        return await served.client()

    here, elsewhere = await client(), await client()
    answers = await sent(here, "please")
    task_id = answers[0].task.id
    task = await elsewhere.get_task(GetTaskRequest(id=task_id))
    assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    assert await connection.fetchval("SELECT ends_at FROM tasks") is None, "it waits for ever"
    # Nobody works on it: whoever subscribes elsewhere is told what it is, and no more.
    found = [each async for each in elsewhere.subscribe(SubscribeToTaskRequest(id=task_id))]
    assert [each.task.status.state for each in found] == [task.status.state]
    answers = [each async for each in elsewhere.send_message(in_task("approved", task_id))]
    assert state_of(answers) == COMPLETED
    assert (await here.get_task(GetTaskRequest(id=task_id))).status.state == COMPLETED


async def test_a_store_that_knows_no_app_refuses(
    by_a2a: ByA2a, caplog: pytest.LogCaptureFixture
) -> None:
    served = await by_a2a(by_lifespan=False, queued=False)
    client = await served.client()
    with pytest.raises(InternalError, match="operator knows why"):
        await sent(client, "hello")
    assert "lifespan=adkpg.a2a.lifespan" in caplog.text


@pytest.mark.parametrize(
    "place", ["adkpg://", "adkpg://ada@db/shop", "adkpg://ada@db/shop?ssl=disable"]
)
def test_a_uri_names_the_app(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", "postgresql://ada@db/shop")
    without = task_store(place)
    named = task_store(f"{place}{'&' if '?' in place else '?'}app_name=my%20shop")
    assert (without.app_name, named.app_name) == (None, "my shop")
    assert named.database is without.database


async def test_lifespan_completes_mounted_apps_and_puts_adks_routes_back(
    by_a2a: ByA2a, database: Database
) -> None:
    tasks: Any = DatabaseTaskStore(database, app_name="shop")
    inner = to_a2a(Gated(name="gated"), task_store=tasks)
    async with inner.router.lifespan_context(inner):
        app = Starlette(routes=[Mount("/sub", app=inner)])
        before = list(inner.routes)
        for _ in range(2):
            async with adkpg.a2a.lifespan(app):
                assert inner.routes != before
            assert inner.routes == before


async def test_lifespan_refuses_a_store_whose_app_nothing_tells(database: Database) -> None:
    tasks: Any = DatabaseTaskStore(database)
    app = to_a2a(Gated(name="gated"), task_store=tasks)
    async with app.router.lifespan_context(app):
        with pytest.raises(ConfigurationError, match="app_name"):
            async with adkpg.a2a.lifespan(app):
                pass


class Asks(A2aAgentExecutor):
    """Waits for somebody in the middle of a run, and is told."""

    def __init__(self) -> None:
        """Runs no agent."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Says that it waits until that is saved, and goes on."""
        assert context.task_id is not None
        assert context.context_id is not None

        def state(state: TaskState) -> TaskStatusUpdateEvent:
            return TaskStatusUpdateEvent(
                task_id=context.task_id,
                context_id=context.context_id,
                status=TaskStatus(state=state),
            )

        task = Task(id=context.task_id, context_id=context.context_id)
        task.status.state = TaskState.TASK_STATE_WORKING
        await event_queue.enqueue_event(task)
        await event_queue.enqueue_event(state(TaskState.TASK_STATE_AUTH_REQUIRED))
        await asyncio.sleep(1.5)  # it is renewed meanwhile, once a second
        await event_queue.enqueue_event(state(TaskState.TASK_STATE_WORKING))
        await event_queue.enqueue_event(state(TaskState.TASK_STATE_COMPLETED))


async def test_a_run_that_waits_for_somebody_goes_on(database_url: str) -> None:
    settings = Settings(invocation_lease_s=3)
    async with Database(database_url, settings=settings) as database:
        tasks: Any = DatabaseTaskStore(database, app_name="shop")
        app = to_a2a(
            Gated(name="gated"),
            task_store=tasks,
            lifespan=adkpg.a2a.lifespan,
            agent_executor_factory=lambda _: Asks(),
        )
        async with listening(app, prefix="") as served:
            answers = await sent(await served.client(), "hello")
    states = [each.status_update.status.state for each in answers[1:]]
    assert states == [TaskState.TASK_STATE_AUTH_REQUIRED, TaskState.TASK_STATE_WORKING, COMPLETED]
