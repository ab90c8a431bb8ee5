"""What one server process does as its clients grow, what limits it, and what more processes add.

    python -m benchmarks.scripts.processes [--seconds 4] [--kinds append,turn,search] [--quick]
                                           [--json PATH]

Clients are tasks with a session of their own, in one or more processes, each with its own pool:
appends, turns through ADK's Runner (a model that answers at once, sessions of up to 20 turns), and
hybrid searches of users of 1,000 memories. Beside calls a second stand the CPU that a call takes in
the clients' processes and in the server's, its WAL, and how many calls found no free connection
within ADKPG_POOL_TIMEOUT_S. uvloop is measured if it is installed. With --json the figures are kept
there one by one, and a run that was stopped leaves out those that it has.
"""

import argparse
import asyncio
import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import asyncpg
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types
from rich.console import Console
from rich.progress import track
from rich.table import Table

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.errors import Busy
from benchmarks.scripts import bulk
from benchmarks.scripts.scale import Directions, said
from benchmarks.scripts.shares import server_ms
from benchmarks.sentences import Sentences
from benchmarks.server import chosen_server, own_database

KINDS = ("append", "turn", "search")
MEMORIES = 20_000
TURNS = 20
WARM_UP_S = 1.0
Call = Callable[[], Awaitable[object]]


class Answering(BaseLlm):
    """A model that answers at once."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        content = types.Content(role="model", parts=[types.Part(text="I will remember that.")])
        yield LlmResponse(content=content)


class Clients:
    """The clients of one process.

    Args:
      database: Theirs.
      users: Whom the searches are about.
    """

    def __init__(self, database: Database, users: list[str]) -> None:
        self._users = users
        self._sentences = Sentences(1)
        self._sessions = DatabaseSessionService(database)
        self._memory = PgVectorMemoryService(database, embedder=Directions())
        agent = LlmAgent(name="assistant", model=Answering(model="answering"))
        self._runner = Runner(app_name=bulk.APP, agent=agent, session_service=self._sessions)

    async def calling(self, kind: str, number: int) -> Call:
        """What one client does again and again."""
        user = f"client {number}"
        if kind == "search":
            return lambda: self._memory.search(
                app_name=bulk.APP,
                user_id=self._users[number % len(self._users)],
                query=f"{self._sentences.make(7)}?",
            )
        session = await self._sessions.create_session(app_name=bulk.APP, user_id=user)
        if kind == "append":
            return lambda: self._sessions.append_event(session, said(self._sentences.make(12)))
        ids, turns = [session.id], 0

        async def turn() -> None:
            nonlocal turns
            if turns == TURNS:
                fresh = await self._sessions.create_session(app_name=bulk.APP, user_id=user)
                ids[0], turns = fresh.id, 0
            turns += 1
            words = types.Content(role="user", parts=[types.Part(text=self._sentences.make(12))])
            async for _ in self._runner.run_async(
                user_id=user, session_id=ids[0], new_message=words
            ):
                pass

        return turn


async def serve(url: str, kind: str, clients: int, pool: int, seconds: float) -> None:
    """Says when it is ready, waits for a line, lets the clients call, and says what came of it."""
    logging.getLogger("google_adk").setLevel(logging.ERROR)  # the model tells no tokens
    async with Database(url, pool_size=pool) as database:
        connection: Any = await asyncpg.connect(url)
        users = [
            await connection.fetchval(f"select {bulk.large_user(group)}")
            for group in range(MEMORIES // bulk.GROUP)
        ]
        await connection.close()
        each = Clients(database, users)
        calls = [await each.calling(kind, number) for number in range(clients)]
        took: list[float] = []
        busy = 0
        ends = time.perf_counter() + WARM_UP_S

        async def repeat(call: Call) -> None:
            nonlocal busy
            while (began := time.perf_counter()) < ends:
                try:
                    await call()
                except Busy:
                    busy += 1
                    continue
                took.append(1000 * (time.perf_counter() - began))

        await asyncio.gather(*(repeat(call) for call in calls))
        took.clear()
        busy = 0
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        used, began = time.process_time(), time.perf_counter()
        ends = began + seconds
        await asyncio.gather(*(repeat(call) for call in calls))
        said_so = {
            "took": took,
            "busy": busy,
            "elapsed_s": time.perf_counter() - began,
            "cpu_ms": 1000 * (time.process_time() - used),
        }
        print(json.dumps(said_so), flush=True)
        await asyncio.to_thread(sys.stdin.readline)


async def measured(
    url: str, kind: str, clients: int, *, processes: int, pool: int, uvloop: bool, seconds: float
) -> dict[str, float]:
    """Lets processes call at the same time; the figures of all of them together."""
    shares = [clients // processes + (n < clients % processes) for n in range(processes)]
    started = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.scripts.processes", "--url", url),
            *("--serve", kind, "--clients", str(share), "--pool", str(pool)),
            *("--seconds", str(seconds), *(["--uvloop"] if uvloop else [])),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            limit=2**26,
        )
        for share in shares
        if share
    ]
    connection: Any = await asyncpg.connect(url)
    try:
        for each in started:
            assert each.stdout is not None
            await each.stdout.readline()
        before, wal = await server_use(connection)
        for each in started:
            assert each.stdin is not None
            each.stdin.write(b"\n")
        found = [json.loads(await each.stdout.readline()) for each in started if each.stdout]
        after, wal_after = await server_use(connection)
    finally:
        for each in started:
            if each.returncode is None:
                each.kill()
            await each.wait()
        await connection.close()
    took = [ms for each in found for ms in each["took"]]
    calls = len(took)
    elapsed_s = max(each["elapsed_s"] for each in found)
    return {
        "per s": calls / elapsed_s,
        "busy": sum(each["busy"] for each in found),
        "p50": statistics.median(took),
        "p95": statistics.quantiles(took, n=20)[-1],
        "client": sum(each["cpu_ms"] for each in found) / calls,
        "server": sum(after.get(pid, 0) - before.get(pid, 0) for pid in after) / calls,
        "wal": (wal_after - wal) / calls,
        "cores": (
            sum(each["cpu_ms"] for each in found)
            + sum(after.get(pid, 0) - before.get(pid, 0) for pid in after)
        )
        / 1000
        / elapsed_s,
    }


async def server_use(connection: Any) -> tuple[dict[int, float], int]:
    """CPU of each of the server's processes, in milliseconds, and the bytes of WAL so far."""
    rows = await connection.fetch("select pid from pg_stat_activity where pid <> pg_backend_pid()")
    wal: int = await connection.fetchval("select pg_current_wal_lsn() - '0/0'::pg_lsn")
    return {row["pid"]: server_ms(str(row["pid"])) for row in rows}, int(wal)


