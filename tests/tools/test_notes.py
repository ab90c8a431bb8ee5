"""`remember` and `forget`, called by a model in the real Runner."""

from typing import Any

import pytest
from google.adk.memory import InMemoryMemoryService

from adkpg import PgVectorMemoryService
from adkpg.in_memory import InMemoryVectorMemoryService
from adkpg.remember.policy import RememberPolicy
from adkpg.tooling.testing.scripted_llm import call, text
from adkpg.tools import ForgetTool, RememberTool, forget, load_memory, remember
from tests.fakes.stage import APP, USER, Stage
from tests.fakes.tool_stage import answers, stage_on, told


async def asked(stage: Stage, tool: str, **arguments: Any) -> dict[str, Any]:
    stage.script("root", call(tool, **arguments), text("Done."))
    [answer] = answers(await stage.say("Please"), tool)
    return answer


async def notes(
    memory: PgVectorMemoryService, query: str = "kitten", user: str = USER
) -> list[Any]:
    found = await memory.search_memory(app_name=APP, user_id=user, query=query)
    return found.memories


async def test_a_note_is_kept_once_and_forgotten(memory: PgVectorMemoryService) -> None:
    stage = stage_on(memory, remember, forget, load_memory)
    kept = await asked(stage, "remember", text="The user has a cat.")
    again = await asked(stage, "remember", text="The user has a cat.")
    assert kept == again == {"remembered": "The user has a cat.", "id": kept["id"]}
    [note] = await notes(memory)
    assert (note.id, note.author) == (kept["id"], "root")
    assert await notes(memory, user="bob") == []

    [found] = (await asked(stage, "load_memory", query="kitten"))["memories"]
    forgotten = await asked(stage, "forget", memory_id=found["id"])
    assert forgotten == {"forgotten": [kept["id"]]}
    assert await notes(memory) == []


@pytest.mark.parametrize("kind", ["Postgres", "this process"])
async def test_forgetting_a_hit_forgets_all_that_it_stands_for(
    memory: PgVectorMemoryService, kind: str
) -> None:
    service = memory if kind == "Postgres" else InMemoryVectorMemoryService()
    await told(service, "My safe code is lilac.", "My safe code is new.", "my safe code is lilac")
    stage = stage_on(service, forget, load_memory)
    found = (await asked(stage, "load_memory", query="safe code"))["memories"]
    named = next(each["id"] for each in found if "lilac" in each["text"])
    answer = await asked(stage, "forget", memory_id=named)
    assert (answer["forgotten"][0], len(answer["forgotten"])) == (named, 2)
    found = (await asked(stage, "load_memory", query="safe code"))["memories"]
    assert [each["text"] for each in found] == ["My safe code is new."]
    assert "no memory" in (await asked(stage, "forget", memory_id=named))["error"]


async def test_tools_write_to_a_service_of_their_own(memory: PgVectorMemoryService) -> None:
    stage = stage_on(None, RememberTool(memory_service=memory), ForgetTool(memory_service=memory))
    kept = await asked(stage, "remember", text="The user has a cat.")
    assert len(await notes(memory)) == 1
    await asked(stage, "forget", memory_id=kept["id"])
    assert await notes(memory) == []


async def test_the_policy_redacts_and_refuses_notes(memory: PgVectorMemoryService) -> None:
    def redact(words: str) -> str | None:
        return None if "secret" in words else words.replace("4111", "[card]")

    tool = RememberTool(policy=RememberPolicy(redact=redact))
    stage = stage_on(memory, tool)
    kept = await asked(stage, "remember", text="The cat's card is 4111.")
    assert kept["remembered"] == "The cat's card is [card]."
    [note] = await notes(memory)
    assert "4111" not in note.model_dump_json()
    refused = await asked(stage, "remember", text="The cat has a secret.")
    assert refused == {"error": "This text may not be remembered."}
    assert len(await notes(memory)) == 1


async def test_bad_arguments_are_answered(memory: PgVectorMemoryService) -> None:
    await told(memory, "The kitten sleeps.")
    stage = stage_on(memory, remember, forget)
    for wrong in (None, "", "  ", 5):
        assert "give it as a sentence" in (await asked(stage, "remember", text=wrong))["error"]
        assert "load_memory" in (await asked(stage, "forget", memory_id=wrong))["error"]
    assert len(await notes(memory)) == 1


async def test_an_unknown_id_is_said_to_be_unknown(memory: PgVectorMemoryService) -> None:
    stage = stage_on(memory, forget)
    answer = await asked(stage, "forget", memory_id="no such\x00 id")
    assert "no memory" in answer["error"]
    other = stage_on(InMemoryMemoryService(), forget)
    assert await asked(other, "forget", memory_id="unknown") == {"forgotten": ["unknown"]}


async def test_without_a_service_they_raise_and_one_without_notes_says_so() -> None:
    for tool, arguments in (("remember", {"text": "a"}), ("forget", {"memory_id": "a"})):
        with pytest.raises(ValueError, match="Memory service is not available"):
            await asked(stage_on(None, remember, forget), tool, **arguments)
    with pytest.raises(NotImplementedError):
        await asked(stage_on(InMemoryMemoryService(), remember), "remember", text="a")
