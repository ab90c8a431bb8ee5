"""What hypothesis draws: any text, any JSON, any event."""

from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from hypothesis import strategies as st

# Every code point, those that Postgres or UTF-8 refuse and the escape's own mark more often.
any_text = st.text(
    st.one_of(
        st.characters(codec=None, exclude_categories=()),
        st.sampled_from("\x00\x1a\ud800\udc00\udfff\\u0"),
    )
)


def json_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | text,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
        max_leaves=20,
    )


any_json = json_of(any_text)


# JSON spells a character beyond U+FFFF as two surrogates, so two that meet are one character.
event_text = any_text.map(
    lambda text: text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
)


event_json = json_of(event_text)


parts = st.one_of(
    st.builds(lambda said: types.Part(text=said), event_text),
    st.builds(lambda data: types.Part.from_bytes(data=data, mime_type="a/b"), st.binary()),
    st.builds(
        lambda name, args: types.Part.from_function_call(name=name, args=args),
        st.text(min_size=1),
        st.dictionaries(event_text, event_json, max_size=3),
    ),
    st.builds(
        lambda signature: types.Part(text="x", thought_signature=signature), st.binary(min_size=1)
    ),
)


timestamps = st.floats(allow_nan=False) | st.floats(min_value=0, max_value=4e9)


an_event = st.builds(
    lambda chosen, timestamp, delta, metadata, output, tools: Event(
        author="agent",
        invocation_id="i",
        timestamp=timestamp,
        content=types.Content(role="model", parts=chosen),
        actions=EventActions(state_delta=delta),
        custom_metadata=metadata,
        output=output,
        long_running_tool_ids=tools,
    ),
    st.lists(parts, max_size=3),
    timestamps,
    st.dictionaries(event_text, event_json, max_size=3),
    st.dictionaries(event_text, event_json, max_size=3),
    event_json,
    st.sets(st.text(), max_size=3),
)


def nested(depth: int) -> dict[str, Any]:
    value: Any = "bottom"
    for _ in range(depth):
        value = {"d": value}
    return {"top": value}
