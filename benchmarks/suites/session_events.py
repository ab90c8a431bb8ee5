"""The events that the sessions suite writes: the same for every contender, by their number."""

from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

TEXT = (
    "the night train to Lisbon leaves at nine and the harbour is quiet in winter while my sister "
    "keeps the old bakery open on Thursdays for the band that rehearses there after work"
)
WORDS = TEXT.split()


def said(number: int, delta: dict[str, Any] | None = None) -> Event:
    """Returns what a user says: about 450 characters, different for each number."""
    words = [WORDS[(number * 7 + place * (1 + number % 5)) % len(WORDS)] for place in range(85)]
    return _event("user", types.Part(text=f"{number}: {' '.join(words)}"), delta)


def turn(number: int) -> list[Event]:
    """Returns a turn with one tool: a question, the call, what the tool says, the answer."""
    called = types.FunctionCall(id=f"call-{number}", name="weather", args={"city": "Lisbon"})
    answered = types.FunctionResponse(
        id=f"call-{number}", name="weather", response={"celsius": number % 40, "sky": "clear"}
    )
    return [
        said(number),
        _event("agent", types.Part(function_call=called)),
        _event("agent", types.Part(function_response=answered), {"celsius": number % 40}),
        _event("agent", said(number + 1_000_000).content.parts[0]),  # type: ignore[union-attr, index] # said so above
    ]


def _event(author: str, part: types.Part, delta: dict[str, Any] | None = None) -> Event:
    role = "user" if author == "user" else "model"
    return Event(
        id=Event.new_id(),
        author=author,
        invocation_id="benchmark",
        content=types.Content(role=role, parts=[part]),
        actions=EventActions(state_delta=dict(delta or {})),
    )
