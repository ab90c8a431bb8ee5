"""ADK's app with `lifespan`, spoken to by the sdk's own client."""

import asyncio
from contextlib import aclosing
from importlib.metadata import version
from typing import Any

import asyncpg
import pytest
from a2a.client import Client
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from adkpg import Database
from adkpg.erasure import forget
from tests.a2a.conftest import ByA2a
from tests.fakes import gates

pytestmark = pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning")

COMPLETED = TaskState.TASK_STATE_COMPLETED
CANCELED = TaskState.TASK_STATE_CANCELED
FAILED = TaskState.TASK_STATE_FAILED


def message(text: str, context_id: str = "ctx", task_id: str = "") -> SendMessageRequest:
    return SendMessageRequest(
        message=Message(
            message_id=f"m-{text}",
            role=Role.ROLE_USER,
            parts=[Part(text=text)],
            context_id=context_id,
            task_id=task_id,
        )
    )


async def sent(
    client: Client, text: str, context_id: str = "ctx", task_id: str = ""
) -> list[StreamResponse]:
    return [each async for each in client.send_message(message(text, context_id, task_id))]


def state_of(answers: list[StreamResponse]) -> TaskState:
    """The last state that a stream told."""
    states = [
        (each.task if each.HasField("task") else each.status_update).status.state
        for each in answers
        if each.HasField("task") or each.HasField("status_update")
    ]
    return states[-1]


async def test_an_answer_comes_and_is_kept(by_a2a: ByA2a, connection: asyncpg.Connection) -> None:
    client = await (await by_a2a()).client()
    answers = await sent(client, "hello")
    assert state_of(answers) == COMPLETED
    row = await connection.fetchrow("SELECT app_name, user_id, session_id, state FROM tasks")
    assert tuple(row) == ("gated", "A2A_USER_ctx", "ctx", "TASK_STATE_COMPLETED")
    task = await client.get_task(GetTaskRequest(id=answers[0].task.id))
    assert [part.text for part in task.artifacts[0].parts] == ["done"]


async def begun(client: Client, text: str = "wait") -> str:
    """Sends a message whose answer waits at the gate; returns the task, of which that is saved."""
    stream: Any = client.send_message(message(text))
    async with aclosing(stream) as answers:
        first = await anext(answers)
        async for answer in answers:
            if "begun" in str(answer):
                break
    task_id: str = first.task.id
    return task_id


async def listening(client: Client, task_id: str) -> asyncio.Task[list[StreamResponse]]:
    """Subscribes; returns what comes, once the first of it is there."""
    stream = client.subscribe(SubscribeToTaskRequest(id=task_id))
    first = await anext(stream)

    async def all_of_it() -> list[StreamResponse]:
        return [first, *[each async for each in stream]]

    return asyncio.create_task(all_of_it())


async def subscribed(client: Client, task_id: str) -> list[StreamResponse]:
    return [each async for each in client.subscribe(SubscribeToTaskRequest(id=task_id))]


async def test_no_agent_knows_the_task_of_another(by_a2a: ByA2a) -> None:
    served = await by_a2a()
    client, other = await served.client(), await served.client("other")
    task_id = state_and_id(await sent(client, "hello"))
    with pytest.raises(TaskNotFoundError):
        await other.get_task(GetTaskRequest(id=task_id))
    listed = await other.list_tasks(ListTasksRequest(context_id="ctx"))
    assert listed.total_size == 0
    assert (await client.list_tasks(ListTasksRequest(context_id="ctx"))).total_size == 1


def state_and_id(answers: list[StreamResponse]) -> str:
    assert state_of(answers) == COMPLETED
    return answers[0].task.id


async def test_first_messages_of_a_context_are_all_completed(by_a2a: ByA2a) -> None:
    clients = [await (await by_a2a()).client() for _ in range(2)]
    answers = await asyncio.gather(*(sent(clients[n % 2], f"m{n}") for n in range(6)))
    assert [state_of(each) for each in answers] == [COMPLETED] * 6


async def test_a_subscriber_at_another_process_sees_the_rest(by_a2a: ByA2a) -> None:
    client, elsewhere = [await (await by_a2a()).client() for _ in range(2)]
    task_id = await begun(client)
    subscribing = await listening(elsewhere, task_id)
    gates.opened.set()
    answers = await subscribing
    assert answers[0].task.status.state == TaskState.TASK_STATE_WORKING
    assert state_of(answers) == COMPLETED
    said = [part.text for each in answers for part in each.artifact_update.artifact.parts]
    assert said == ["done"]


