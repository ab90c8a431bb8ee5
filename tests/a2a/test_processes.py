"""Two processes of ``adkpg api-server --a2a``, one of which is killed in the middle of a stream."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2AClientError, Client
from a2a.types import CancelTaskRequest, GetTaskRequest

from tests.a2a.conftest import Served, card
from tests.a2a.test_serving import CANCELED, COMPLETED, FAILED, listening, message, sent, state_of
from tests.fakes import adk_commands as commands
from tests.fakes import steady
from tests.fakes.adk_commands import AdkpgServer

pytestmark = pytest.mark.program


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    agent = tmp_path / "agents" / "steady"
    agent.mkdir(parents=True)
    (agent / "__init__.py").write_text("from . import agent\n")
    shutil.copy(Path(steady.__file__), agent / "agent.py")
    (agent / "agent.json").write_text(json.dumps(card("steady")))
    return agent.parent


@asynccontextmanager
async def pair(
    agents: Path, env: dict[str, str]
) -> AsyncIterator[tuple[AdkpgServer, AdkpgServer, Client, Client]]:
    """Two servers of the agents, and the client of each."""
    with AdkpgServer(agents, "--a2a", env=env) as one, AdkpgServer(agents, "--a2a", env=env) as two:
        async with httpx.AsyncClient(timeout=60) as http:
            client, elsewhere = [
                await Served(str(each.client.base_url).rstrip("/"), http).client("steady")
                for each in (one, two)
            ]
            yield one, two, client, elsewhere


async def until_part(stream: Any, number: int) -> str:
    """Reads a stream up to a part of the answer; returns the task."""
    task_id = ""
    async for answer in stream:
        task_id = task_id or answer.task.id
        if f"part {number}" in str(answer):
            return task_id
    raise AssertionError("the stream ended before")


async def test_what_a_killed_process_worked_on_has_failed(agents: Path, database_url: str) -> None:
    env = commands.environment(ADKPG_DATABASE_URL=database_url, ADKPG_INVOCATION_LEASE_S="2")
    async with pair(agents, env) as (one, _, client, elsewhere):
        stream: Any = client.send_message(message("go on"))
        async with aclosing(stream):
            task_id = await until_part(stream, 3)
            subscribing = await listening(elsewhere, task_id)
            one.kill()
            with pytest.raises(A2AClientError):
                await until_part(stream, 10_000)
        answers = await subscribing
        assert "part 1" in str(answers[0])
        assert state_of(answers) == FAILED
        assert "interrupted" in str(answers[-1].status_update.status.message)
        found = await elsewhere.get_task(GetTaskRequest(id=task_id))
        assert found.status.state == FAILED
        assert state_of(await sent(elsewhere, "2")) == COMPLETED, "the context goes on"


async def test_a_process_stops_what_another_cancels(agents: Path, database_url: str) -> None:
    env = commands.environment(ADKPG_DATABASE_URL=database_url)
    async with pair(agents, env) as (one, two, client, elsewhere):
        stream: Any = client.send_message(message("go on"))
        async with aclosing(stream):
            task_id = await until_part(stream, 3)
            canceled = await elsewhere.cancel_task(CancelTaskRequest(id=task_id))
            assert canceled.status.state == CANCELED
            rest = [each async for each in stream]
        assert state_of(rest) == CANCELED
        found = await client.get_task(GetTaskRequest(id=task_id))
        assert found.status.state == CANCELED
    assert "Traceback" not in one.log + two.log
    assert "event_stream" not in one.log
