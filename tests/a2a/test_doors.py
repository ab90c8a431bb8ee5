"""The other doors: ``to_a2a``, a follow-up at another process, a store that knows no app."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest
from a2a.client import Client
from a2a.types import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import InternalError
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.runners import Runner
from google.adk.tools.long_running_tool import LongRunningFunctionTool

import adkpg.a2a
from adkpg import Database, DatabaseSessionService
from adkpg.a2a import DatabaseTaskStore
from adkpg.adk import task_store
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
