"""The Postgres server of a test run, its migrated template, and a database for each test."""

import asyncio
import atexit
import gc
import os
import shutil
import tempfile
import threading
import uuid
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

import asyncpg
import docker
from docker.errors import DockerException

from adkpg import Database, Settings
from adkpg.embedded import EmbeddedServer
from adkpg.embedded.account import Account

IMAGE = "pgvector/pgvector:pg18"

# Nothing of a test run has to survive a power cut.
TUNING = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "autovacuum": "off",
    "jit": "off",
}


@dataclass(frozen=True)
class Server:
    """A server that the run may create databases on.

    Attributes:
      kind: ``"url"``, ``"installed"``, ``"docker"`` or ``"embedded"``.
      url: A database to create others from.
      stop: Takes down what was started for the run.
      run: Marks this run's databases on a server that is shared with others.
    """

    kind: str
    url: str
    stop: Callable[[], None] = field(default=lambda: None, compare=False)
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    @property
    def template(self) -> str:
        return f"adkpg_template_{self.run}"

    def url_of(self, database: str) -> str:
        location, mark, query = self.url.partition("?")
        return location.rsplit("/", 1)[0] + f"/{database}{mark}{query}"

    async def create(self, *, template: str = "template0") -> str:
        """Creates an empty database, or a copy of a template, and returns its name."""
        name = f"adkpg_test_{self.run}_{uuid.uuid4().hex[:12]}"
        await self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    async def drop(self, database: str) -> None:
        await self.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")

    async def execute(self, sql: str) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    def prepare(self) -> "Server":
        """Creates the run's migrated template database, in a loop of its own."""

        async def migrate() -> None:
            await self.execute(f"CREATE DATABASE {self.template}")
            async with Database(self.url_of(self.template), settings=Settings()) as database:
                await database.upgrade()

        asyncio.run(migrate())
        return self

    def close(self) -> None:
        """Drops the run's databases and stops what was started for the run."""

        async def tidy() -> None:
            connection = await asyncpg.connect(self.url)
            try:
                left = await connection.fetch(
                    "SELECT datname FROM pg_database WHERE datname ~ $1",
                    f"^adkpg_(template|test)_{self.run}",
                )
            finally:
                await connection.close()
            for row in left:
                await self.drop(row["datname"])

        try:
            asyncio.run(tidy())
        finally:
            self.stop()


def choose(
    environ: Mapping[str, str],
    *,
    engine_answers: Callable[[Mapping[str, str]], bool] | None = None,
    container: Callable[[], Server] | None = None,
    embedded: Callable[[], Server] | None = None,
) -> Server:
    """Returns the server that is named, else one in a container, else the embedded one."""
    if url := environ.get("ADKPG_TEST_DATABASE_URL"):
        return Server("url", url)
    if folder := environ.get("ADKPG_TEST_POSTGRES_BIN"):
        return start_installed(Path(folder))
    if (engine_answers or docker_answers)(environ):
        return (container or start_container)()
    return (embedded or start_embedded)()


def docker_answers(environ: Mapping[str, str]) -> bool:
    """Whether a Docker engine answers; the ``docker`` command proves nothing."""
    with warnings.catch_warnings():
        # The Docker client leaves its socket open where no engine listens.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            client = docker.from_env(timeout=3, environment=dict(environ))
            try:
                return bool(client.ping())
            finally:
                client.close()
        except DockerException:
            return False
        finally:
            gc.collect()


def start_container() -> Server:
    # Imported here: it reads the Docker configuration, which few machines of a run have.
    from testcontainers.community.postgres import PostgresContainer  # noqa: PLC0415

    container = PostgresContainer(IMAGE, username="postgres", dbname="postgres", driver=None)
    options = [part for name, value in TUNING.items() for part in ("-c", f"{name}={value}")]
    container.with_command(["postgres", *options])
    container.with_kwargs(tmpfs={"/var/lib/postgresql": "rw"}, shm_size="256m")
    container.start()
    return Server("docker", container.get_connection_url(), container.stop)


