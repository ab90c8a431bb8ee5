"""`DatabaseTaskStore`: versions, owners, ends, events as rows."""

import asyncio

import asyncpg
import pytest
from a2a.server.cluster import ConcurrentTaskModificationError, StoredTask, TaskVersion
from a2a.server.context import ServerCallContext
from a2a.types import (
    Artifact,
    ListTasksRequest,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InternalError, InvalidParamsError, TaskNotFoundError
from a2a.utils.task import encode_page_token

from adkpg import Database
from adkpg.a2a import DatabaseTaskStore
from adkpg.erasure import forget
from adkpg.erasure.erasing import forget_session
from tests.fakes.callers import Named

WORKING = TaskState.TASK_STATE_WORKING
COMPLETED = TaskState.TASK_STATE_COMPLETED
CANCELED = TaskState.TASK_STATE_CANCELED
FAILED = TaskState.TASK_STATE_FAILED
MISSING = TaskVersion.MISSING


ANA, BO = (ServerCallContext(user=Named(name)) for name in ("ana", "bo"))
NOBODY = ServerCallContext()


@pytest.fixture
def store(database: Database) -> DatabaseTaskStore:
    return DatabaseTaskStore(database, app_name="shop")


def task(task_id: str = "t1", state: TaskState = WORKING, context_id: str = "ctx") -> Task:
    said = Message(message_id="m1", role=Role.ROLE_USER, parts=[Part(text="my bike is red")])
    return Task(id=task_id, context_id=context_id, status=TaskStatus(state=state), history=[said])


def status(state: TaskState, text: str = "") -> TaskStatusUpdateEvent:
    said = Message(message_id="a", role=Role.ROLE_AGENT, parts=[Part(text=text)])
    return TaskStatusUpdateEvent(
        task_id="t1",
        context_id="ctx",
        status=TaskStatus(state=state, message=said if text else None),
    )


def chunk(text: str, *, append: bool = True) -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id="a", parts=[Part(text=text)])
    return TaskArtifactUpdateEvent(task_id="t1", context_id="ctx", artifact=artifact, append=append)


async def first(store: DatabaseTaskStore, context: ServerCallContext = ANA) -> TaskVersion:
    return await store.save(task(), event=task(), prev_version=MISSING, context=context)


async def found(store: DatabaseTaskStore, context: ServerCallContext = ANA) -> StoredTask:
    stored = await store.get("t1", context)
    assert stored is not None
    return stored


async def test_a_task_is_read_as_it_was_saved(store: DatabaseTaskStore) -> None:
    version = await first(store)
    stored = await found(store)
    assert stored == StoredTask(task(), version)


async def test_of_twenty_saves_of_one_version_one_is_accepted(store: DatabaseTaskStore) -> None:
    version = await first(store)

    async def add(number: int) -> None:
        changed = task()
        changed.history.append(Message(message_id=f"n{number}"))
        await store.save(changed, event=None, prev_version=version, context=ANA)

    results = await asyncio.gather(*(add(n) for n in range(20)), return_exceptions=True)
    refused = [each for each in results if each is not None]
    assert len(refused) == 19
    assert all(isinstance(each, ConcurrentTaskModificationError) for each in refused)


async def test_one_of_two_first_saves_is_accepted(store: DatabaseTaskStore) -> None:
    results = await asyncio.gather(first(store), first(store), return_exceptions=True)
    assert [type(each) for each in results].count(ConcurrentTaskModificationError) == 1


@pytest.mark.parametrize("end", [COMPLETED, CANCELED, FAILED, TaskState.TASK_STATE_REJECTED])
async def test_a_state_that_ends_a_task_stays(store: DatabaseTaskStore, end: TaskState) -> None:
    version = await first(store)
    version = await store.save(task(state=end), event=None, prev_version=version, context=ANA)
    for later in (WORKING, COMPLETED, CANCELED):
        with pytest.raises(ConcurrentTaskModificationError):
            await store.save(task(state=later), event=None, prev_version=version, context=ANA)
    assert (await found(store)).task.status.state == end


