"""Events and entries to memories and back: what is remembered, and in which words."""

import json
import math
import sys
import time
from datetime import UTC, datetime
from typing import Any

import numpy
import pytest
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from adkpg.errors import InvalidInput
from adkpg.jsontext import mended
from adkpg.memory import records
from adkpg.memory.drafts import Draft, drafts_of_events, drafts_of_memories
from tests.fakes.strategies import event_text as any_text


def event(*parts: types.Part, author: str = "user", **fields: Any) -> Event:
    content = types.Content(role="user", parts=list(parts))
    return Event(author=author, content=content, **fields)


def bodies(*events: Event) -> list[str]:
    return [draft.body for draft in drafts_of_events(events, "s")]


def entry(text: str = "tea", **fields: Any) -> MemoryEntry:
    return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **fields)


def digest(**fields: Any) -> str:
    given_fields: dict[str, Any] = {"author": "a", "timestamp": "2026-01-31T12:00:00Z"} | fields
    text = given_fields.pop("text", "tea")
    return drafts_of_memories([entry(text, **given_fields)], None, 0.0)[0].digest


def row_of(draft: Draft, session_id: str = "s") -> dict[str, Any]:
    return {
        "memory_id": draft.memory_id,
        "kind": draft.kind,
        "session_id": session_id,
        "event_id": draft.event_id,
        "author": draft.author,
        "timestamp": draft.timestamp,
        "content": None if draft.is_plain else draft.content,
        "body": draft.body,
        "custom_metadata": draft.custom_metadata,
        "source": draft.source,
        "artifacts": draft.artifacts,
        "topics": draft.topics,
        "importance": draft.importance,
        "expires_at": draft.expires_at,
        "superseded_by": None,
    }


def test_a_body_is_author_and_text() -> None:
    assert bodies(event(types.Part(text="I like tea"))) == ["user: I like tea"]


def test_parts_are_joined_and_thoughts_left_out() -> None:
    spoken = event(
        types.Part(text="first"),
        types.Part(text="hmm", thought=True),
        types.Part.from_function_call(name="look", args={"query": "secret"}),
        types.Part(text="second"),
    )
    assert bodies(spoken) == ["user: first second"]


@pytest.mark.parametrize(
    "left_out",
    [
        event(types.Part(text="hmm", thought=True)),
        event(types.Part.from_function_call(name="look", args={})),
        event(types.Part.from_bytes(data=b"x", mime_type="image/png")),
        event(types.Part(text=" \n\t ")),
        event(types.Part(text="\x00 \x00")),
        event(types.Part(text="half a sen"), partial=True),
        event(
            types.Part(text="Please log in"),
            types.Part.from_function_call(name="adk_request_credential", args={}),
        ),
        event(
            types.Part(text="token"),
            types.Part.from_function_response(name="adk_request_credential", response={}),
        ),
        event(),
        Event(author="user"),
    ],
    ids=[
        "thought", "call", "blob", "blank", "unstorable", "partial", "auth request",
        "auth response", "no parts", "no content",
    ],
)  # fmt: skip
def test_what_says_nothing_is_left_out(left_out: Event) -> None:
    kept = event(types.Part(text="kept"))
    assert bodies(left_out, kept, left_out) == ["user: kept"]


def test_without_an_author_a_body_is_the_text() -> None:
    (draft,) = drafts_of_memories([entry("tea", author="")], None, 0.0)
    assert (draft.body, draft.author) == ("tea", None)


def test_the_body_loses_nul_and_half_a_character_becomes_a_mark() -> None:
    spoken = event(types.Part(text="a\x00b\ud800c"), author="u\x00v")
    (draft,) = drafts_of_events([spoken], "s")
    assert draft.body == "u v: a b\ufffdc"
    draft.content.encode()
    assert records.said(records.memory(row_of(draft)).content) == "a\x00b\ufffdc"


def test_a_body_is_cut_and_its_content_is_not() -> None:
    text = "x" * (records.BODY_LIMIT + 10)
    (draft,) = drafts_of_events([event(types.Part(text=text))], "s")
    assert len(draft.body) == records.BODY_LIMIT + len("user: ")
    assert records.memory(row_of(draft)).content.parts == [types.Part(text=text)]


