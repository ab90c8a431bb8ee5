"""Events to payloads and back: everything that ADK can hold, and what only others could write."""

import json
import logging
import math
from collections.abc import Callable
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.sessions.session import Session
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from adkpg import jsontext
from adkpg.artifacts import records as artifacts
from adkpg.errors import InvalidInput
from adkpg.memory import attributes
from adkpg.memory.filters import SearchFilters
from adkpg.sessions.records import Marker
from tests.fakes.strategies import an_event, nested


@given(an_event)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    text = jsontext.write_event(event)
    text.encode()
    assert jsontext.read_event(text) == event
    assert jsontext.read_events([text, text]) == [event, event]


def test_deep_nesting_comes_back() -> None:
    event = Event(author="a", content=_called_with(nested(200)))
    assert jsontext.read_event(jsontext.write_event(event)) == event


def _called_with(args: dict[str, Any]) -> types.Content:
    return types.Content(parts=[types.Part.from_function_response(name="f", response=args)])


@pytest.mark.parametrize("number", [2**63, -(2**64), 10**400, 1e308, 5e-324, -0.0])
def test_large_numbers_come_back(number: float) -> None:
    event = Event(author="a", content=_called_with({"n": number}), custom_metadata={"n": number})
    assert jsontext.read_event(jsontext.write_event(event)) == event


@pytest.mark.parametrize("timestamp", [math.inf, -math.inf, 1e18, -1e18, 0.0, 1700000000.1234567])
def test_any_timestamp_is_exact_in_the_payload(timestamp: float) -> None:
    event = Event(author="a", timestamp=timestamp)
    assert jsontext.read_event(jsontext.write_event(event)).timestamp == timestamp


def test_a_timestamp_that_is_no_number_comes_back_as_none() -> None:
    event = Event(author="a", timestamp=math.nan)
    assert math.isnan(jsontext.read_event(jsontext.write_event(event)).timestamp)


def test_every_action_comes_back() -> None:
    event = Event(
        author="a",
        branch="x.y",
        actions=EventActions(
            state_delta={"a": 1, "app:b": None},
            artifact_delta={"f": 1},
            transfer_to_agent="b",
            escalate=True,
            skip_summarization=True,
            agent_state={"step": 1},
            end_of_agent=True,
            rewind_before_invocation_id="i",
            compaction=EventCompaction(
                start_timestamp=1, end_timestamp=2, compacted_content=types.Content(parts=[])
            ),
        ),
    )
    assert jsontext.read_event(jsontext.write_event(event)) == event


def test_an_object_in_the_delta_is_written_as_its_text() -> None:
    event = Event(author="a", actions=EventActions(state_delta={"call": len, "set": {1}}))
    stored = jsontext.read_event(jsontext.write_event(event)).actions.state_delta
    assert stored == {"call": repr(len), "set": [1]}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_json_number_is_null_in_the_payload(value: float) -> None:
    event = Event(
        author="a",
        content=_called_with({"n": value}),
        actions=EventActions(state_delta={"n": value}),
        custom_metadata={"n": value},
    )
    stored = json.loads(jsontext.write_event(event))
    assert stored["content"]["parts"][0]["function_response"]["response"] == {"n": None}
    assert stored["actions"]["state_delta"] == {"n": None}
    assert stored["custom_metadata"] == {"n": None}


def test_what_cannot_be_written_is_refused_before_anything_is() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    event = Event(author="a", id="round", actions=EventActions(state_delta=circle))
    with pytest.raises(InvalidInput, match="Event round"):
        jsontext.write_event(event)


def _payload(**changes: Any) -> str:
    event = Event(id="e", author="a", timestamp=5.0, invocation_id="i")
    fields = json.loads(jsontext.write_event(event))
    fields["actions"] = fields.get("actions", {})
    for path, value in changes.items():
        target: Any = fields
        *steps, last = path.split("__")
        for step in steps:
            target = target[step]
        target[last] = value
    return json.dumps(fields)


def test_fields_of_a_newer_adk_are_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = _payload(actions__invented_later={"x": 1}, actions__state_delta={"k": 1})
    with caplog.at_level(logging.WARNING, logger="adkpg.jsontext"):
        event = jsontext.read_event(text)
    assert event.actions.state_delta == {"k": 1}
    assert (event.id, event.author, event.timestamp) == ("e", "a", 5.0)
    assert "actions.invented_later" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        _payload(content="not a content"),
        _payload(actions="none"),
        _payload(actions__invented_later=1, timestamp="soon"),
        _payload(author=7),
        _payload(author={}, timestamp=None),
    ],
)
def test_what_no_adk_reads_becomes_a_placeholder(text: str) -> None:
    event = jsontext.read_event(text)
    assert (event.id, event.invocation_id) == ("e", "i")
    assert event.error_code == jsontext.UNREADABLE
    assert event.error_message


@pytest.mark.parametrize("text", ["[1]", '"text"', "null", "[" * 100_000 + "]" * 100_000])
def test_what_is_no_event_at_all_becomes_a_placeholder(text: str) -> None:
    assert jsontext.read_event(text).error_code == jsontext.UNREADABLE


def test_one_unreadable_event_costs_its_neighbours_nothing() -> None:
    good = Event(author="a", content=types.Content(parts=[types.Part(text="good")]))
    texts = [jsontext.write_event(good), _payload(content=1), jsontext.write_event(good)]
    first, bad, last = jsontext.read_events(texts)
    assert first == last == good
    assert bad.error_code == jsontext.UNREADABLE


