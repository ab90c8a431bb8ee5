"""Soaks adkpg: mixed load, a fault every 5 to 40 s, and a checker of all that was seen.

    python benchmarks/soak [--minutes 30] [--folder .soak] [--quiet]

`make soak MINUTES=5` runs it. The server is its own, of the embedded binaries, with durable
settings. Writes FOLDER/soak.md and FOLDER/soak.png, and ends with 1 if anything was lost, doubled,
reordered or seen too late, if an error reached a caller, if anything grew, or if no fault hit.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import asyncpg

sys.path.insert(0, str(Path(__file__).parents[2]))  # the checkout

from adkpg import Database, DatabaseSessionService
from adkpg.embedded import EmbeddedServer
from benchmarks.soak import checker, clients, invariants
from benchmarks.soak.faults import Faults
from benchmarks.soak.history import History, Log
from benchmarks.soak.plot import draw
from benchmarks.soak.proxy import Cable
from benchmarks.soak.report import Report
from benchmarks.soak.samples import Samples

_SAMPLED_EVERY_S = 2.0
_BETWEEN_FAULTS_S = (5.0, 40.0)
_END_S = 120.0
_TOMBSTONE_DAYS = 40 / 86_400
_SETTINGS = {"max_connections": "150"}


class Clients:
    """The processes of the load.

    Args:
      urls: Of the database: directly, and through the cable.
      folder: Where their logs are.
    """

    def __init__(self, urls: tuple[str, str], folder: Path) -> None:
        self._urls = urls
        self._folder = folder
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def start(self) -> None:
        for number in range(clients.WRITERS):
            await self._start("writer", number)
        for kind in ("reader", "worker", "upkeep"):
            await self._start(kind, 0)

    async def kill_writer(self) -> int:
        """Kills a writer and starts it again; returns how many that were."""
        number = random.randrange(clients.WRITERS)
        process = self._running.pop(f"writer-{number}")
        process.kill()
        await process.wait()
        await self._start("writer", number)
        return 1

    async def end(self, *kinds: str) -> list[str]:
        """Ends those of some kinds; returns what went wrong with them."""
        ending = {
            name: process
            for name, process in self._running.items()
            if name.rpartition("-")[0] in kinds
        }
        for process in ending.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        wrong = []
        for name, process in ending.items():
            try:
                async with asyncio.timeout(_END_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                wrong.append(f"the {name} did not end within {_END_S:.0f} s")
            else:
                if process.returncode != 0:
                    wrong.append(f"the {name} ended with {process.returncode}; see {name}.err")
        return wrong

    async def kill(self) -> None:
        """Kills those that are left, so that none outlives its soak."""
        for process in self._running.values():
            if process.returncode is None:
                process.kill()
                await process.wait()

    def dead(self) -> list[str]:
        """Names those that ended by themselves."""
        return [name for name, each in self._running.items() if each.returncode is not None]

    def pids(self) -> dict[str, int]:
        """Those that are never killed."""
        return {
            name.rpartition("-")[0]: process.pid
            for name, process in self._running.items()
            if not name.startswith("writer")
        }

    async def _start(self, kind: str, number: int) -> None:
        direct, through_cable = self._urls
        url = direct if kind == "writer" and number % 2 else through_cable
        with (self._folder / f"{kind}-{number}.err").open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "benchmarks.soak.clients",
                *(kind, str(number), url, str(self._folder)),
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=Path(__file__).parents[2],
                start_new_session=True,
                env={**os.environ, "ADKPG_TOMBSTONE_DAYS": str(_TOMBSTONE_DAYS)},
            )
        self._running[f"{kind}-{number}"] = process
        assert process.stdout is not None
        await process.stdout.readline()  # from then on it ends at SIGTERM


async def soak(
    minutes: float, folder: Path, place: Path, *, with_faults: bool, quiet: bool
) -> Report:
    """Runs one soak.

    Args:
      minutes: How long the load lasts.
      folder: For what the clients log.
      place: For the server.
      with_faults: Else it is hollow.
      quiet: Without a line of progress.
    """
    server = EmbeddedServer(place, settings=_SETTINGS, timeout_s=120)
    try:
        await asyncio.to_thread(server.start)
        async with Database(server.url) as database:
            await database.upgrade()
        async with Cable(f"{server.directory}/run/.s.PGSQL.5432") as cable:
            through = f"postgresql://postgres@127.0.0.1:{cable.port}/adkpg?sslmode=disable"
            load = Clients((server.url, through), folder)
            try:
                await load.start()
                samples = Samples()
                faults = Faults(server, cable, load.kill_writer, _BETWEEN_FAULTS_S)
                running = asyncio.create_task(faults.run()) if with_faults else None
                until = time.monotonic() + 60 * minutes
                while time.monotonic() < until and not load.dead():
                    await asyncio.sleep(_SAMPLED_EVERY_S)
                    await _sample(server.url, samples, load.pids())
                    if not quiet:
                        left_s = max(until - time.monotonic(), 0)
                        print(
                            f"\r{left_s:5.0f} s left, {len(faults.done)} faults", end="", flush=True
                        )
                violations = [f"the {name} ended by itself" for name in load.dead()]
                if running is not None:
                    running.cancel()
                    await asyncio.wait([running])
                    if not running.cancelled() and (failed := running.exception()) is not None:
                        violations.append(f"a fault failed: {failed!r}")
                violations += await load.end("writer", "reader")
                violations += await _settled(server.url)
                violations += await load.end("worker", "upkeep")
                await _read_the_rest(server.url, folder)
            finally:
                await load.kill()
        connection = await asyncpg.connect(server.url)
        try:
            violations += await invariants.broken(connection)
        finally:
            await connection.close()
        history = await asyncio.to_thread(lambda: History.read(folder.glob("*.jsonl")))
        return Report(
            minutes, history, samples, faults.done, violations + checker.violations(history)
        )
    finally:
        await asyncio.to_thread(server.stop)


async def _sample(url: str, samples: Samples, pids: dict[str, int]) -> None:
    """Takes a sample, unless the server is away just now."""
    away = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    with suppress(*away):
        connection = await asyncpg.connect(url, timeout=5)
        try:
            await samples.take(connection, pids)
        finally:
            await connection.close(timeout=5)


async def _settled(url: str) -> list[str]:
    """Waits until the worker has done everything."""
    connection = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(_END_S):
            while await connection.fetchval("SELECT count(*) FROM adkpg.memory_jobs"):
                await asyncio.sleep(0.2)
    except TimeoutError:
        return ["the worker did not finish its work"]
    finally:
        await connection.close()
    return []


async def _read_the_rest(url: str, folder: Path) -> None:
    """Logs what is stored at the end of sessions that nobody has ended."""
    log = Log(folder / "end.jsonl")
    async with Database(url) as database:
        sessions = DatabaseSessionService(database)
        listed = await sessions.list_sessions(app_name=clients.APP)
        for each in listed.sessions:
            session = await sessions.get_session(
                app_name=clients.APP, user_id=each.user_id, session_id=each.id
            )
            assert session is not None
            log("final", session=session.id, values=clients.values_of(session))
    log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=30, help="how long the load lasts")
    parser.add_argument("--folder", type=Path, default=Path(".soak"), help="for report and logs")
    parser.add_argument("--no-faults", action="store_true", help="a hollow run, which must fail")
    parser.add_argument("--quiet", action="store_true", help="no line of progress")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # On disk, where a flush costs what it costs, in a folder that the server's account may enter.
    with tempfile.TemporaryDirectory(prefix="adkpg-soak-") as parent:
        Path(parent).chmod(0o755)
        place = Path(parent) / "server"
        place.mkdir()
        report = asyncio.run(
            soak(
                arguments.minutes,
                folder,
                place,
                with_faults=not arguments.no_faults,
                quiet=arguments.quiet,
            )
        )
    (folder / "soak.md").write_text(report.text(), encoding="utf-8")
    draw(report, folder / "soak.png")
    print(f"\n{report.text()}\n{folder / 'soak.png'}")
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
