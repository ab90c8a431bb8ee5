"""Tools in the real Runner, which warns of what comes and goes in ADK."""

import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _warnings_of_adk() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\[EXPERIMENTAL\]", category=UserWarning)
        warnings.filterwarnings(
            "ignore", message=".* deprecated in favor of Workflow", category=DeprecationWarning
        )
        # ADK's own AgentTool uses it.
        warnings.filterwarnings(
            "ignore", message="The `plugins` argument is deprecated", category=DeprecationWarning
        )
        yield