async def test_canceling_keeps_what_others_have_added(store: DatabaseTaskStore) -> None:
    version = await first(store)
    seen = (await found(store)).task
    grown = task()
    grown.artifacts.append(chunk("one").artifact)
    await store.save(grown, event=chunk("one", append=False), prev_version=version, context=ANA)
    seen.status.state = CANCELED
    await store.save(seen, event=status(CANCELED), prev_version=version, context=ANA)
    stored = (await found(store)).task
    assert stored.status.state == CANCELED
    assert [part.text for part in stored.artifacts[0].parts] == ["one"]


async def test_a_task_that_is_not_there_is_not_canceled(store: DatabaseTaskStore) -> None:
    with pytest.raises(ConcurrentTaskModificationError):
        await store.save(task(state=CANCELED), event=None, prev_version=MISSING, context=ANA)


async def test_a_stream_costs_a_row_for_each_event(
    store: DatabaseTaskStore, connection: asyncpg.Connection
) -> None:
    version = await first(store)
    grown = task()
    for number in range(30):
        event = chunk(f"{number} ", append=number > 0)
        if number:
            grown.artifacts[0].parts.extend(event.artifact.parts)
        else:
            grown.artifacts.append(event.artifact)
        version = await store.save(grown, event=event, prev_version=version, context=ANA)
    written = await connection.fetchrow("SELECT revision, payload_revision FROM tasks")
    assert tuple(written) == (31, 1)
    assert await connection.fetchval("SELECT max(length(payload::text)) FROM task_events") < 250
    assert (await found(store)).task == grown


async def test_an_event_that_does_not_make_the_task_is_no_row(store: DatabaseTaskStore) -> None:
    version = await first(store)
    changed = task()
    changed.history.append(Message(message_id="by the way"))
    changed.status.state = COMPLETED
    await store.save(changed, event=status(COMPLETED), prev_version=version, context=ANA)
    assert (await found(store)).task == changed


async def test_nobody_else_finds_a_task(store: DatabaseTaskStore) -> None:
    await first(store)
    other_app = store.of_app("bank")
    for asked, context in ((store, BO), (store, NOBODY), (other_app, ANA)):
        assert await asked.get("t1", context) is None
        await asked.delete("t1", context)
    mine = await store.list(ListTasksRequest(), ANA)
    assert [each.id for each in mine.tasks] == ["t1"]
    for asked, context in ((store, BO), (other_app, ANA)):
        assert (await asked.list(ListTasksRequest(), context)).total_size == 0


async def test_another_owner_has_another_task_of_the_same_id(store: DatabaseTaskStore) -> None:
    await first(store)
    await store.save(task(state=COMPLETED), event=None, prev_version=MISSING, context=BO)
    assert (await found(store)).task.status.state == WORKING
    assert (await found(store, BO)).task.status.state == COMPLETED


async def test_a_caller_without_a_name_has_what_is_of_its_context(
    store: DatabaseTaskStore, connection: asyncpg.Connection
) -> None:
    claims = ServerCallContext(user=Named("ana", authenticated=False))
    await first(store, claims)
    assert await connection.fetchval("SELECT user_id FROM tasks") == "A2A_USER_ctx"
    assert (await found(store, NOBODY)).task == task()
    assert await store.get("t1", ANA) is None
    with pytest.raises(InvalidParamsError, match="contextId"):
        await store.list(ListTasksRequest(), NOBODY)
    assert (await store.list(ListTasksRequest(context_id="ctx"), NOBODY)).total_size == 1
    assert (await store.list(ListTasksRequest(context_id="other"), NOBODY)).total_size == 0


async def test_a_resolver_says_whose_a_task_is(
    database: Database, connection: asyncpg.Connection
) -> None:
    store = DatabaseTaskStore(
        database, app_name="shop", owner_resolver=lambda context: context.tenant
    )
    await first(store, ServerCallContext(tenant="acme"))
    assert await connection.fetchval("SELECT user_id FROM tasks") == "acme"


