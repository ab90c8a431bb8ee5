"""The programs of ADK's documentation print the same on ADK's services and on adkpg's."""

import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from adkpg import DatabaseArtifactService, DatabaseSessionService, PgVectorMemoryService
from tests.fakes.checkout import CHECKOUT

# What the pages say that is printed: sessions/session, sessions/state, sessions/memory, artifacts,
# agents/workflow-agents and the quickstart.
DOCUMENTED: dict[str, list[str]] = {
    "session_properties": [
        "state: {'initial_key': 'initial_value'}",
        "events: []",
        "delete_session: None",
        "get_session: None",
    ],
    "output_key": [
        "Initial state: {}",
        "State after agent run: {'last_greeting': 'Hello there! How can I help you today?'}",
    ],
    "state_delta": [
        "State after event: [('task_status', 'active'), ('user:last_login_ts', 1767225600.25), "
        "('user:login_count', 1)]",
        "State of her next session: [('user:last_login_ts', 1767225600.25), "
        "('user:login_count', 1)]",
    ],
    "context_state": ["Agent: Dark it is.", "State: [('turns', 2), ('user:theme', 'dark')]"],
    "pipeline": [
        "Told: Review this code: def f(): return 42",
        "Authors: ['user', 'writer', 'reviewer']",
    ],
    "memory_recall": [
        "Agent 2: Your favorite project is Project Alpha.",
        "It was told by memory: True",
    ],
    "artifacts": [
        "Saved report.pdf as version 0",
        "Loaded: b'second'",
        "Files: ['report.pdf', 'user:profile.png']",
        "Files of another session: ['user:profile.png']",
        "After delete_artifact: None",
    ],
    "weather_agent": [
        "Agent: It is sunny in New York, 25 degrees Celsius.",
        "Tool: {'status': 'error', 'error_message': \"Nothing is known of 'Paris'.\"}",
    ],
}


@pytest.fixture(scope="module")
def classics() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("classics", CHECKOUT / "examples" / "classics.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["classics"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["classics"]


def test_each_is_tested(classics: ModuleType) -> None:
    assert [program.__name__ for program in classics.PROGRAMS] == [*DOCUMENTED]


# What the documentation shows, and ADK has replaced by Workflow.
@pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", DOCUMENTED)
async def test_it_prints_what_is_documented_on_adks_services_and_on_ours(
    classics: ModuleType,
    name: str,
    sessions: DatabaseSessionService,
    memory: PgVectorMemoryService,
    adkpg_artifacts: DatabaseArtifactService,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program: Any = getattr(classics, name)
    adks = InMemorySessionService(), InMemoryMemoryService(), InMemoryArtifactService()
    printed = []
    for services in (adks, (sessions, memory, adkpg_artifacts)):
        await program(classics.Services(*services, user_id="ada"))
        printed.append(capsys.readouterr().out)
    assert printed[1] == printed[0]
    assert set(DOCUMENTED[name]) <= set(printed[1].splitlines()), printed[1]