async def test_a_task_is_canceled_at_another_process(
    by_a2a: ByA2a, connection: asyncpg.Connection
) -> None:
    client, elsewhere = [await (await by_a2a()).client() for _ in range(2)]
    task_id = await begun(client)
    local = await listening(client, task_id)
    canceled = await elsewhere.cancel_task(CancelTaskRequest(id=task_id))
    assert canceled.status.state == CANCELED
    answers = await local  # the run is told, although it waits for its gate
    assert state_of(answers) == CANCELED
    gates.opened.set()
    assert (await client.get_task(GetTaskRequest(id=task_id))).status.state == CANCELED
    states = await connection.fetch("SELECT state FROM tasks")
    assert [row["state"] for row in states] == ["TASK_STATE_CANCELED"]


async def test_a_person_is_erased_whose_task_is_running(
    by_a2a: ByA2a, database: Database, connection: asyncpg.Connection
) -> None:
    client, elsewhere = [await (await by_a2a()).client() for _ in range(2)]
    task_id = await begun(client)
    here, there = await listening(client, task_id), await listening(elsewhere, task_id)
    await forget(database, app_name="gated", user_id="A2A_USER_ctx")
    for subscribing in (here, there):
        with pytest.raises(TaskNotFoundError):
            await subscribing
    gates.opened.set()
    with pytest.raises(TaskNotFoundError):
        await client.get_task(GetTaskRequest(id=task_id))
    for table in TABLES:
        assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 0


async def test_a_task_whose_process_is_gone_has_failed(
    by_a2a: ByA2a, connection: asyncpg.Connection
) -> None:
    client, elsewhere = [await (await by_a2a()).client() for _ in range(2)]
    task_id = await begun(client)
    await connection.execute("UPDATE tasks SET ends_at = now()")  # as after a lease
    with pytest.raises(UnsupportedOperationError, match="terminal"):
        await subscribed(elsewhere, task_id)
    task = await client.get_task(GetTaskRequest(id=task_id))
    assert "interrupted" in task.status.message.parts[0].text
    gates.opened.set()


async def test_what_fails_of_ours_names_nothing_of_ours(
    by_a2a: ByA2a, connection: asyncpg.Connection
) -> None:
    client = await (await by_a2a()).client()
    await connection.execute("ALTER TABLE events ADD CONSTRAINT none CHECK (false) NOT VALID")
    answers = await sent(client, "hello")
    assert state_of(answers) == FAILED
    (part,) = answers[-1].status_update.status.message.parts
    assert part.text == "The agent cannot do this now; its operator knows why."


async def test_what_fails_of_the_agent_is_told(by_a2a: ByA2a) -> None:
    client = await (await by_a2a()).client()
    answers = await sent(client, "fail")
    assert state_of(answers) == FAILED
    (part,) = answers[-1].status_update.status.message.parts
    assert part.text == "The agent was told to fail."


async def test_push_notifications_are_refused(by_a2a: ByA2a) -> None:
    served = await by_a2a()
    client = await served.client()
    task_id = state_and_id(await sent(client, "hello"))
    config = TaskPushNotificationConfig(task_id=task_id, url="https://example.com/hook")
    with pytest.raises(PushNotificationNotSupportedError):
        await client.create_task_push_notification_config(config)
    asking = message("again")
    asking.configuration.task_push_notification_config.url = "https://example.com/hook"
    with pytest.raises(PushNotificationNotSupportedError):
        [each async for each in client.send_message(asking)]
    served_card = await served.http.get(f"{served.url}/a2a/gated/.well-known/agent-card.json")
    assert not served_card.json()["capabilities"].get("pushNotifications")


async def test_without_lifespan_what_another_process_works_on_is_refused(
    by_a2a: ByA2a,
) -> None:
    client, elsewhere = [await (await by_a2a(by_lifespan=False)).client() for _ in range(2)]
    task_id = await begun(client)
    with pytest.raises(UnsupportedOperationError):
        await subscribed(elsewhere, task_id)
    here = await listening(client, task_id)
    gates.opened.set()
    assert state_of(await here) == COMPLETED


async def until(connection: asyncpg.Connection, condition: str) -> None:
    async with asyncio.timeout(30):
        while not await connection.fetchval(f"SELECT {condition}"):
            await asyncio.sleep(0.01)


WAITS = "count(*) = {} FROM invocation_waiters"
TABLES = ("tasks", "task_events", "sessions", "events")


async def test_a_message_that_waits_is_erased_with_its_person(
    by_a2a: ByA2a, database: Database, connection: asyncpg.Connection
) -> None:
    client, elsewhere = [await (await by_a2a()).client() for _ in range(2)]
    await begun(client)
    second = asyncio.create_task(sent(elsewhere, "my secret is 42"))
    await until(connection, WAITS.format(1))
    await forget(database, app_name="gated", user_id="A2A_USER_ctx")
    gates.opened.set()
    with pytest.raises(TaskNotFoundError):
        await second
    for table in TABLES:
        await until(connection, f"count(*) = 0 FROM {table}")
    assert gates.begun.qsize() == 1, "the agent was asked nothing but to wait"


