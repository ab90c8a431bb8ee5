"""A primary and its standby: real servers of the embedded binaries, killed, promoted, rewound."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg

from adkpg.embedded.account import Account
from adkpg.embedded.binaries import Binaries
from tests.fakes.postmaster import standing_still

_LONGEST_S = 60.0
_POLL_S = 0.02
# In the cluster's own file: a rewind recovers the old primary by itself, and must keep its log.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "wal_keep_size": "256MB",
    "wal_log_hints": "on",
    "fsync": "off",  # processes are killed here, never the machine
    "autovacuum": "off",
}


class Node:
    """One server with a directory and a port of its own; it keeps both when it starts again.

    Attributes:
      name: Also its name as a standby.
      port: On 127.0.0.1.
    """

    def __init__(self, name: str, place: Path, account: Account, binaries: Binaries) -> None:
        self.name = name
        self.port = _free_port()
        self._place = place
        self._data = place / name
        self._account = account
        self._binaries = binaries
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@{self.host}/{database}"

    async def initialise(self) -> None:
        """Makes an empty cluster."""
        settings = [part for each in _SETTINGS.items() for part in ("-c", "=".join(each))]
        trusting = ("-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync")
        await self._run("initdb", "-D", self._data, *trusting, *settings)

    async def copy(self, primary: "Node") -> None:
        """Becomes a copy of a running primary, which it follows once it starts."""
        source = f"host=127.0.0.1 port={primary.port} user=postgres"
        await self._run(
            *("pg_basebackup", "-d", source, "-D", self._data, "-R", "-X", "stream", "-c", "fast"),
            "--no-sync",
        )

    async def rewind(self, primary: "Node") -> None:
        """Undoes what the primary never got; it follows the primary once it starts."""
        # A rewind reads the new timeline from the primary's last checkpoint.
        await primary.execute("CHECKPOINT")
        source = f"host=127.0.0.1 port={primary.port} user=postgres dbname=postgres"
        await self._run(
            *("pg_rewind", "-D", self._data, f"--source-server={source}", "-R", "--no-sync")
        )

    async def start(self, **more: str) -> None:
        """Starts it with some more settings, and waits until it answers."""
        settings = {
            **more,
            "port": str(self.port),
            "cluster_name": self.name,
            # pg_rewind fails on a socket in the data directory.
            "unix_socket_directories": str(self._place),
        }
        options = [part for each in settings.items() for part in ("-c", "=".join(each))]
        self._process = self._spawned(options)

        async def answers() -> bool:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} did not start: {self.log()[-800:]}")
            with suppress(OSError, asyncpg.PostgresError):
                return bool(await self.value("SELECT true"))
            return False

        await until(answers)

    def _spawned(self, options: list[str]) -> subprocess.Popen[bytes]:
        switch = self._account.switch
        with (self._place / f"{self.name}.log").open("ab") as log:
            # A child of ours, so that we can wait for it when it is killed.
            return subprocess.Popen(
                [self._binaries.program("postgres"), "-D", self._data, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
                start_new_session=True,
                user=self._account.uid if switch else None,
                group=self._account.gid if switch else None,
                extra_groups=[] if switch else None,
            )

    async def kill(self) -> None:
        """kill -9, and waits until no process of it is left."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(self._process.wait)

        async def gone() -> bool:
            return not _processes(self._data)

        await until(gone)

    def frozen(self) -> AbstractContextManager[None]:
        """All its processes stand still inside: it takes connections, and answers nothing."""
        assert self._process is not None
        return standing_still(self._process.pid)

    async def crash(self) -> None:
        """kill -9 of one process that serves a client: the server lives, and recovers."""
        others = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
        os.kill(await self.value(f"{others} AND pid <> pg_backend_pid() LIMIT 1"), signal.SIGKILL)

    async def snapshot(self) -> Path:
        """Copies the cluster's directory, while it does not run, and returns where to."""
        await self.stop()
        copy = self._data.with_name(f"{self.name}-snapshot")
        await asyncio.to_thread(subprocess.check_call, ["cp", "-a", self._data, copy])
        return copy

    async def set_back(self, snapshot: Path) -> None:
        """Becomes what it was when its directory was copied."""
        await self.stop()
        self.remove()
        await asyncio.to_thread(snapshot.rename, self._data)
        await self.start()

    async def stop(self) -> None:
        """Ends it in order, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            await asyncio.to_thread(self._process.wait, _LONGEST_S)

    def remove(self) -> None:
        """Deletes the cluster, so that it may become another one."""
        shutil.rmtree(self._data)

    async def promote(self) -> None:
        """Makes a standby the primary, and returns when it takes writes."""
        assert await self.value("SELECT pg_promote()")

    async def follow(self, primary: "Node | None") -> None:
        """Starts it as a standby of what it has, whatever that is: nothing is undone before.

        Args:
          primary: Whom it asks for more; None is nobody.
        """
        signal_file = self._data / "standby.signal"
        signal_file.touch()
        self._account.give(signal_file)
        if primary is not None:
            source = f"primary_conninfo = 'host=127.0.0.1 port={primary.port} user=postgres'"
            with (self._data / "postgresql.auto.conf").open("a") as configuration:
                configuration.write(f"{source}\n")
        await self.start()

    @asynccontextmanager
    async def asking_passwords(self, role: str) -> AsyncIterator[None]:
        """Lets a running server ask one role for its password, and nobody else."""
        access = self._data / "pg_hba.conf"
        before = access.read_text()
        access.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n{before}")
        await self.execute("SELECT pg_reload_conf()")
        yield
        access.write_text(before)
        await self.execute("SELECT pg_reload_conf()")

    async def receive_from(self, primary: "Node") -> None:
        """Has a running standby follow another primary."""
        source = f"host=127.0.0.1 port={primary.port} user=postgres"
        await self.execute(f"ALTER SYSTEM SET primary_conninfo = '{source}'")
        await self.execute("SELECT pg_reload_conf()")

    async def stop_receiving(self) -> None:
        """Cuts a standby off from its primary, as a broken network does."""
        await self.execute("ALTER SYSTEM SET primary_conninfo = ''")
        await self.execute("SELECT pg_reload_conf()")

        async def cut_off() -> bool:
            return bool(await self.value("SELECT count(*) = 0 FROM pg_stat_wal_receiver"))

        await until(cut_off)

    async def wait_for(self, standby: "Node") -> None:
        """Lets no commit return any more before a standby has it."""
        await self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby.name}'")
        await self.execute("SELECT pg_reload_conf()")
        in_step = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"

        async def followed() -> bool:
            return bool(await self.value(in_step))

        await until(followed)

    async def caught_up(self, primary: "Node") -> None:
        """Returns when a standby has replayed all that its primary has written so far."""
        written = await primary.value("SELECT pg_current_wal_lsn()::text")
        replayed = f"SELECT coalesce(pg_last_wal_replay_lsn() >= '{written}', false)"

        async def there() -> bool:
            return bool(await self.value(replayed))

        await until(there)

    async def value(self, sql: str) -> Any:
        """Returns the first value of a statement on a connection of its own."""
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    async def execute(self, sql: str) -> None:
        await self.value(sql)

    async def execute_in(self, database: str, sql: str) -> None:
        """Runs a statement in another database than postgres."""
        connection = await asyncpg.connect(self.url_of(database))
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    def log(self) -> str:
        return (self._place / f"{self.name}.log").read_text(errors="replace")

    async def _run(self, program: str, *arguments: str | Path) -> None:
        answer = await asyncio.to_thread(
            self._account.run,
            [self._binaries.program(program), *arguments],
            timeout_s=_LONGEST_S,
        )
        if answer.returncode != 0:
            raise RuntimeError(f"{program} failed: {answer.stdout}{answer.stderr}")


class Pair:
    """A primary and a standby that follows it; and a second standby, where it is asked for.

    Attributes:
      primary: As it began.
      standby: As it began.
      second: As it began.
    """

    def __init__(self, primary: Node, standby: Node, second: Node) -> None:
        self.primary = primary
        self.standby = standby
        self.second = second

    @property
    def url(self) -> str:
        """Both servers; the first one that takes writes is wanted."""
        return f"postgresql://postgres@{self.primary.host},{self.standby.host}/postgres"

    async def fail_over(self) -> None:
        """The primary dies, and the standby takes over."""
        await self.primary.kill()
        await self.standby.promote()


@asynccontextmanager
async def replicated(*, synchronous: bool, standbys: int = 1) -> AsyncIterator[Pair]:
    """Yields a running pair; with `synchronous`, no commit returns before the standby has it.

    Of two `standbys` the second one runs, too; else it is not even a cluster.
    """
    place = _directory()
    account = Account.of_server(place, place / "primary")
    account.give(place)
    binaries = Binaries.find().for_account(account)
    names = ("primary", "standby", "second")
    pair = Pair(*(Node(name, place, account, binaries) for name in names))
    try:
        await pair.primary.initialise()
        await pair.primary.start()
        await pair.standby.copy(pair.primary)
        await pair.standby.start()
        if standbys > 1:
            await pair.second.copy(pair.primary)
            await pair.second.start()
        if synchronous:
            await pair.primary.wait_for(pair.standby)
        yield pair
    finally:
        for node in (pair.second, pair.standby, pair.primary):
            await node.stop()
        shutil.rmtree(place, ignore_errors=True)


async def until(condition: Callable[[], Any]) -> None:
    """Returns when an asynchronous condition holds; asks again and again, up to a minute."""
    deadline = time.monotonic() + _LONGEST_S
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError("The condition did not come true within a minute.")
        await asyncio.sleep(_POLL_S)


def _directory() -> Path:
    shm = Path("/dev/shm")
    roomy = shm.is_dir() and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 2 << 30
    return Path(tempfile.mkdtemp(prefix="adkpg-pair-", dir=shm if roomy else "/tmp"))


def _processes(data: Path) -> list[int]:
    """Processes that work in a data directory, which is where each server process stands."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if Path(os.readlink(entry / "cwd")) == data:
                    found.append(int(entry.name))
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