async def test_pages_follow_each_other(store: DatabaseTaskStore) -> None:
    for number in range(7):
        each = task(f"t{number}", COMPLETED if number % 2 else WORKING)
        if number:  # one has no time
            each.status.timestamp.FromSeconds(1_000 + number // 3)
        await store.save(each, event=each, prev_version=MISSING, context=ANA)
    request, pages = ListTasksRequest(page_size=3), []
    while True:
        page = await store.list(request, ANA)
        assert (page.total_size, page.page_size) == (7, 3)
        pages.append([each.id for each in page.tasks])
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert pages == [["t6", "t5", "t4"], ["t3", "t2", "t1"], ["t0"]]
    since = ListTasksRequest(status=COMPLETED)
    since.status_timestamp_after.FromSeconds(1_001)
    assert [each.id for each in (await store.list(since, ANA)).tasks] == ["t5", "t3"]
    for token in ("no token", encode_page_token('["0001-01-01T00:00:00+23:59", "t"]')):
        with pytest.raises(InvalidParamsError, match=r"[Tt]oken"):
            await store.list(ListTasksRequest(page_token=token), ANA)


async def test_a_task_that_was_erased_does_not_come_back(
    store: DatabaseTaskStore, database: Database, connection: asyncpg.Connection
) -> None:
    version = await first(store)
    erased = await forget(database, app_name="shop", user_id="ana")
    assert erased.rows == {"tasks": 1}
    with pytest.raises(ConcurrentTaskModificationError):
        await store.save(task(), event=status(WORKING), prev_version=version, context=ANA)
    assert await store.get("t1", ANA) is None  # as the sdk looks then, and begins anew
    with pytest.raises(TaskNotFoundError):
        await store.save(task(), event=task(), prev_version=MISSING, context=ANA)
    assert await connection.fetchval("SELECT count(*) FROM tasks") == 0


async def test_a_task_goes_with_its_session(
    store: DatabaseTaskStore, database: Database, connection: asyncpg.Connection
) -> None:
    version = await first(store)
    await store.save(task(), event=status(WORKING, "x"), prev_version=version, context=ANA)
    await forget_session(database, app_name="shop", user_id="ana", session_id="other")
    assert await connection.fetchval("SELECT count(*) FROM tasks") == 1
    await forget_session(database, app_name="shop", user_id="ana", session_id="ctx")
    counted = "SELECT (SELECT count(*) FROM tasks) + (SELECT count(*) FROM task_events)"
    assert await connection.fetchval(counted) == 0


async def test_errors_tell_a_peer_nothing_of_the_database(
    store: DatabaseTaskStore, connection: asyncpg.Connection
) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        await store.save(
            task(context_id="c" * 600), event=None, prev_version=MISSING, context=NOBODY
        )
    await connection.execute("ALTER TABLE tasks RENAME TO gone")
    with pytest.raises(InternalError) as failed:
        await store.get("t1", ANA)
    for told in (str(refused.value), str(failed.value)):
        assert not any(word in told for word in ("session", "database", "tasks", "ADKPG", "127"))


async def test_events_of_the_same_task_elsewhere_are_none_of_it(
    store: DatabaseTaskStore, connection: asyncpg.Connection
) -> None:
    version = await first(store)
    await connection.execute(  # as an import of a file leaves them whose task has gone on there
        "INSERT INTO task_events SELECT app_name, user_id, task_id, n, session_id, $1"
        " FROM tasks, generate_series(2, 3) AS n",
        '{"statusUpdate": {"status": {"state": "TASK_STATE_FAILED"}}}',
    )
    assert (await found(store)).task == task()
    changed = task(state=TaskState.TASK_STATE_INPUT_REQUIRED)
    event = status(TaskState.TASK_STATE_INPUT_REQUIRED)
    await store.save(changed, event=event, prev_version=version, context=ANA)
    assert (await found(store)).task == changed


async def test_a_listing_finds_what_has_failed_with_its_process(
    store: DatabaseTaskStore, connection: asyncpg.Connection
) -> None:
    await first(store)
    await connection.execute("UPDATE tasks SET ends_at = now()")  # as after a lease
    (failed,) = (await store.list(ListTasksRequest(status=FAILED), ANA)).tasks
    assert "interrupted" in failed.status.message.parts[0].text
