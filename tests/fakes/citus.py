"""A Citus cluster of real servers, and a distributed database for each test.

``ADKPG_TEST_CITUS_BIN`` names the folder with the programs of a PostgreSQL that has Citus and
pgvector, or ``ADKPG_TEST_CITUS_URL`` the coordinator of a cluster that runs.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from adkpg import Database, Settings
from adkpg.database.address import parse
from adkpg.database.scratch import renamed
from adkpg.embedded.account import Account
from tests.fakes.postmaster import children, standing_still

BIN, URL, STARTED = "ADKPG_TEST_CITUS_BIN", "ADKPG_TEST_CITUS_URL", "ADKPG_TEST_CITUS_STARTED"

SHARDS = 4
"""Parts of each table: enough for two nodes to hold two each, few enough to be copied fast."""

_PLANS = "plans are made by each node for its parts, and EXPLAIN there does not say them as JSON"
"""So tests that are marked ``plan`` are left out, too."""
_NO_SCOPES = "row-level security is refused there: test_distribute.py"
_TOLD = "appends tell nobody there, so whoever waits to be told waits for ever"
_KEPT = "a search's plan is kept by the user's node: distributed/test_searches.py"
_SWEPT = (
    "a trigger cannot write to all nodes, so a sweep finds what no file names;"
    " distributed/test_objects.py has what an erasure removes at once"
)
ONE_SERVER: dict[str, str] = {
    "test_watching.py::test_events_are_told_as_they_come": _TOLD,
    "test_watching.py::test_without_a_place_it_begins_at_the_end": _TOLD,
    "test_watching.py::test_a_killed_listener_misses_and_doubles_nothing": _TOLD,
    "test_watching.py::test_appends_that_nobody_watches_tell_nothing": _TOLD,
    "test_watching.py::test_nobody_watches_anothers_session": _NO_SCOPES,
    "test_reembed.py::test_a_vector_of_the_old_model_waits": "settings are copies, which nobody"
    " holds there; test_changed_models.py has what is kept instead",
    "test_hnsw.py::test_a_large_user_is_answered_through_the_index": _PLANS,
    "test_search.py::test_the_longest_search_is_prepared_once": _KEPT,
    "test_worker.py::test_a_worker_outlives_errors_that_pass": "a session's lock_timeout is not"
    " told to other nodes",
    "test_hnsw.py::test_searches_through_the_index_are_planned_for_the_user": _KEPT,
    "test_prepared_statements.py::": _KEPT,
    "test_claimed_ingests.py::test_it_takes_two_round_trips_or_three": "vectors are stored in a"
    " transaction there, of four messages: docs/distributed.md",
    "test_people.py::test_only_so_many_ids_are_looked_at_for_a_page": "each node sends its page of"
    " an app's users, and none looks at more ids than another",
    "test_people.py::test_a_row_of_any_table": "foreign keys are switched off by the session alone,"
    " which other nodes are not told",
    "test_claims.py::test_what_is_a_copy": "a cluster is copied in neither of these ways",
    "test_uploads.py::test_what_a_killed_save_left": _SWEPT,
    "test_objects.py::test_bytes_go_with_their_rows[prune_sessions]": _SWEPT,
    "test_objects.py::test_bytes_go_with_their_rows[adkpg sessions prune]": _SWEPT,
    "test_objects.py::test_bytes_go_with_their_rows[tidy]": _SWEPT,
    "test_objects.py::test_bytes_go_with_their_rows[adkpg db tidy]": _SWEPT,
    "later_sweep[prune_sessions]": _SWEPT,
    "later_sweep[tidy]": _SWEPT,
    "test_life.py::test_a_state_that_a_writer_holds": "a sweep of several nodes waits for its rows",
    "test_switching.py::": "settings are copies, which nobody holds there",
    "test_large_ingests.py::": "what a call writes is counted in a table of the server",
}
"""Tests that cannot run on a cluster, by a part of their name, and why."""

_HOST = "127.0.0.1"
_LONGEST_S = 60.0
_SETTINGS = {
    "shared_preload_libraries": "citus",
    "listen_addresses": _HOST,
    "wal_level": "logical",  # parts are moved by logical replication
    "max_connections": "300",
    "max_prepared_transactions": "300",
    "max_worker_processes": "256",  # each test's database has a daemon of Citus
    "max_wal_senders": "32",
    "max_replication_slots": "64",
    "max_logical_replication_workers": "32",
    "shared_buffers": "64MB",
    "autovacuum": "off",
    "jit": "off",
    "fsync": "off",  # processes are killed here, never the machine
    "full_page_writes": "off",
    "synchronous_commit": "on",  # what is committed is written, and outlives the process
    "citus.node_conninfo": "sslmode=prefer",  # a server without TLS will do
    "citus.enable_statistics_collection": "off",
    "citus.shard_count": str(SHARDS),
}

_DURABLE = {
    "shared_buffers": "256MB",
    "autovacuum": "on",
    "fsync": "on",
    "full_page_writes": "on",
    "citus.shard_count": "32",
}


def is_asked_for(environ: Mapping[str, str]) -> bool:
    """Whether the run is one on a cluster."""
    return bool(environ.get(BIN) or environ.get(URL) or environ.get(STARTED))


class Node:
    """One server of a cluster, with a directory and a port that it keeps."""

    def __init__(
        self,
        name: str,
        place: Path,
        programs: Path,
        account: Account,
        settings: Mapping[str, str] = _SETTINGS,
    ) -> None:
        self.name = name
        self.port = _free_port()
        self._settings = settings
        self._data = place / name
        self._place = place
        self._programs = programs
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres") -> str:
        """Returns the URL of one of its databases."""
        return f"postgresql://postgres@{_HOST}:{self.port}/{database}"

    def initialise(self) -> None:
        """Makes its directory."""
        settings = [part for each in self._settings.items() for part in ("-c", "=".join(each))]
        ended = self._account.run(
            [
                *(self._programs / "initdb", "-D", self._data, "-U", "postgres", "-A", "trust"),
                *("-E", "UTF8", "--locale=C.UTF-8", "--no-sync", *settings),
            ],
            timeout_s=_LONGEST_S,
        )
        if ended.returncode:
            raise RuntimeError(f"initdb failed: {ended.stdout}{ended.stderr}")

    async def start(self) -> None:
        """Starts it, and waits until it answers."""
        switch = self._account.switch
        with (self._place / f"{self.name}.log").open("ab") as log:
            # A child of ours, so that we can wait for it when it is killed.
            self._process = subprocess.Popen(  # noqa: ASYNC220 - it begins at once
                [
                    *(self._programs / "postgres", "-D", self._data, "-c", f"port={self.port}"),
                    *("-c", f"unix_socket_directories={self._place}"),
                ],
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
        async with asyncio.timeout(_LONGEST_S):
            while True:
                if self._process.poll() is not None:
                    raise RuntimeError(f"{self.name} did not start: {self.log()[-800:]}")
                with suppress(OSError, asyncpg.PostgresError):
                    await said(self.url(), "SELECT true")
                    return
                await asyncio.sleep(0.05)

    def kill(self) -> None:
        """Ends it as a crash would: every process of it, at once."""
        if self._process is not None and self._process.poll() is None:
            group = os.getpgid(self._process.pid)
            started = children(self._process.pid)
            os.killpg(group, signal.SIGKILL)
            for child in started:  # each of them has a session of its own
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            self._process.wait()
        self._process = None

    def frozen(self) -> AbstractContextManager[None]:
        """All its processes stand still inside: it takes connections, and answers nothing."""
        assert self._process is not None
        return standing_still(self._process.pid)

    def log(self) -> str:
        """Returns what it has said."""
        return (self._place / f"{self.name}.log").read_text(encoding="utf-8", errors="replace")


class Cluster:
    """A coordinator and workers on this machine, which end with this object.

    Args:
      programs: The folder with ``initdb`` and ``postgres``, which have Citus and pgvector.
      workers: How many.
      durable: They keep what is committed as servers in service do, on the disk: for measurements.
    """

    def __init__(self, programs: Path, *, workers: int = 2, durable: bool = False) -> None:
        shm = Path("/dev/shm")
        roomy = not durable and shm.is_dir() and shutil.disk_usage(shm).free > 4 << 30
        self._settings = {**_SETTINGS, **(_DURABLE if durable else {})}
        self._place = Path(tempfile.mkdtemp(prefix="adkpg-citus-", dir=shm if roomy else None))
        self._programs = programs
        self._account = Account.of_server(self._place, self._place / "coordinator")
        self._account.give(self._place)
        self.nodes = [self._node(f"node{number}") for number in range(workers + 1)]

    @property
    def url(self) -> str:
        """The coordinator's database that others are created from."""
        return self.nodes[0].url()

    def _node(self, name: str) -> Node:
        return Node(name, self._place, self._programs, self._account, self._settings)

    async def start(self) -> None:
        """Starts every node; the database ``postgres`` of each is a cluster's."""
        for node in self.nodes:
            await asyncio.to_thread(node.initialise)
            await node.start()
            await said(node.url(), "CREATE EXTENSION citus")
        coordinator = self.nodes[0]
        await said(self.url, f"SELECT citus_set_coordinator_host('{_HOST}', {coordinator.port})")
        for node in self.nodes[1:]:
            await said(self.url, f"SELECT citus_add_node('{_HOST}', {node.port})")

    async def add(self, database: str) -> Node:
        """Starts one more worker, which a database's cluster knows and has nothing on yet."""
        node = self._node(f"node{len(self.nodes)}")
        self.nodes.append(node)
        await asyncio.to_thread(node.initialise)
        await node.start()
        await said(node.url(), f"CREATE DATABASE {database}")
        await said(node.url(database), "CREATE EXTENSION citus")
        here = self.nodes[0].url(database)
        await said(here, f"SELECT citus_add_node('{_HOST}', {node.port})")
        return node

    def stop(self) -> None:
        """Ends every node, and removes what they kept."""
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self._place, ignore_errors=True)


