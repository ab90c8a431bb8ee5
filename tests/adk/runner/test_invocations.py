"""ADK's Runner in many processes at the same time, in one session: none fails, each is answered."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence

import asyncpg
import pytest
from google.adk.errors import StaleSessionError

from adkpg import DatabaseSessionService
from adkpg.tooling.testing import texts
from tests.fakes.requests import PLACE, ask, runner_on

pytestmark = pytest.mark.race

Job = tuple[list[str], float, str | None]


async def served(url: str, jobs: Sequence[Job]) -> list[list[str]]:
    """Serves each job in a process of its own; returns the answers of those that lived."""
    command = [sys.executable, "-m", "tests.fakes.requests", url, json.dumps(jobs)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    printed, problems = await process.communicate()
    assert process.returncode == 0, problems.decode()
    return [json.loads(line) for line in printed.decode().splitlines()]


async def turns(sessions: DatabaseSessionService) -> list[str]:
    """What was asked, in order; each question is followed by its answer, of one invocation."""
    session = await sessions.get_session(**PLACE)
    assert session is not None
    said = texts(session)
    questions, answers = said[::2], said[1::2]
    assert answers == [f"answer to {question}" for question in questions]
    of_run = [event.invocation_id for event in session.events]
    assert of_run[::2] == of_run[1::2]
    return [question or "" for question in questions]


@pytest.mark.program
@pytest.mark.parametrize(("processes", "runs"), [(2, 8), (8, 2)])
async def test_runs_of_many_processes_take_turns(
    sessions: DatabaseSessionService, database_url: str, processes: int, runs: int
) -> None:
    await sessions.create_session(**PLACE)
    asked = [[f"{number}.{run}" for run in range(runs)] for number in range(processes)]
    answers = await served(database_url, [(texts, 30.0, None) for texts in asked])
    every = [text for texts in asked for text in texts]
    assert sorted(answer for each in answers for answer in each) == sorted(
        f"answer to {text}" for text in every
    )
    assert sorted(await turns(sessions)) == sorted(every)


async def test_without_it_the_runs_of_a_session_break_each_other(
    sessions: DatabaseSessionService,
) -> None:
    """What this is for: else nobody would see whether these tests still provoke it."""
    await sessions.create_session(**PLACE)
    runner = runner_on(sessions)

    async def run(text: str) -> None:
        await runner.run_debug(text, user_id="user", session_id="shared", quiet=True)

    ended = await asyncio.gather(*(run(str(n)) for n in range(6)), return_exceptions=True)
    assert any(isinstance(each, StaleSessionError) for each in ended)


@pytest.mark.program
async def test_the_session_of_a_killed_process_is_free_after_its_lease(
    sessions: DatabaseSessionService, database_url: str
) -> None:
    await sessions.create_session(**PLACE)
    assert await served(database_url, [(["kill"], 0.5, "k")]) == []
    assert await ask(sessions, runner_on(sessions), "next", "k") == "answer to next"
    session = await sessions.get_session(**PLACE)
    assert texts(session) == ["kill", "next", "answer to next"]


@pytest.mark.program
async def test_one_of_many_retries_runs(
    sessions: DatabaseSessionService, database_url: str, connection: asyncpg.Connection
) -> None:
    await sessions.create_session(**PLACE)
    answers = await served(database_url, [(["pay"] * 3, 30.0, "k") for _ in range(3)])
    said = sorted(answer for each in answers for answer in each)
    assert said == ["again: answer to pay"] * 8 + ["answer to pay"]
    assert await turns(sessions) == ["pay"]
    again = await ask(sessions, runner_on(sessions), "pay", "k")
    assert again == "again: answer to pay"
    assert await connection.fetchval("SELECT count(*) FROM invocation_waiters") == 0