@given(any_text, any_text)
def test_any_content_comes_back(text: str, thought: str) -> None:
    spoken = event(types.Part(text="x" + text), types.Part(text=thought, thought=True))
    (draft,) = drafts_of_events([spoken], "s")
    draft.body.encode()
    assert "\x00" not in draft.body
    assert records.memory(row_of(draft)).content == mended(spoken.content)


def test_equal_things_have_equal_digests_and_others_have_not() -> None:
    same = {digest() for _ in range(3)}
    others = {
        digest(text="coffee"),
        digest(author="b"),
        digest(author=None),
        digest(timestamp="2026-01-31T12:00:01Z"),
        digest(custom_metadata={"a": 1}),
    }
    assert len(same) == 1
    assert len(same | others) == 6


def test_a_digest_does_not_depend_on_the_id() -> None:
    assert digest(id="one") == digest(id="two")


def test_an_event_id_that_cannot_be_stored_is_refused() -> None:
    with pytest.raises(InvalidInput, match="event_id"):
        drafts_of_events([event(types.Part(text="x"), id="a\x00b")], "s")


def test_an_entry_comes_back_as_it_was() -> None:
    given_entry = entry(
        "tea",
        id="m",
        author="alice",
        timestamp="2026-01-31T12:00:00+00:00",
        custom_metadata={"topic": "drinks", "n": [1, None]},
    )
    (draft,) = drafts_of_memories([given_entry], None, 0.0)
    assert records.memory(row_of(draft, session_id="")).plain() == given_entry


def test_the_session_is_in_the_metadata_of_what_came_from_one() -> None:
    (draft,) = drafts_of_events([event(types.Part(text="x"))], "s", {"k": "v"})
    assert records.memory(row_of(draft)).custom_metadata == {"session_id": "s", "k": "v"}


@pytest.mark.parametrize(
    ("given_time", "stored"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31", datetime(2026, 1, 30, 16, tzinfo=UTC)),
        ("2026-01-31T12:00:00.5", datetime(2026, 1, 31, 4, 0, 0, 500_000, tzinfo=UTC)),
        (None, datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)),
    ],
    ids=["utc", "offset", "a date", "naive is local", "none is now"],
)
def test_timestamps(
    given_time: str | None, stored: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Singapore")
    time.tzset()
    try:
        (draft,) = drafts_of_memories([entry(timestamp=given_time)], None, 7.0)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert draft.timestamp == stored
    assert str(records.memory(row_of(draft)).timestamp).endswith("+00:00")


@pytest.mark.parametrize(
    "garbage", ["", "yesterday", "2026-13-01", "1.7e9", "0001-01-01T00:00+14:00"]
)
def test_a_time_that_is_none_is_refused(garbage: str) -> None:
    with pytest.raises(InvalidInput, match="ISO 8601"):
        drafts_of_memories([entry(timestamp=garbage)], None, 0.0)


@pytest.mark.parametrize("timestamp", [math.nan, math.inf, -math.inf, 1e300])
def test_an_event_of_no_calendar_is_remembered(timestamp: float) -> None:
    (draft,) = drafts_of_events([event(types.Part(text="x"), timestamp=timestamp)], "s")
    assert 1 <= draft.timestamp.year <= 9999


def test_a_memory_without_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match="without text"):
        drafts_of_memories([entry("  ")], None, 0.0)


def test_an_entrys_own_metadata_wins_and_names_its_id() -> None:
    given_entry = entry(id="m", custom_metadata={"a": 1, "memory_id": "wins"})
    (draft,) = drafts_of_memories([given_entry], {"a": 0, "b": 2}, 0.0)
    assert draft.memory_id == "wins"
    assert records.memory(row_of(draft, "")).custom_metadata == {
        "a": 1,
        "b": 2,
        "memory_id": "wins",
    }


def test_no_memory_id_in_the_metadata_is_no_id() -> None:
    for metadata in ({"memory_id": None}, {"memory_id": ""}):
        (own,) = drafts_of_memories([entry(id="m", custom_metadata=metadata)], None, 0.0)
        assert own.memory_id == "m"
        new = drafts_of_memories([entry(), entry()], metadata, 0.0)
        assert len({draft.memory_id for draft in new} - {"None", ""}) == 2


