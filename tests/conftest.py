"""A server for the run, a template migrated once, a fresh database for each test.

They are the fixtures of `adkpg.tooling.testing`, under the shorter names that tests here use.
"""

import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import asyncpg
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.testing.server import Server
from tests.fakes import citus
from tests.fakes.pgbouncer import KEEPS_PREPARED, PROGRAM, PgBouncer
from tests.fakes.proxy import Proxy
from tests.fakes.toys import ToyEmbedder
from tests.fakes.watch import COLLECTED, Watch

# Kept, since each test sees an environment without adkpg's settings.
_ENVIRON = dict(os.environ)

for name, examples, derandomize in (
    ("dev", 30, False),
    ("ci", 30, True),
    ("thorough", 100, False),  # make test-all's
):
    hypothesis_settings.register_profile(
        name,
        max_examples=examples,
        derandomize=derandomize,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
hypothesis_settings.load_profile(
    _ENVIRON.get("HYPOTHESIS_PROFILE", "ci" if _ENVIRON.get("CI") else "dev")
)


_CLUSTER = pytest.StashKey[citus.Run]()
STARTS_PROGRAMS = {
    *("demo", "durable_server", "elsewhere", "forker", "healthy", "keeping", "losing"),
    *("own_server", "pair", "serve", "site", "trio", "unpacked_sdist", "used", "wheel"),
}
"""The fixtures that start a program: what asks for one is marked `program`."""


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as cores: a test waits for servers and programs for half of its time."""
    return (os.cpu_count() or 1) * 3 // 2


def pytest_configure(config: pytest.Config) -> None:
    """Starts the cluster of a run on Citus, for the processes that run its tests, too."""
    config.pluginmanager.register(Watch())
    if citus.is_asked_for(_ENVIRON) and citus.STARTED not in _ENVIRON:
        config.stash[_CLUSTER] = run = citus.Run()
        run.start(_ENVIRON)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the cluster of the run."""
    if _CLUSTER in config.stash:
        config.stash[_CLUSTER].stop()


if citus.is_asked_for(_ENVIRON):

    @pytest.fixture(scope="session")
    def adkpg_server() -> citus.CitusServer:
        """The run's cluster, instead of a server."""
        return citus.server_of({**_ENVIRON, **os.environ})

else:

    @pytest.fixture(scope="session")
    def adkpg_server(adkpg_server: Server) -> Iterator[Server]:
        """The run's server; tests reach it through the pooler, if any."""
        with ExitStack() as stack:
            if PROGRAM:
                pooler = stack.enter_context(PgBouncer(adkpg_server.url))
                stack.enter_context(pooler.in_front())
            yield adkpg_server


def _is_elsewhere(item: pytest.Item) -> bool:
    """Whether a test cannot be on the cluster: by its own SQL or plans, or since it kills nodes."""
    kills = "cluster_programs" in getattr(item, "fixturenames", ())
    return (
        any(part in item.nodeid for part in citus.ONE_SERVER)
        or item.get_closest_marker("plan") is not None
        or (kills and not _ENVIRON.get(citus.BIN))
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what needs the server, and what hypothesis draws; through a pooler, leaves out more."""
    config.stash[COLLECTED] = [*items]
    for item in items:
        if "adkpg_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.server)
        starts = STARTS_PROGRAMS.intersection(getattr(item, "fixturenames", ()))
        if starts or any(item.get_closest_marker(each) for each in ("browser", "cluster", "mysql")):
            item.add_marker(pytest.mark.program)
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.property)
    for variable, marker in (("ADKPG_TEST_MARIADB", "mysql"), ("ADKPG_TEST_CHROMIUM", "browser")):
        if not _ENVIRON.get(variable):
            without = [item for item in items if item.get_closest_marker(marker)]
            config.hook.pytest_deselected(items=without)
            items[:] = [item for item in items if item not in without]
    on_cluster = citus.is_asked_for(_ENVIRON)
    left_out = [
        item
        for item in items
        if bool(item.get_closest_marker("cluster")) > on_cluster
        or (on_cluster and _is_elsewhere(item))
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    if PROGRAM:
        led = [
            item
            for item in items
            if item.get_closest_marker("server")
            and not item.get_closest_marker("direct")
            and not (item.get_closest_marker("prepared") and not KEEPS_PREPARED)
        ]
        config.hook.pytest_deselected(items=[item for item in items if item not in led])
        items[:] = led


@pytest.fixture(scope="session")
def server(adkpg_server: Server) -> Server:
    """The run's server, with its template database."""
    return adkpg_server


@pytest.fixture(autouse=True)
def _no_adkpg_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _ENVIRON:
        if name.startswith("ADKPG_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=bool(PROGRAM) and not KEEPS_PREPARED)
def _an_old_pooler_is_told_of_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that count warnings do not mean the one about the pooler; `test_poolers` does."""
    monkeypatch.setattr(logging.getLogger("adkpg.database.connector"), "level", logging.ERROR)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are repeated once, if their connection was lost, and not for half a minute."""
    monkeypatch.setenv("ADKPG_RETRY_TIMEOUT_S", "0")


@pytest.fixture
async def empty_database_url(server: Server) -> AsyncIterator[str]:
    """A database of this test's own, without adkpg's tables."""
    name = await server.create()
    yield server.url_of(name)
    await server.drop(name)


@pytest.fixture
def database_url(server: Server, adkpg_database_url: str) -> str:
    """A migrated database of this test's own."""
    return adkpg_database_url


@pytest.fixture
async def database(adkpg_database: Database) -> AsyncIterator[Database]:
    """A Database on this test's own database, connected before the test counts or cuts."""
    async with adkpg_database as opened:
        yield opened


@pytest.fixture
def sessions(database: Database, adkpg_sessions: DatabaseSessionService) -> DatabaseSessionService:
    return adkpg_sessions


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    """A proxy before this test's own database, which counts round trips and can lose answers."""
    async with Proxy(database_url) as running:
        yield running


@pytest.fixture
def embedder() -> ToyEmbedder:
    return ToyEmbedder()


@pytest.fixture
def adkpg_embedder(embedder: ToyEmbedder) -> ToyEmbedder:
    """What `adkpg_memory` embeds with."""
    return embedder


@pytest.fixture
def memory(database: Database, adkpg_memory: PgVectorMemoryService) -> PgVectorMemoryService:
    return adkpg_memory


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own, with adkpg's schema on its path."""
    opened = await asyncpg.connect(database_url)
    await opened.execute("SET search_path = adkpg, public")
    yield opened
    await opened.close()
