"""The Postgres server of a test run, its migrated template, and a database for each test."""

import asyncio
import atexit
import gc
import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import asyncpg
import docker
from docker.errors import DockerException

from adkpg import Database, Settings
from adkpg.embedded import EmbeddedServer

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
      kind: ``"url"``, ``"docker"`` or ``"embedded"``.
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
        """Drops the template and stops what was started for the run."""
        try:
            asyncio.run(self.drop(self.template))
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


def _memory() -> Path | None:
    """Returns a directory in memory with room for a run, where a database is copied 10 x faster."""
    shm = Path("/dev/shm")
    roomy = shm.is_dir() and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 4 << 30
    return shm if roomy else None


def joined(text: str) -> Server:
    """Returns another process's server from what `handed_over` wrote; never stops it."""
    kind, run, url = text.split(" ", 2)
    return replace(Server(kind, url), run=run)


def handed_over(server: Server) -> str:
    return f"{server.kind} {server.run} {server.url}"
