"""``adkpg facts`` against a real server, with a model that follows a script."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.models import registry

from adkpg import Database, PgVectorMemoryService
from tests.fakes import facts_llm as model
from tests.fakes.commands import Adkpg
from tests.fakes.facts_llm import FactsLlm, Script, add, label, operations, supersede
from tests.fakes.people import remember
from tests.fakes.toys import ToyEmbedder

ANA = ("--app", "app", "--user", "user")
MODEL = ("--model", "scripted")
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


@pytest.fixture
def moved(adkpg: Adkpg, stored: str, script: Script) -> None:
    """It is known that the user lived in Berlin, and lives in Paris."""
    script.says(moving_from_nowhere, moving_to_paris)
    assert adkpg("facts", "enable", "--app", "app").code == 0
    assert adkpg("facts", "extract", *ANA, *MODEL).code == 0


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
    new = read(adkpg, "enable", "--app", "app", "--new-only")
    assert new == {"enabled": True, "waiting": 0}


@pytest.mark.usefixtures("stored")
def test_nothing_is_drawn_before_it_is_enabled(adkpg: Adkpg, script: Script) -> None:
    outcome = adkpg("facts", "extract", *ANA, *MODEL)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("No turn waits")
    assert script.requests == []


@pytest.mark.usefixtures("stored")
def test_extract_reports_what_it_did_and_the_tokens(adkpg: Adkpg, script: Script) -> None:
    read(adkpg, "enable", "--app", "app")
    script.says(moving_from_nowhere, moving_to_paris)
    outcome = adkpg("facts", "extract", *ANA, *MODEL)
    assert (outcome.code, outcome.err) == (0, "")
    counts, *dropped = outcome.out.splitlines()[1:]
    calls, prompt, output = (2 * each for each in (1, model.PROMPT_TOKENS, model.OUTPUT_TOKENS + 5))
    assert counts.split() == ["2", "0", "2", "0", "1", "1", *map(str, (calls, prompt, output))]
    assert dropped == ["Dropped (no text): 1."]
    assert read(adkpg, "extract", *ANA, *MODEL)["turns"] == 0


@pytest.mark.usefixtures("stored")
def test_extract_of_one_session_as_json(adkpg: Adkpg, script: Script) -> None:
    read(adkpg, "enable", "--app", "app")
    script.says(moving_from_nowhere)
    report = read(adkpg, "extract", *ANA, *MODEL, "--session", "day1")
    assert report == {
        "turns": 1,
        "failed": 0,
        "added": 1,
        "updated": 0,
        "superseded": 0,
        "dropped": {},
        "usage": {
            "prompt_tokens": model.PROMPT_TOKENS,
            "output_tokens": model.OUTPUT_TOKENS + 5,
            "calls": 1,
        },
        "errors": [],
        "unavailable": False,
    }


@pytest.mark.usefixtures("stored")
def test_a_failure_is_reported_with_its_tokens(adkpg: Adkpg, script: Script) -> None:
    read(adkpg, "enable", "--app", "app")
    script.says("no \x1b[31m", "no", moving_from_nowhere)
    outcome = adkpg("facts", "extract", *ANA, *MODEL, "--session", "day1", "--json")
    assert outcome.code == 1
    assert outcome.err.startswith("Error: Model 'scripted' answered twice")
    report = json.loads(outcome.out)
    assert (report["failed"], report["added"], report["usage"]["calls"]) == (1, 0, 2)


@pytest.mark.usefixtures("stored")
def test_a_worker_draws_facts_without_an_embedder(adkpg: Adkpg, script: Script) -> None:
    read(adkpg, "enable", "--app", "app")
    script.says(moving_from_nowhere, moving_to_paris)
    outcome = adkpg("worker", "--once", "--extract", "scripted", "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out) == {"done": 2, "revived": None}
    assert len(read(adkpg, "profile", *ANA)["facts"]) == 1


@pytest.mark.parametrize("command", ["extract", "summarize"])
@pytest.mark.usefixtures("stored")
def test_an_unknown_model_is_a_sentence(adkpg: Adkpg, command: str) -> None:
    outcome = adkpg("facts", command, *ANA, "--session", "day1", "--model", "nobody")
    assert (outcome.code, outcome.out) == (1, "")
    assert "ADK has no model 'nobody'" in outcome.err


@pytest.mark.usefixtures("moved")
def test_a_profile_shows_facts_with_their_provenance(adkpg: Adkpg) -> None:
    heading, fact, *_, turn = adkpg("facts", "profile", *ANA).out.splitlines()
    assert heading.split() == ["ID", "ABOUT", "FACT"]
    assert fact.rstrip().endswith("Lives in Paris.")
    assert "0.75 home, france" in fact
    assert r"user  < I moved to [bold]Paris[/bold]. \x1b[31m" in turn
    (listed,) = read(adkpg, "profile", *ANA)["facts"]
    assert listed["fact"]["kind"] == "fact"
    assert [words(each) for each in listed["provenance"]] == [SAID[1], SAID[2]]
    assert fact.split()[0] == listed["fact"]["id"]
    assert turn.split()[0] == listed["provenance"][-1]["id"]


@pytest.mark.usefixtures("moved")
def test_a_profile_of_topics(adkpg: Adkpg) -> None:
    about = read(adkpg, "profile", *ANA, "--topic", "travel", "--topic", "france")
    assert [words(each["fact"]) for each in about["facts"]] == ["Lives in Paris."]
    outcome = adkpg("facts", "profile", *ANA, "--topic", "travel")
    assert outcome.out == "No facts are known of this user.\n"


@pytest.mark.usefixtures("stored")
def test_a_profile_has_a_limit(adkpg: Adkpg, script: Script) -> None:
    read(adkpg, "enable", "--app", "app")
    script.says(operations(add("Likes tea.", "t1"), add("Likes rain.", "t1", importance=0.9)))
    read(adkpg, "extract", *ANA, *MODEL, "--session", "day1")
    limited = read(adkpg, "profile", *ANA, "--limit", "1")
    assert [words(each["fact"]) for each in limited["facts"]] == ["Likes rain."]
    assert adkpg("facts", "profile", *ANA, "--limit", "0").code == 2


@pytest.mark.usefixtures("moved")
def test_topics_are_counted(adkpg: Adkpg) -> None:
    rows = adkpg("facts", "topics", *ANA).out.splitlines()
    assert [row.split() for row in rows] == [["TOPIC", "MEMORIES"], ["france", "1"], ["home", "1"]]
    listed = read(adkpg, "topics", *ANA)["topics"]
    assert listed == [{"topic": "france", "memories": 1}, {"topic": "home", "memories": 1}]
    outcome = adkpg("facts", "topics", "--app", "app", "--user", "nobody")
    assert outcome.out == "No memory of this user has a topic.\n"


@pytest.mark.usefixtures("moved")
def test_history_shows_what_replaced_what(adkpg: Adkpg) -> None:
    (now,) = read(adkpg, "profile", *ANA)["facts"]
    new_id = now["fact"]["id"]
    old, new = read(adkpg, "history", *ANA, new_id)["history"]
    assert [words(old), words(new)] == ["Lives in Berlin.", "Lives in Paris."]
    assert old["superseded_by"] == new_id
    rows = adkpg("facts", "history", *ANA, old["id"]).out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == [old["id"], new_id, new_id]
    assert [row.rstrip().endswith("> replaced it") for row in rows] == [False, True, False]
    assert "2026-03-02 12:00:00" in rows[0]
    assert old["expires_at"][:19].replace("T", " ") in rows[1]


@pytest.mark.usefixtures("stored")
def test_history_of_no_fact_is_a_sentence(adkpg: Adkpg) -> None:
    outcome = adkpg("facts", "history", *ANA, "gone\x1b")
    assert (outcome.code, outcome.out) == (1, "")
    assert "has no fact" in outcome.err
    assert "\x1b" not in outcome.err


@pytest.mark.usefixtures("stored")
def test_summarize_asks_the_model_once(adkpg: Adkpg, script: Script) -> None:
    script.says({"summary": "They live in Berlin.", "topics": ["home"]})
    place = (*ANA, *MODEL, "--session", "day1")
    row = adkpg("facts", "summarize", *place).out.splitlines()[1]
    tokens = [str(model.PROMPT_TOKENS), str(model.OUTPUT_TOKENS + 5)]
    assert row.split() == ["1", *tokens, "home", "They", "live", "in", "Berlin."]
    again = read(adkpg, "summarize", *place)
    assert words(again["summary"]) == "They live in Berlin."
    assert again["usage"] == {"prompt_tokens": 0, "output_tokens": 0, "calls": 0}
    assert len(script.requests) == 1


@pytest.mark.usefixtures("stored", "script")
def test_a_session_without_memories_has_no_summary(adkpg: Adkpg) -> None:
    place = (*ANA, *MODEL, "--session", "never")
    assert adkpg("facts", "summarize", *place).out == "Nothing is remembered of this session.\n"
    assert read(adkpg, "summarize", *place)["summary"] is None