def start_embedded() -> Server:
    directory = Path(tempfile.mkdtemp(prefix="adkpg-tests-", dir=_memory()))
    server = EmbeddedServer(directory, settings=TUNING)

    def remove(owner: int = os.getpid()) -> None:
        if os.getpid() == owner:
            shutil.rmtree(directory, ignore_errors=True)

    # Before the server registers its stop, so that it runs after it: for runs that end badly.
    atexit.register(remove)

    def stop() -> None:
        try:
            server.stop()
        finally:
            remove()

    server.start()
    return Server("embedded", server.url, stop)


def start_installed(programs: Path) -> Server:
    """Starts a server of the Postgres whose programs are in a folder."""
    directory = Path(tempfile.mkdtemp(prefix="adkpg-tests-", dir=_memory()))
    data = directory / "data"
    account = Account.of_server(directory, data)
    account.give(directory)
    settings = {**TUNING, "listen_addresses": "", "unix_socket_directories": str(directory)}
    options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())

    def run(program: str, *arguments: str | Path) -> None:
        # What the server inherits stays open, so its words go into a file.
        with (directory / "log").open("ab") as log:
            ended = account.run(
                [programs / program, "-D", data, *arguments], timeout_s=120, stderr=log
            )
        if ended.returncode:
            said = (directory / "log").read_text(encoding="utf-8")
            raise RuntimeError(f"{program} failed: {ended.stdout}{said}")

    def stop() -> None:
        run("pg_ctl", "-w", "-m", "immediate", "stop")
        shutil.rmtree(directory, ignore_errors=True)

    run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
    run("pg_ctl", "-w", "-l", data / "server.log", "-o", options, "start")
    return Server("installed", f"postgresql://postgres@/postgres?host={directory}&port=5432", stop)


def _memory() -> Path | None:
    """Returns a directory in memory with room for a run, where a database is copied 10 x faster."""
    shm = Path("/dev/shm")
    roomy = shm.is_dir() and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 4 << 30
    return shm if roomy else None


class Shared:
    """One server for several processes, started for the first that asks for it.

    The process that makes this object starts the server and stops it, so that neither depends on
    the life of those who use it.

    Attributes:
      address: Where other processes ask; see `borrowed`.
    """

    def __init__(self, start: Callable[[], Server]) -> None:
        self._start = start
        self._mutex = threading.Lock()
        self._server: Server | None = None
        self._failure: Exception | None = None
        self._listener = Listener(backlog=64)  # a socket in a directory that is this user's alone
        self.address = str(self._listener.address)
        self._answering = threading.Thread(target=self._answer, name="server of the run")
        self._answering.start()

    def get(self) -> Server:
        """Returns the server; the first call starts it, and what fails once is not tried again."""
        with self._mutex:
            if self._failure is not None:
                raise self._failure
            if self._server is None:
                try:
                    self._server = self._start()
                except Exception as exc:
                    self._failure = exc
                    raise
            return self._server

    def close(self) -> None:
        """Stops the server if one was started; waits for one that is being started."""
        with Client(self.address) as connection:
            connection.send("end")
        self._answering.join()
        self._listener.close()
        if self._server is not None:
            self._server.close()

    def _answer(self) -> None:
        while True:
            with self._listener.accept() as connection, suppress(EOFError, OSError):
                if connection.recv() == "end":
                    return
                self._lend(connection)

    def _lend(self, connection: Connection) -> None:
        try:
            server = self.get()
        except Exception as exc:  # noqa: BLE001 - each worker's tests tell it
            connection.send((False, f"{type(exc).__name__}: {exc}"))
        else:
            connection.send((True, (server.kind, server.url, server.run)))


def borrowed(address: str) -> Server:
    """Returns the server that another process shares; closing it is for that process to do."""
    with Client(address) as connection:
        connection.send("borrow")
        there, answer = connection.recv()
    if not there:
        raise RuntimeError(f"The server of the run did not start: {answer}")
    kind, url, run = answer
    return Server(kind, url, run=run)
