"""Plays a scenario on ADK's services and on adkpg's, and compares."""

import difflib
import json
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from google.adk.apps import App

from tests.fakes import stage as stages
from tests.fakes.stage import Play, Stage


@pytest.fixture(autouse=True)
def _warnings_of_adk() -> Iterator[None]:
    """ADK warns of features that come and of agents that go; scenarios use both on purpose."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\[EXPERIMENTAL\]", category=UserWarning)
        warnings.filterwarnings(
            "ignore", message="The `plugins` argument is deprecated", category=DeprecationWarning
        )  # AgentTool makes its Runner so
        warnings.filterwarnings(
            "ignore", message=".* deprecated in favor of Workflow", category=DeprecationWarning
        )
        yield


@pytest.fixture
def play(database_url: str) -> Play:
    async def played(
        build: Callable[[Stage], App],
        scenario: Callable[[Stage], Awaitable[None]],
        *,
        create: bool = True,
    ) -> dict[str, Any]:
        records = []
        for rebuild in (stages.in_memory(), stages.on_postgres(database_url)):
            stage = Stage(rebuild, build, auto_create=not create)
            if create:
                await stage.create()
            await scenario(stage)
            records.append(await stage.record())
        expected, found = records
        different = difflib.unified_diff(_lines(expected), _lines(found), "ADK's", "adkpg's")
        assert found == expected, "\n".join(different)
        return found

    return played


def _lines(record: dict[str, Any]) -> list[str]:
    return json.dumps(record, indent=1, ensure_ascii=False, sort_keys=True).splitlines()