def test_one_id_for_several_memories_is_refused() -> None:
    one = drafts_of_memories([entry()], {"memory_id": "m"}, 0.0)
    assert [draft.memory_id for draft in one] == ["m"]
    with pytest.raises(InvalidInput, match="memory_id"):
        drafts_of_memories([entry("tea"), entry("coffee")], {"memory_id": "m"}, 0.0)


def test_the_last_of_equal_ids_is_remembered() -> None:
    drafts = drafts_of_memories([entry("a", id="m"), entry("b", id="m")], None, 0.0)
    assert [draft.body for draft in drafts] == ["b"]


def test_metadata_that_is_no_json_is_refused() -> None:
    circular: dict[str, Any] = {}
    circular["a"] = circular
    with pytest.raises(InvalidInput, match="custom_metadata"):
        drafts_of_events([event(types.Part(text="x"))], "s", circular)


def test_metadata_that_jsonb_cannot_hold_comes_back() -> None:
    metadata = {"a": "\ud800", "nul\x00": "\x00"}
    (draft,) = drafts_of_events([event(types.Part(text="x"))], "s", metadata)
    assert records.memory(row_of(draft, "")).custom_metadata == mended(metadata)


def test_metadata_that_json_only_nearly_holds_is_kept_nearly() -> None:
    (draft,) = drafts_of_events(
        [event(types.Part(text="x"))],
        "s",
        {"nan": math.nan, "when": datetime(2026, 1, 1, tzinfo=UTC)},
    )
    assert records.memory(row_of(draft, "")).custom_metadata == {
        "nan": None,
        "when": "2026-01-01T00:00:00Z",
    }


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=50).filter(lambda v: any(v)))
def test_a_vector_gets_unit_length(vector: list[float]) -> None:
    written = records.unit_vector(vector)
    norm = math.hypot(*vector)
    if norm < 1e-15:
        return
    assert math.hypot(*written) == pytest.approx(1)
    assert written == pytest.approx([number / norm for number in vector])


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=50).filter(lambda v: any(v)))
def test_a_vector_as_text_keeps_its_direction(vector: list[float]) -> None:
    if math.hypot(*vector) < 1e-15:
        return
    text = records.vector_text(vector)
    with pytest.MonkeyPatch.context() as loaded:
        loaded.setitem(sys.modules, "numpy", numpy)
        assert records.vector_text(vector) == text
        loaded.delitem(sys.modules, "numpy")
        assert records.vector_text(vector) == text
    written = json.loads(text)
    assert all(isinstance(number, int) for number in written)
    wanted = [1e6 * number for number in records.unit_vector(vector)]
    assert written == pytest.approx(wanted, abs=1.001)


@pytest.mark.parametrize(
    ("author", "content", "is_plain"),
    [
        ("user", types.Content(role="user", parts=[types.Part(text="I like tea")]), True),
        (
            "guide",
            types.Content(role="model", parts=[types.Part(text='"Tea"\n\u007f\u2014')]),
            True,
        ),
        (None, types.Content(parts=[types.Part(text="tea")]), True),
        ("guide", types.Content(role="user", parts=[types.Part(text="tea")]), False),
        ("user", types.Content(parts=[types.Part(text="tea")]), False),
        ("user", types.Content(role="user", parts=[types.Part(text=" tea")]), False),
        ("user", types.Content(role="user", parts=[types.Part(text="t\x00a")]), False),
        ("user", types.Content(role="user", parts=[types.Part(text="t\ud800a")]), True),
        (
            "user",
            types.Content(role="user", parts=[types.Part(text="a"), types.Part(text="b")]),
            False,
        ),
        ("user", types.Content(role="user", parts=[types.Part(text="a", thought=False)]), False),
        ("user", types.Content(role="user", parts=[types.Part(text="x" * 100_001)]), False),
    ],
)
def test_a_content_is_plain_if_body_and_author_tell_all_of_it(
    author: str | None, content: types.Content, is_plain: bool
) -> None:
    (draft,) = drafts_of_memories([MemoryEntry(content=content, author=author)], None, 0.0)
    assert draft.is_plain is is_plain
    if is_plain:
        made = records.plain_content(draft.author, draft.body)
        assert types.Content.model_validate_json(made) == mended(content)