def _session(marker: str | None) -> Session:
    session = Session(id="s", app_name="a", user_id="u")
    session._storage_update_marker = marker
    return session


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "5", ":5", "abc", "2026-01-02T03:04:05+00:00", "1:x", "a:1", "a:²"),
        "0b5f2ab2-0f3a-4b1c-8f4e-5a9cbb1ac9f1:12",
    ],
)
def test_a_marker_that_is_not_ours_is_none(text: str | None) -> None:
    assert Marker.of(_session(text)) is None


def test_a_marker_comes_back() -> None:
    session = _session(None)
    marker = Marker(
        "0b5f2ab2-0f3a-4b1c-8f4e-5a9cbb1ac9f1", 12, "7f1c55a0-98a5-4f4c-8d5e-0c2b5f8f1a11"
    )
    marker.set(session)
    assert Marker.of(session) == marker


def levels(depth: int) -> dict[str, Any]:
    return nested(depth - 1)


def test_whatever_holds_it_a_value_has_so_many_levels() -> None:
    def called(value: dict[str, Any]) -> Event:
        return Event(author="a", content=_called_with(value))

    def stated(value: dict[str, Any]) -> Event:
        return Event(author="a", actions=EventActions(state_delta=value))

    deep: list[Callable[[dict[str, Any]], object]] = [
        jsontext.write,
        jsontext.write_state,
        artifacts.described,
        lambda value: jsontext.write_event(stated(value)),
    ]
    for write in deep:
        assert write(levels(jsontext.MAX_DEPTH))
        with pytest.raises(ValueError, match=r"60\d levels"):
            write(levels(jsontext.MAX_DEPTH + 1))
    writers: list[Callable[[dict[str, Any]], object]] = [
        lambda value: SearchFilters(metadata=value),
        lambda value: attributes.read(value, 0.0).custom_metadata,
        lambda value: jsontext.write_content(_called_with(value)),
        lambda value: jsontext.write_event(called(value)),
        lambda value: jsontext.write_event(Event.model_validate({"author": "a", "output": value})),
        lambda value: jsontext.write_event(Event(author="a", custom_metadata=value)),
    ]
    most, more = (levels(jsontext.MODELS_DEPTH + more) for more in (0, jsontext.AROUND))
    for write in writers:
        assert write(most)
        with pytest.raises(ValueError, match=r"levels|depth"):
            write(more)
    session = Session(id="s", app_name="a", user_id="u", state=most, events=[called(most)])
    assert session.model_dump_json(), "as ADK's servers answer"
    wide = [[1, "[[["], {"a": []}] * 10_000
    assert jsontext.write(wide)


@pytest.mark.parametrize("field", ["output", "custom_metadata", "args", "state_delta"])
@pytest.mark.parametrize("value", [{"\ud800": 1}, {"a": [{"\udfff": "\ud800"}], "b": "\ufffd"}])
def test_lone_surrogates_in_keys_come_back(field: str, value: dict[str, Any]) -> None:
    if field == "args":
        event = Event(author="a", content=_called_with(value))
    elif field == "state_delta":
        event = Event(author="a", actions=EventActions(state_delta=value))
    else:
        event = Event.model_validate({"author": "a", field: value})
    assert jsontext.read_event(jsontext.write_event(event)) == event


# Texts, which are copied and not validated

_TEXTS = st.text(max_size=20) | st.sampled_from(
    ['"', "\\", '\\"', '"}],"role":"user"},', '{"text":"x"}', "\u2028", "\x00"]
)
_PARTS = st.builds(types.Part, text=_TEXTS) | st.sampled_from(
    [
        types.Part(text="thinking", thought=True),
        types.Part(text="signed", thought_signature=b"\xff"),
        types.Part(function_call=types.FunctionCall(name="f", args={"text": "x"})),
        types.Part(inline_data=types.Blob(data=b"\xff\xfe", mime_type="image/png")),
    ]
)
_CONTENTS = st.builds(
    types.Content,
    parts=st.none() | st.lists(_PARTS, max_size=3),
    role=st.none() | st.just("user") | _TEXTS,
)
_EVENTS = st.builds(
    Event,
    author=st.just("user"),
    content=st.none() | _CONTENTS,
    model_version=st.none() | _TEXTS,
    custom_metadata=st.just({"content": {"parts": [{"text": "x"}], "role": "user"}}),
)


@given(st.lists(_EVENTS, max_size=3))
def test_events_are_read_as_pydantic_reads_them(written: list[Event]) -> None:
    payloads = [jsontext.write_event(event) for event in written]
    expected = [Event.model_validate_json(payload) for payload in payloads]
    read = jsontext.read_events(payloads)
    assert read == expected
    assert [repr(each) for each in read] == [repr(each) for each in expected]
    assert [each.model_dump_json() for each in read] == [
        each.model_dump_json() for each in expected
    ]
    assert [each.model_fields_set for each in read] == [each.model_fields_set for each in expected]


def test_parts_read_together_are_not_shared() -> None:
    event = Event(
        author="user", content=types.Content(role="user", parts=[types.Part(text="hello")])
    )
    first, second = jsontext.read_events([jsontext.write_event(event)] * 2)
    assert first.content is not None
    assert first.content.parts is not None
    first.content.role = "model"
    first.content.parts[0].text = "changed"
    first.content.parts.append(types.Part(text="more"))
    assert second == event
    assert jsontext.read_events([jsontext.write_event(event)]) == [event]
