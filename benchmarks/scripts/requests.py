"""Requests that come at the same time in one session, as a web app's: answered, failed, doubled.

    python -m benchmarks.scripts.requests [--processes 4] [--requests 80] [--pooler PGBOUNCER ...]

Processes run ADK's Runner with a model that answers after 20 ms, all in one session of one database
on ADKPG_DATABASE_URL's server (else the embedded one): without `sessions.invocation`, with it, with
it while processes are killed in the middle of a run (their requests are retried), and through each
PgBouncer that is named. UNANSWERED are questions that are stored without an answer; DOUBLED those
that were answered twice; HANDOVER is the median from the end of a run to the next one's start.
"""

import argparse
import asyncio
import itertools
import json
import os
import signal
import statistics
import sys
import time
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types
from rich.console import Console
from rich.table import Table

from adkpg import Database, DatabaseSessionService, Settings
from benchmarks.pooler import pooled
from benchmarks.server import chosen_server, own_database

PLACE: dict[str, Any] = {"app_name": "web", "user_id": "ana", "session_id": "shared"}
LEASE_S = 10.0
MODEL_S = 0.02


class Model(BaseLlm):
    """Answers what was said last; or its process is killed, when the question is stored."""

    kill: bool = False

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        await asyncio.sleep(MODEL_S)
        if self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        said = (llm_request.contents[-1].parts or [types.Part(text="")])[0].text
        part = types.Part(text=f"answer to {said}")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def serve(url: str, texts: Sequence[str], queued: bool, kill: bool) -> None:
    """Serves requests at the same time in this process, and prints what became of each."""
    settings = Settings(invocation_lease_s=LEASE_S)
    async with DatabaseSessionService(url, settings=settings) as sessions:
        agent = LlmAgent(name="guide", model=Model(model="model", kill=kill))
        runner = Runner(app_name=PLACE["app_name"], agent=agent, session_service=sessions)

        async def run(text: str) -> None:
            async for _ in runner.run_async(
                user_id=PLACE["user_id"],
                session_id=PLACE["session_id"],
                new_message=types.UserContent(text),
            ):
                pass

        async def request(text: str) -> None:
            began = ended = time.time()
            try:
                if queued:
                    async with sessions.invocation(**PLACE, timeout_s=300, key=text) as turn:
                        began = time.time()
                        if not turn.done:
                            await run(text)
                        ended = time.time()
                else:
                    await run(text)
            except Exception as exc:  # noqa: BLE001 - what a web app would answer 500
                print(json.dumps([text, type(exc).__name__, began, ended]), flush=True)
            else:
                print(json.dumps([text, None, began, ended]), flush=True)

        await asyncio.gather(*(request(text) for text in texts))


async def served(url: str, texts: Sequence[str], queued: bool, kill: bool) -> list[Any]:
    process = await create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.scripts.requests", "--serve", url),
        *(json.dumps([texts, queued, kill]),),
        stdout=PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    printed, _ = await process.communicate()
    answers = [json.loads(line) for line in printed.decode().splitlines()]
    if process.returncode == -signal.SIGKILL:
        return answers + await served(url, texts, queued, False)  # the clients retry
    if process.returncode:
        raise SystemExit(f"A process ended with {process.returncode}; run it with --serve.")
    return answers


async def measure(url: str, processes: int, requests: int, queued: bool, kills: int) -> list[str]:
    async with Database(url) as database:
        sessions = DatabaseSessionService(database)
        await sessions.delete_session(**PLACE)
        await sessions.create_session(**PLACE)
        shares = [[f"{n}" for n in range(p, requests, processes)] for p in range(processes)]
        answers = await asyncio.gather(
            *(served(url, share, queued, number < kills) for number, share in enumerate(shares))
        )
        session = await sessions.get_session(**PLACE)
    assert session is not None
    ended = [each for share in answers for each in share]
    asked: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for event in session.events:
        text = (event.content.parts or [types.Part()])[0].text or "" if event.content else ""
        if event.author == "user":
            asked[text] += 1
        else:
            answered[text.removeprefix("answer to ")] += 1
    spans = sorted((began, end) for _, error, began, end in ended if error is None)
    gaps = [after[0] - before[1] for before, after in itertools.pairwise(spans)]
    failed = Counter(error for _, error, *_ in ended if error is not None)
    return [
        f"{len({text for text, *_ in ended})}",
        f"{failed.total()} {' '.join(failed)}",
        f"{sum(not answered[text] for text in asked)}",
        f"{sum(count > 1 for count in answered.values())}",
        f"{1000 * statistics.median(gaps):.0f} ms" if queued else "",
    ]


async def compare(server_url: str, processes: int, requests: int, poolers: Sequence[str]) -> None:
    table = Table("", "REQUESTS", "FAILED", "UNANSWERED", "DOUBLED", "HANDOVER")
    async with own_database(server_url, "requests") as url:
        async with Database(url) as database:
            await database.upgrade()
        for name, queued, kills in (
            ("runs as they come", False, 0),
            ("invocation", True, 0),
            (f"invocation, {processes - 1} of {processes} processes killed", True, processes - 1),
        ):
            table.add_row(name, *await measure(url, processes, requests, queued, kills))
        with ExitStack() as stack:
            for program in poolers:
                version, through = stack.enter_context(pooled(program, url))
                prepares = version >= "1.21"
                through += "" if prepares else "?statement_cache_size=0"
                figures = await measure(through, processes, requests, True, 0)
                table.add_row(f"invocation, PgBouncer {version}", *figures)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--requests", type=int, default=80, help="of all processes together")
    parser.add_argument("--pooler", action="append", default=[], help="a PgBouncer program")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        url, job = arguments.serve
        asyncio.run(serve(url, *json.loads(job)))
        return
    with chosen_server() as server_url:
        asyncio.run(compare(server_url, arguments.processes, arguments.requests, arguments.pooler))


if __name__ == "__main__":
    main()
