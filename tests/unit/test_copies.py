"""Copies of services: a deep copy shares them, and nothing takes them to another process."""

import copy
import pickle

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.sessions.session import Session

from adkpg import (
    Database,
    DatabaseArtifactService,
    DatabaseSessionService,
    PgVectorMemoryService,
)

DATABASE = Database("postgresql://127.0.0.1:1/none")
SERVICES = [
    DATABASE,
    DatabaseSessionService(DATABASE),
    DatabaseArtifactService(DATABASE),
    PgVectorMemoryService(DATABASE, mode="text"),
]


@pytest.mark.parametrize("service", SERVICES, ids=lambda each: type(each).__name__)
def test_a_copy_is_the_service_itself_and_pickling_is_refused(service: object) -> None:
    assert copy.copy(service) is service
    assert copy.deepcopy({"holds": [service]})["holds"] == [service]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="make another Database"):
            pickle.dumps(service, protocol)


def test_adks_context_is_copied_with_its_services() -> None:
    sessions = SERVICES[1]
    assert isinstance(sessions, DatabaseSessionService)
    context = InvocationContext(
        session_service=sessions,
        invocation_id="i",
        agent=LlmAgent(name="a"),
        session=Session(id="s", app_name="a", user_id="u"),
    )
    assert context.model_copy(deep=True).session_service is sessions
