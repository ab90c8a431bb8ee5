"""How ADK's registry makes the services; no server is needed, since nothing connects."""

import gc
import weakref
from typing import Any

import pytest
from google.adk.cli.service_registry import get_service_registry
from sqlalchemy import QueuePool

from adkpg import DatabaseArtifactService, DatabaseSessionService, PgVectorMemoryService
from adkpg.adk import ArtifactService, MemoryService, SessionService, register
from adkpg.errors import ConfigurationError

URI = "adkpg://ada:secret@127.0.0.1:1/agents"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")
    register()
    register()


def made_sessions(uri: str, **session_db_kwargs: Any) -> DatabaseSessionService:
    """The service as ADK's commands make it."""
    registry = get_service_registry()
    service = registry.create_session_service(uri, agents_dir="agents", **session_db_kwargs)
    assert isinstance(service, DatabaseSessionService)
    return service


def made_memory(uri: str) -> PgVectorMemoryService:
    """The service as ADK's commands make it."""
    service = get_service_registry().create_memory_service(uri, agents_dir="agents")
    assert isinstance(service, PgVectorMemoryService)
    return service


@pytest.mark.parametrize("uri", [URI, "adkpg://embedded"])
def test_both_services_of_a_url_share_one_database(uri: str) -> None:
    memory, sessions = made_memory(uri), made_sessions(uri)
    assert sessions.database is memory.database
    assert made_sessions(URI + "2").database is not sessions.database
    assert "secret" not in repr(sessions.database)


def test_classes_of_a_services_yaml_share_one_database() -> None:
    memory = MemoryService(uri=URI, agents_dir="agents")
    sessions = SessionService(uri=URI, agents_dir="agents")
    assert sessions.database is memory.database is made_sessions(URI).database


@pytest.mark.parametrize("options", [{}, {"pool_size": 2}], ids=["shared", "of its own"])
def test_the_policy_of_the_sessions_holds_for_the_memory(options: dict[str, Any]) -> None:
    sessions = SessionService(uri=URI, remember="redacted", **options)
    memory = MemoryService(uri=URI)
    assert sessions.database.policy is not None
    assert memory.database.policy == sessions.database.policy


def test_files_share_the_database_of_the_others() -> None:
    sessions = made_sessions(URI)
    files = get_service_registry().create_artifact_service(URI, agents_dir="agents")
    assert isinstance(files, DatabaseArtifactService)
    assert files.database is ArtifactService(uri=URI).database is sessions.database


def test_uri_without_an_address_is_the_one_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", "postgresql://127.0.0.1:1/first")
    first = made_sessions("adkpg://")
    assert first.database.url == "postgresql://127.0.0.1:1/first"
    monkeypatch.setenv("ADKPG_DATABASE_URL", "postgresql://127.0.0.1:1/second")
    second = made_sessions("adkpg://")
    assert second.database.url == "postgresql://127.0.0.1:1/second"


def test_uri_without_an_address_needs_the_setting() -> None:
    with pytest.raises(ConfigurationError, match="set ADKPG_DATABASE_URL"):
        made_sessions("adkpg://")
    with pytest.raises(ConfigurationError, match="set ADKPG_DATABASE_URL"):
        made_memory("adkpg://")


def test_database_goes_with_the_last_service_that_uses_it() -> None:
    memory, sessions = made_memory(URI), made_sessions(URI)
    database = weakref.ref(sessions.database)
    del sessions
    gc.collect()
    assert database() is memory.database
    del memory
    gc.collect()
    assert database() is None


async def test_session_db_kwargs_are_the_engine_s_and_the_session_service_s_own() -> None:
    memory = made_memory(URI)
    sessions = made_sessions(URI, pool_size=2, max_overflow=0)
    assert sessions.database is not memory.database
    pool = (await sessions.database.engine()).pool
    assert isinstance(pool, QueuePool)
    assert pool.size() == 2
    await sessions.database.close()
    assert made_sessions(URI, on_conflict="merge").database is memory.database


def test_wrong_conflict_rule_is_told() -> None:
    with pytest.raises(ConfigurationError, match="on_conflict"):
        made_sessions(URI, on_conflict="ignore")