class CitusServer:
    """A cluster that the run creates databases on: each one is distributed, over all of its nodes.

    It answers as `adkpg.tooling.testing.server.Server` does.

    Args:
      url: A database of the coordinator that knows the workers.
      run: Marks this run's databases.
    """

    kind = "citus"

    def __init__(self, url: str, run: str | None = None) -> None:
        self.url = url
        self.run = run or uuid.uuid4().hex[:8]
        self._address = parse(url)
        self._others: list[str] | None = None

    @property
    def template(self) -> str:
        """The name of the run's distributed database, which others are copied from."""
        return f"adkpg_template_{self.run}"

    def url_of(self, database: str) -> str:
        """Returns the URL of another database of the coordinator."""
        return renamed(self._address, database)

    async def nodes_of(self, database: str) -> list[str]:
        """Returns the URLs of a database on all nodes, the coordinator's first."""
        if self._others is None:
            rows = await said(
                self.url, "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0"
            )
            self._others = [f"{row['nodename']}:{row['nodeport']}" for row in rows]
        here = self.url_of(database)
        host = f"{self._address.display}".rpartition("@")[2].partition("/")[0]
        return [here, *(here.replace(host, other, 1) for other in self._others)]

    async def prepare(self) -> None:
        """Makes the template: a database of each node, together a cluster with adkpg's tables."""
        await self._everywhere(f"CREATE DATABASE {self.template}")
        await self.join(self.template)
        settings = Settings.model_construct()
        async with Database(self.url_of(self.template), settings=settings) as database:
            await database.upgrade()
            await database.distribute()
        for url in await self.nodes_of("postgres"):
            await said(url, f"ALTER DATABASE {self.template} ALLOW_CONNECTIONS false")
            await said(
                url,
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                f" WHERE datname = '{self.template}'",
            )

    async def join(self, database: str) -> None:
        """Makes a cluster of the databases that the nodes have under a name."""
        nodes = await self.nodes_of(database)
        for url in nodes:
            await said(url, "CREATE EXTENSION IF NOT EXISTS citus")
        places = [parse(url).display.rpartition("@")[2].partition("/")[0] for url in nodes]
        for index, place in enumerate(places):
            host, _, port = place.rpartition(":")
            function = "citus_add_node" if index else "citus_set_coordinator_host"
            await said(nodes[0], f"SELECT {function}('{host}', {port})")

    async def create(self, *, template: str = "template0") -> str:
        """Creates an empty database, or a copy of a template, on each node; returns its name."""
        name = f"adkpg_test_{self.run}_{uuid.uuid4().hex[:12]}"
        await self._everywhere(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    async def drop(self, database: str) -> None:
        """Drops a database on each node, whoever is connected to it."""
        # In turn: Citus's daemon of a node that still has it connects to all that have it, and
        # Postgres waits five seconds for those who came after it ended everybody.
        for url in await self.nodes_of("postgres"):
            for _ in range(20):
                with suppress(asyncpg.ObjectInUseError):
                    await said(url, f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
                    break
                await asyncio.sleep(0.2)

    async def execute(self, sql: str) -> None:
        """Sends a statement to the coordinator, outside of any transaction."""
        await said(self.url, sql)

    async def _everywhere(self, sql: str) -> None:
        await asyncio.gather(*(said(url, sql) for url in await self.nodes_of("postgres")))

    async def close(self) -> None:
        """Drops the run's databases."""
        rows = await said(
            self.url, f"SELECT datname FROM pg_database WHERE datname ~ '^adkpg_.*{self.run}'"
        )
        for row in rows:
            await self.drop(row["datname"])


@dataclass(frozen=True)
class Own:
    """A cluster of the test's own, with a distributed database."""

    cluster: Cluster
    server: CitusServer
    database: str

    @property
    def url(self) -> str:
        """The database on the coordinator."""
        return self.server.url_of(self.database)


async def said(url: str, sql: str) -> list[asyncpg.Record]:
    """Sends a statement by itself, past any pooler, and returns its rows."""
    place = parse(url)
    connection = await asyncpg.connect(place.dsn, timeout=_LONGEST_S, **dict(place.options))
    try:
        return await connection.fetch(sql)  # type: ignore[no-any-return] # asyncpg says Any
    finally:
        await connection.close()


async def home_of(url: str, user_id: str) -> str:
    """Returns the URL of the server that has a user: of a cluster, the node's."""
    distributed = await said(url, "SELECT to_regclass('pg_dist_placement')")
    if distributed[0][0] is None:
        return url
    ((name, port),) = await said(
        url,
        "SELECT nodename, nodeport FROM pg_dist_placement JOIN pg_dist_node USING (groupid)"
        f" WHERE shardid = get_shard_id_for_distribution_column('adkpg.sessions', '{user_id}')",
    )
    host = url.rpartition("@")[2].partition("/")[0]
    return url.replace(host, f"{name}:{port}", 1)


class Run:
    """The cluster of a test run, for all of its processes.

    The process that starts it says so in the environment, which those it starts inherit.
    """

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._server: CitusServer | None = None

    def start(self, environ: Mapping[str, str]) -> None:
        """Starts or finds the cluster, and makes its template."""
        url = environ.get(URL)
        if not url:
            self._cluster = Cluster(Path(environ[BIN]))
        try:
            asyncio.run(self._start(url))
        except BaseException:
            self.stop()
            raise
        assert self._server is not None
        os.environ[STARTED] = json.dumps([self._server.url, self._server.run])

    async def _start(self, url: str | None) -> None:
        if self._cluster is not None:
            await self._cluster.start()
            url = self._cluster.url
        assert url
        self._server = CitusServer(url)
        await self._server.prepare()

    def stop(self) -> None:
        """Ends what it started."""
        if self._cluster is not None:
            self._cluster.stop()
        elif self._server is not None:
            asyncio.run(self._server.close())


def server_of(environ: Mapping[str, str]) -> CitusServer:
    """Returns the server that this process or the one that started it has started."""
    return CitusServer(*json.loads(environ[STARTED]))


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind((_HOST, 0))
        return int(taken.getsockname()[1])
