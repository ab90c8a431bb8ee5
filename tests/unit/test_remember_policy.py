"""What a RememberPolicy makes of events; pure."""

import asyncio
import logging
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from adkpg.errors import ConfigurationError
from adkpg.remember.policy import RememberPolicy, spoken


def event(*parts: types.Part | str, author: str = "user", **fields: Any) -> Event:
    made = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    content = types.Content(role="user", parts=made) if made else None
    return Event(id="e1", invocation_id="i1", author=author, content=content, **fields)


def call(name: str = "find", **fields: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args={}, **fields))


def answer(name: str = "find") -> types.Part:
    return types.Part(function_response=types.FunctionResponse(name=name, response={"a": 1}))


def texts(remembered: Event | None) -> list[str | None] | None:
    if remembered is None:
        return None
    return [part.text for part in (remembered.content and remembered.content.parts) or []]


BLOB = types.Part(inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (event("My bike is in the shed."), ["My bike is in the shed."]),
        (event("So it is.", author="helper"), ["So it is."]),
        (event("Look:", BLOB, "a dog"), ["Look:", "a dog"]),
        (event(types.Part(text="hm", thought=True), "Yes.", author="helper"), ["Yes."]),
        (event("Wait, I look it up.", call(), author="helper"), None),
        (event(call(), author="helper"), None),
        (event(answer(), author="helper"), None),
        (event(answer()), None),
        (event("My bi", partial=True), None),
        (event(types.Part(text="hm", thought=True), author="helper"), None),
        (event("  \n"), None),
        (event(BLOB), None),
        (event(), None),
        (event("Log in first", call("adk_request_credential"), author="helper"), None),
        (event("password", answer("adk_request_credential")), None),
        (event("Sure?", call("adk_request_confirmation"), author="helper"), None),
        (
            event(
                types.Part(
                    executable_code=types.ExecutableCode(code="1", language=types.Language.PYTHON)
                ),
                types.Part(
                    code_execution_result=types.CodeExecutionResult(
                        outcome=types.Outcome.OUTCOME_OK, output="1"
                    )
                ),
                "It is 1.",
                author="helper",
            ),
            ["It is 1."],
        ),
        (event(input_transcription=types.Transcription(text="Hello there.")), ["Hello there."]),
        (
            event(author="helper", output_transcription=types.Transcription(text="Hello.")),
            ["Hello."],
        ),
    ],
)
def test_the_default_keeps_what_was_said(given: Event, expected: list[str] | None) -> None:
    before = given.model_copy(deep=True)
    assert texts(RememberPolicy().remembered(given)) == expected
    assert given == before


def test_a_memory_holds_the_text_and_its_origin_alone() -> None:
    given = event(
        types.Part(text="So it is.", thought_signature=b"sig"),
        author="helper",
        branch="root.helper",
        timestamp=12.5,
        custom_metadata={"secret": 1},
        output="So it is.",
        actions=EventActions(state_delta={"answer": "So it is."}, artifact_delta={"map.png": 2}),
    )
    kept = RememberPolicy().remembered(given)
    assert kept is not None
    assert kept.model_dump(exclude_defaults=True, exclude_none=True, exclude={"node_info"}) == {
        "id": "e1",
        "invocation_id": "i1",
        "author": "helper",
        "timestamp": 12.5,
        "branch": "root.helper",
        "content": {"role": "model", "parts": [{"text": "So it is."}]},
        "actions": {"state_delta": {}, "artifact_delta": {"map.png": 2}},
    }


def test_select_chooses_the_texts_and_authors_the_speakers() -> None:
    interim = event("Wait, I look it up.", call(), author="helper")
    everything = RememberPolicy(select=lambda _: True)
    assert texts(everything.remembered(interim)) == ["Wait, I look it up."]
    assert everything.remembered(event(answer(), author="helper")) is None
    narrowed = RememberPolicy(select=lambda e: spoken(e) and e.branch is None)
    assert narrowed.remembered(event("Hi.", branch="root")) is None
    only_user = RememberPolicy(authors=["user"])
    assert only_user.remembered(event("So it is.", author="helper")) is None
    assert texts(only_user.remembered(event("Hi."))) == ["Hi."]


def test_redact_sees_the_whole_text_once_and_only_its_answer_is_kept() -> None:
    seen: list[str] = []

    def redact(text: str) -> str:
        seen.append(text)
        return "[card]"

    saved = EventActions(artifact_delta={"a": 0})
    given = event("My card is", "4111 1111", actions=saved, timestamp=5.0)
    kept = RememberPolicy(redact=redact).remembered(given)
    assert seen == ["My card is 4111 1111"]
    assert texts(kept) == ["[card]"]
    assert kept is not None
    assert "4111" not in kept.model_dump_json()
    assert kept.actions.artifact_delta == {"a": 0}


def test_redact_refuses_an_event_and_empties_a_text() -> None:
    given = event("4111 1111", actions=EventActions(artifact_delta={"a": 0}))
    assert RememberPolicy(redact=lambda _: None).remembered(given) is None
    kept = RememberPolicy(redact=lambda _: " ").remembered(given)
    assert kept is not None
    assert (kept.content, kept.actions.artifact_delta) == (None, {"a": 0})
    assert RememberPolicy(redact=lambda _: "").remembered(event("4111")) is None


def test_artifacts_are_kept_of_events_whose_text_is_not() -> None:
    saved = event(answer(), author="helper", actions=EventActions(artifact_delta={"map.png": 3}))
    kept = RememberPolicy(redact=lambda _: None).remembered(saved)
    assert kept is not None
    assert (kept.content, kept.actions.artifact_delta) == (None, {"map.png": 3})
    assert RememberPolicy(artifacts=False).remembered(saved) is None
    assert RememberPolicy(authors=["user"]).remembered(saved) is None


def test_a_hook_that_fails_remembers_nothing_and_logs_no_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def raising(text: str) -> str:
        raise ValueError(text)

    def choosing(event: Event) -> bool:
        raise KeyError(event.content)

    wrong: Any = len
    given = event("my secret", actions=EventActions(artifact_delta={"a": 0}))
    for policy, hook, error in (
        (RememberPolicy(redact=raising), "redact", "ValueError"),
        (RememberPolicy(redact=wrong), "redact", "TypeError"),
        (RememberPolicy(select=choosing), "select", "KeyError"),
    ):
        caplog.clear()
        with caplog.at_level(logging.ERROR, "adkpg.remember.policy"):
            assert policy.remembered(given) is None
        assert f"{hook} failed on event e1 with {error}" in caplog.text
        assert "my secret" not in caplog.text


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"authors=\['user'\]"):
        RememberPolicy(authors="user")
    hook: Any = asyncio.sleep
    with pytest.raises(ConfigurationError, match="give a plain function"):
        RememberPolicy(redact=hook)
