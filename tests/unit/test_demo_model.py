"""The offline model: requests in, answers out."""

from typing import Any

import pytest
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.genai import types

from adkpg.embedding import LocalEmbedder
from adkpg.tooling.demo.model import (
    GEMINI_MODEL,
    UNKNOWN,
    OfflineModel,
    choose_model,
    is_question,
    sentences_of,
)

PEANUTS = "I'm allergic to peanuts."
GREYHOUND = "We adopted a greyhound named Biscuit last month."
SNACKS = "Which snacks could harm me?"


@pytest.fixture(scope="module")
def by_meaning() -> OfflineModel:
    return OfflineModel(embedder=LocalEmbedder())


@pytest.fixture(scope="module")
def by_words() -> OfflineModel:
    return OfflineModel()


def said(text: str, role: str = "user") -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])


def answered(tool: str, response: dict[str, Any]) -> list[types.Content]:
    """A tool's call and its answer, as ADK sends them back."""
    call = types.Part.from_function_call(name=tool, args={})
    answer = types.Part.from_function_response(name=tool, response=response)
    return [
        types.Content(role="model", parts=[call]),
        types.Content(role="user", parts=[answer]),
    ]


def remembered(text: str, author: str = "user") -> dict[str, object]:
    return {"content": {"role": "user", "parts": [{"text": text}]}, "author": author}


async def respond(
    model: OfflineModel, *contents: types.Content, tools: tuple[str, ...] = ()
) -> types.Part:
    request = LlmRequest(
        contents=list(contents),
        tools_dict={name: BaseTool(name=name, description=name) for name in tools},
    )
    responses = [response async for response in model.generate_content_async(request)]
    (response,) = responses
    assert not response.partial
    assert response.content is not None
    assert response.content.role == "model"
    (part,) = response.content.parts or []
    return part


async def test_what_is_told_is_noted_once(by_words: OfflineModel) -> None:
    part = await respond(by_words, said(PEANUTS), tools=("note",))
    assert part.function_call is not None
    assert (part.function_call.name, part.function_call.args) == ("note", {"fact": PEANUTS})
    answer = answered("note", {"status": "noted"})
    part = await respond(by_words, said(PEANUTS), *answer, tools=("note",))
    assert part.text is not None
    assert "peanuts" not in part.text, "an echo would be remembered beside the fact itself"
    part = await respond(by_words, said(PEANUTS), *answer, said(GREYHOUND), tools=("note",))
    assert part.function_call is not None, "a new turn may call the tool again"


async def test_an_earlier_turn_answers(by_meaning: OfflineModel) -> None:
    earlier = [said(PEANUTS), said("Noted.", "model"), said(GREYHOUND), said("Noted.", "model")]
    part = await respond(by_meaning, *earlier, said(SNACKS), tools=("load_memory",))
    assert part.text == f'You told me: "{PEANUTS}"'
    part = await respond(by_meaning, *earlier, said("What is my dog called?"))
    assert part.text == f'You told me: "{GREYHOUND}"'


async def test_memory_is_asked_when_no_turn_answers(by_meaning: OfflineModel) -> None:
    contents = [said(GREYHOUND), said("Noted.", "model"), said(SNACKS)]
    part = await respond(by_meaning, *contents, tools=("note", "load_memory"))
    assert part.function_call is not None
    assert (part.function_call.name, part.function_call.args) == ("load_memory", {"query": SNACKS})
    found = {"result": {"memories": [remembered(GREYHOUND), remembered(PEANUTS)]}}
    part = await respond(by_meaning, *contents, *answered("load_memory", found), tools=("note",))
    assert part.text == f'You told me: "{PEANUTS}"'


@pytest.mark.parametrize(
    "memories",
    [[], [remembered(GREYHOUND)], [remembered(PEANUTS, "assistant")], [remembered(SNACKS)]],
    ids=["nothing", "something else", "not the user's words", "a question"],
)
async def test_it_does_not_know_what_memory_lacks(
    by_meaning: OfflineModel, memories: list[object]
) -> None:
    answer = answered("load_memory", {"result": {"memories": memories}})
    part = await respond(by_meaning, said(SNACKS), *answer, tools=("load_memory",))
    assert part.text == UNKNOWN


async def test_preloaded_memories_answer(by_meaning: OfflineModel) -> None:
    preloaded = said(
        "The following content is from your previous conversations with the user.\n"
        "They may be useful for answering the user's current query.\n<PAST_CONVERSATIONS>\n"
        f"Time: 2026-03-01T10:00:00+00:00\nassistant: {SNACKS}\n"
        f"Time: 2026-03-01T10:00:00+00:00\nuser: My boat is red.\n{PEANUTS}\n"
        "</PAST_CONVERSATIONS>\n"
    )
    part = await respond(by_meaning, preloaded, said(SNACKS))
    assert part.text == f'You told me: "{PEANUTS}"'


async def test_without_an_embedder_words_are_compared(by_words: OfflineModel) -> None:
    earlier = [said(PEANUTS), said("The code of the garden gate is 4711. It squeaks.")]
    part = await respond(by_words, *earlier, said("What is the gate's code?"))
    assert part.text == 'You told me: "The code of the garden gate is 4711."'
    part = await respond(by_words, *earlier, said(SNACKS))
    assert part.text == UNKNOWN


async def test_a_request_without_words_is_answered(by_words: OfflineModel) -> None:
    part = await respond(by_words)
    assert part.text
    part = await respond(by_words, said("?!"))
    assert part.text == UNKNOWN


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (SNACKS, True),
        ("where do I live", True),
        ("  ¿Dónde vivo?", True),
        (PEANUTS, False),
        ("Whatever happens, I'll be there.", False),
        ("", False),
    ],
)
def test_questions_are_told_from_statements(text: str, asks: bool) -> None:
    assert is_question(text) == asks


def test_sentences_leave_out_questions() -> None:
    assert sentences_of("I live in Graz. And you?\nIt rains!") == ["I live in Graz.", "It rains!"]


@pytest.mark.parametrize("name", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
def test_a_key_chooses_gemini(name: str) -> None:
    chosen = choose_model({name: "key"}, None)
    assert isinstance(chosen, Gemini)
    assert chosen.model == GEMINI_MODEL


def test_without_a_key_the_offline_model_is_chosen() -> None:
    embedder = LocalEmbedder()
    chosen = choose_model({"GOOGLE_API_KEY": ""}, embedder)
    assert isinstance(chosen, OfflineModel)
    assert chosen.embedder is embedder
