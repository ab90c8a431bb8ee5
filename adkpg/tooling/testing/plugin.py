"""The fixtures that pytest finds by itself: databases, services and an embedder for each test.

All are plain functions, so that they work with pytest-asyncio in either mode, with anyio's plugin
on asyncio, and with tests that run a loop of their own. A database's connections close with the
event loop that opened them. Nothing is imported or started before a test asks for it.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from adkpg import (
        Database,
        DatabaseArtifactService,
        DatabaseSessionService,
        PgVectorMemoryService,
    )
    from adkpg.tooling.testing.embedder import DeterministicEmbedder
    from adkpg.tooling.testing.server import Server

pytest.register_assert_rewrite("adkpg.tooling.testing.conformance")

_ENVIRONMENT = pytest.StashKey[Mapping[str, str]]()
_SHARED = pytest.StashKey[Any]()
_SERVER = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the ini option that names the server."""
    parser.addini(
        "adkpg_server",
        "Where tests get their Postgres, unless ADKPG_TEST_DATABASE_URL says so: the URL of a "
        "server where they may create databases, docker, or embedded.",
        default="",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keeps the environment as the run began, since tests change it."""
    config.stash[_ENVIRONMENT] = dict(os.environ)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells each of pytest-xdist's workers where to ask for the server."""
    from adkpg.tooling.testing.sharing import Shared

    config = node.config
    if _SHARED not in config.stash:
        config.stash[_SHARED] = Shared(lambda: _started(config))
    node.workerinput["adkpg_server"] = config.stash[_SHARED].address


def pytest_unconfigure(config: pytest.Config) -> None:
    """Drops the run's databases and stops its server, also after Ctrl-C."""
    for key in (_SHARED, _SERVER):
        held: Any = config.stash.get(key, None)
        if held is not None:
            del config.stash[key]
            held.close()


def _started(config: pytest.Config) -> "Server":
    from adkpg.tooling.testing.server import choose

    server = choose(config.stash[_ENVIRONMENT], named=config.getini("adkpg_server"))
    with ExitStack() as unprepared:
        unprepared.callback(server.stop)
        prepared = server.prepare()
        unprepared.pop_all()
    return prepared


@pytest.fixture(scope="session")
def adkpg_server(request: pytest.FixtureRequest) -> "Server":
    """The run's Postgres server; one for all of pytest-xdist's workers.

    It is started for the first test that asks, and stopped at the end of the run.
    """
    from adkpg.errors import AdkpgError

    config = request.config
    try:
        if address := getattr(config, "workerinput", {}).get("adkpg_server"):
            from adkpg.tooling.testing.sharing import borrowed

            return borrowed(address)
        config.stash[_SERVER] = started = _started(config)
        return started
    except AdkpgError as exc:
        sentence = str(exc)
    pytest.fail(sentence, pytrace=False)  # not while handling it, or pytest says it twice


@pytest.fixture
def adkpg_database_url(adkpg_server: "Server") -> Iterator[str]:
    """The URL of a migrated database of this test's own, which is dropped after it."""
    from adkpg.tooling.testing.server import apart

    name = apart(adkpg_server.create(template=adkpg_server.template))
    yield adkpg_server.url_of(name)
    apart(adkpg_server.drop(name))


@pytest.fixture
def adkpg_environment(
    request: pytest.FixtureRequest, adkpg_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lets ``ADKPG_DATABASE_URL`` name this test's database, and clears the machine's settings.

    So nothing under test reaches a database of the developer's. Settings that the test or another
    of its fixtures has made stay.
    """
    for name, value in request.config.stash[_ENVIRONMENT].items():
        if name.startswith("ADKPG_") and os.environ.get(name) == value:
            monkeypatch.delenv(name)
    monkeypatch.setenv("ADKPG_DATABASE_URL", adkpg_database_url)


@pytest.fixture
def adkpg_database(adkpg_database_url: str, adkpg_environment: None) -> "Database":
    """A Database on this test's own, migrated database."""
    from adkpg import Database

    return Database(adkpg_database_url)


@pytest.fixture
def adkpg_sessions(adkpg_database: "Database") -> "DatabaseSessionService":
    """A session service without sessions."""
    from adkpg import DatabaseSessionService

    return DatabaseSessionService(adkpg_database)


@pytest.fixture
def adkpg_embedder() -> "DeterministicEmbedder":
    """What ``adkpg_memory`` embeds with; override it for another."""
    from adkpg.tooling.testing.embedder import DeterministicEmbedder

    return DeterministicEmbedder()


@pytest.fixture
def adkpg_memory(adkpg_database: "Database", adkpg_embedder: Any) -> "PgVectorMemoryService":
    """A memory service that remembers nothing yet."""
    from adkpg import PgVectorMemoryService

    return PgVectorMemoryService(adkpg_database, embedder=adkpg_embedder)


@pytest.fixture
def adkpg_artifacts(adkpg_database: "Database") -> "DatabaseArtifactService":
    """An artifact service without files."""
    from adkpg import DatabaseArtifactService

    return DatabaseArtifactService(adkpg_database)