async def waiting(client: Client) -> str:
    """Asks for what makes a task wait for input; returns the task."""
    answers = await sent(client, "ask")
    assert state_of(answers) == TaskState.TASK_STATE_INPUT_REQUIRED
    await gates.begun.get()
    return answers[0].task.id


async def test_a_follow_up_that_waits_is_erased_with_its_person(
    by_a2a: ByA2a, database: Database, connection: asyncpg.Connection
) -> None:
    here, there, elsewhere = [await (await by_a2a()).client() for _ in range(3)]
    task_id = await waiting(here)
    await begun(there)
    follow_up = asyncio.create_task(sent(elsewhere, "my secret is 42", task_id=task_id))
    await until(connection, WAITS.format(1))
    await forget(database, app_name="gated", user_id="A2A_USER_ctx")
    gates.opened.set()
    with pytest.raises(TaskNotFoundError):
        await follow_up
    for table in TABLES:
        await until(connection, f"count(*) = 0 FROM {table}")
    with pytest.raises(TaskNotFoundError):
        await here.get_task(GetTaskRequest(id=task_id))


async def test_who_subscribes_where_a_task_waited_sees_what_it_is_now(by_a2a: ByA2a) -> None:
    here, elsewhere = [await (await by_a2a()).client() for _ in range(2)]
    task_id = await waiting(here)
    follow_up: Any = elsewhere.send_message(message("wait", task_id=task_id))
    async for answer in follow_up:
        if "begun" in str(answer):
            break
    subscribing = await listening(here, task_id)
    gates.opened.set()
    answers = await subscribing
    assert answers[0].task.status.state == TaskState.TASK_STATE_WORKING
    assert state_of(answers) == COMPLETED


async def test_a_message_that_is_canceled_while_it_waits_is_not_answered(
    by_a2a: ByA2a, connection: asyncpg.Connection
) -> None:
    here, there, elsewhere = [await (await by_a2a()).client() for _ in range(3)]
    await begun(here)
    second: Any = there.send_message(message("second"))
    task_id = (await anext(second)).task.id
    await until(connection, WAITS.format(1))
    await elsewhere.cancel_task(CancelTaskRequest(id=task_id))
    gates.opened.set()
    assert state_of([each async for each in second]) == CANCELED
    assert "second" not in str(await connection.fetch("SELECT payload FROM events"))


async def test_of_two_follow_ups_at_once_one_is_told_that_the_task_has_ended(
    by_a2a: ByA2a, connection: asyncpg.Connection
) -> None:
    here, there, elsewhere = [await (await by_a2a()).client() for _ in range(3)]
    task_id = await waiting(here)
    await begun(elsewhere)
    both = [
        asyncio.create_task(sent(client, text, task_id=task_id))
        for client, text in ((here, "one"), (there, "two"))
    ]
    await until(connection, WAITS.format(2))
    gates.opened.set()
    results = await asyncio.gather(*both, return_exceptions=True)
    refused = [each for each in results if isinstance(each, BaseException)]
    assert all(isinstance(each, UnsupportedOperationError) for each in refused)
    # Before 1.3 the sdk ends the stream without a word.
    assert len(refused) == (version("a2a-sdk") >= "1.3")
    (answers,) = [each for each in results if not isinstance(each, BaseException) and each]
    assert state_of(answers) == COMPLETED


@pytest.mark.parametrize("context_id", ["nul \0", "c" * 600])
async def test_a_context_that_cannot_be_kept_is_refused_in_words(
    by_a2a: ByA2a, connection: asyncpg.Connection, context_id: str
) -> None:
    client = await (await by_a2a()).client()
    with pytest.raises(InvalidParamsError) as told:
        await sent(client, "hello", context_id)
    assert "Postgres" not in str(told.value)
    assert await connection.fetchval("SELECT count(*) FROM tasks") == 0


async def test_runs_end_with_their_server(by_a2a: ByA2a, connection: asyncpg.Connection) -> None:
    served = await by_a2a()
    await begun(await served.client())
    await served.stop()
    state, payload = await connection.fetchrow(
        "SELECT t.state, e.payload::text FROM tasks AS t JOIN task_events AS e"
        " USING (app_name, user_id, task_id)"
        " WHERE e.revision = t.revision"
    )
    assert state == "TASK_STATE_FAILED"
    assert "interrupted" in payload


async def test_an_idempotency_key_is_refused(by_a2a: ByA2a) -> None:
    served = await by_a2a()
    answer = await served.http.post(
        f"{served.url}/a2a/gated", json={}, headers={"Idempotency-Key": "k"}
    )
    assert answer.status_code == 400
    assert "A2A" in answer.json()["detail"]
