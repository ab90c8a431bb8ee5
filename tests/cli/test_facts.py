"""``adkpg facts`` against a real server, with a model that follows a script."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.models import registry

from adkpg import Database, PgVectorMemoryService
from tests.fakes.commands import Adkpg
from tests.fakes.facts_llm import FactsLlm, Script, add, label, operations, supersede
from tests.fakes.people import remember
from tests.fakes.toys import ToyEmbedder

ANA = ("--app", "app", "--user", "user")
SAID = {1: "I live in Berlin.", 2: "I moved to [bold]Paris[/bold]. \x1b[31m"}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """What the model says that the registry of ADK has under the name of scripted."""
    followed = Script()

    class Scripted(FactsLlm):
        def model_post_init(self, _context: Any) -> None:
            self._script = followed

        @classmethod
        def supported_models(cls) -> list[str]:
            return ["scripted"]

    with monkeypatch.context() as patched:
        patched.setattr(registry, "_llm_registry_dict", dict(registry._llm_registry_dict))
        registry.LLMRegistry.register(Scripted)
        yield followed
    registry.LLMRegistry.resolve.cache_clear()


@pytest.fixture
def stored(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with two sessions of one user, named by the environment; words alone find."""
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")
    monkeypatch.setenv("COLUMNS", "140")

    async def fill() -> None:
        async with Database(database_url) as database:
            memory = PgVectorMemoryService(database, embedder=ToyEmbedder())
            for day, text in SAID.items():
                await remember(memory, day, text)

    asyncio.run(fill())
    return database_url


def moving_from_nowhere(prompt: str) -> str:
    turn = label(prompt, "turns", "Berlin")
    return operations(add("Lives in Berlin.", turn, topics=["home"], importance=0.75))


def moving_to_paris(prompt: str) -> str:
    known, turn = label(prompt, "known_facts", "Berlin"), label(prompt, "turns", "Paris")
    fact = supersede(known, "Lives in Paris.", turn, topics=["home", "france"], importance=0.75)
    return operations(fact, {"action": "add"})


def read(adkpg: Adkpg, *arguments: str) -> Any:
    """What a command that succeeds prints as JSON."""
    outcome = adkpg("facts", *arguments, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    return json.loads(outcome.out)


def words(memory: dict[str, Any]) -> str:
    text: str = memory["content"]["parts"][0]["text"]
    return text


@pytest.mark.usefixtures("stored")
def test_enable_tells_how_many_turns_wait(adkpg: Adkpg) -> None:
    for _ in range(2):
        outcome = adkpg("facts", "enable", "--app", "app")
        assert outcome.out == "Facts are drawn for app 'app'; turns that wait for it: 2.\n"
    assert read(adkpg, "enable", "--app", "app") == {"enabled": True, "waiting": 2}
    assert "No facts are drawn" in adkpg("facts", "disable", "--app", "app").out
    assert read(adkpg, "disable", "--app", "app") == {"enabled": False}


@pytest.mark.usefixtures("stored")
def test_a_worker_draws_facts_without_an_embedder(adkpg: Adkpg, script: Script) -> None:
    read(adkpg, "enable", "--app", "app")
    script.says(moving_from_nowhere, moving_to_paris)
    outcome = adkpg("worker", "--once", "--extract", "scripted", "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out) == {"done": 2, "revived": None}
    (fact,) = json.loads(adkpg("memory", "list", *ANA, "--kind", "fact", "--json").out)["memories"]
    assert words(fact) == "Lives in Paris."