def settings(quick: bool) -> list[tuple[int, int, int, bool]]:
    """Clients, processes, pool size, uvloop: one of them varies at a time."""
    has_uvloop = find_spec("uvloop") is not None
    growing = [(clients, 1, 10, False) for clients in ((1, 32) if quick else (1, 8, 32, 128, 512))]
    if quick:
        return growing
    return [
        *growing,
        *[(clients, 1, 10, True) for clients in (1, 128) if has_uvloop],
        *[(128, 1, pool, False) for pool in (1, 2, 5, 20)],
        *[(128, processes, 10, False) for processes in (2, 4)],
        *[(128, processes, 20 // processes, False) for processes in (2, 4)],
    ]


async def measure(
    server_url: str,
    kinds: list[str],
    seconds: float,
    *,
    quick: bool,
    report: dict[str, dict[str, Any]],
    save: Callable[[], object],
) -> None:
    """Adds to the report what it lacks, saving it after each setting."""
    async with own_database(server_url, "processes") as url:
        async with Database(url) as database:
            await database.upgrade()
            await bulk.fill(database, url, MEMORIES)
            await database.run.execute("vacuum analyze", timeout_s=600)
        for kind in kinds:
            for clients, processes, pool, uvloop in track(settings(quick), description=kind):
                row = {
                    "kind": kind,
                    "clients": clients,
                    "processes": processes,
                    "pool": pool,
                    "loop": "uvloop" if uvloop else "asyncio",
                }
                name = " ".join(str(each) for each in row.values())
                if name in report:
                    continue
                found = await measured(
                    url,
                    kind,
                    clients,
                    processes=processes,
                    pool=pool,
                    uvloop=uvloop,
                    seconds=seconds,
                )
                report[name] = row | {each: round(value, 3) for each, value in found.items()}
                save()


def show(report: dict[str, dict[str, Any]]) -> None:
    columns = ("CLIENTS", "PROCESSES", "POOL", "LOOP", "PER S", "P50 MS", "P95 MS")
    for kind in dict.fromkeys(row["kind"] for row in report.values()):
        table = Table(*columns, "CLIENT MS", "SERVER MS", "WAL KB", "CORES", "BUSY", title=kind)
        for row in report.values():
            if row["kind"] == kind:
                table.add_row(*cells(row))
        Console(width=120).print(table)


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the figures, as text."""
    return [
        *(f"{row[name]}" for name in ("clients", "processes", "pool", "loop")),
        f"{row['per s']:,.0f}",
        *(f"{row[name]:,.2f}" for name in ("p50", "p95", "client", "server")),
        f"{row['wal'] / 1000:.1f}",
        f"{row['cores']:.1f}",
        f"{row['busy']:.0f}",
    ]


def page_table(report: dict[str, dict[str, Any]]) -> str:
    """The figures of the default pool and loop as Markdown, for a page."""
    rows = [row for row in report.values() if (row["pool"], row["loop"]) == (10, "asyncio")]
    kinds = dict.fromkeys(row["kind"] for row in rows)
    lines = [f"| clients, processes | {' | '.join(kinds)} |", "|---" + "|---:" * len(kinds) + "|"]
    for place in dict.fromkeys((row["clients"], row["processes"]) for row in rows):
        found = [row for row in rows if (row["clients"], row["processes"]) == place]
        shown = [f"{row['per s']:,.0f} ({row['p50']:,.1f})" for row in found]
        lines.append(f"| {place[0]}, {place[1]} | {' | '.join(shown)} |")
    lines += [
        "",
        "| 32 clients, one process | CPU ms of the client | of the server | WAL kB"
        " | calls a second of a client's core | of a server's core |",
        "|---" + "|---:" * 5 + "|",
    ]
    for row in rows:
        if (row["clients"], row["processes"]) == (32, 1):
            spent = (row["client"], row["server"], row["wal"] / 1000)
            served = (1000 / row["client"], 1000 / row["server"])
            shown = [f"{each:.1f}" for each in spent] + [f"{each:,.0f}" for each in served]
            lines.append(f"| {row['kind']} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--quick", action="store_true", help="two rows of each kind")
    parser.add_argument("--json", type=Path, help="where to keep the figures")
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--clients", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--pool", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--uvloop", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serving = serve(given.url, given.serve, given.clients, given.pool, given.seconds)
        loop = import_module("uvloop").new_event_loop if given.uvloop else None
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(serving)
        return
    kept: Path | None = given.json
    report = json.loads(kept.read_text(encoding="utf-8")) if kept and kept.exists() else {}

    def save() -> None:
        if kept is not None:
            kept.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    with chosen_server() as url:
        kinds = given.kinds.split(",")
        asyncio.run(measure(url, kinds, given.seconds, quick=given.quick, report=report, save=save))
    show(report)


if __name__ == "__main__":
    main()
