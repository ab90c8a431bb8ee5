"""Transcript: a session's events as people read them, with the state at each. Pure."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from adkpg.tooling.console.masks import masked_event, masked_state

PartKind = Literal["text", "thought", "call", "response", "file", "code", "other"]


@dataclass(frozen=True)
class Part:
    """A piece of what an event says.

    Attributes:
      kind: What it is.
      title: The tool's or the file's name; ``""`` for texts.
      text: Its text, or its JSON.
    """

    kind: PartKind
    title: str
    text: str


@dataclass(frozen=True)
class Change:
    """What an event did to a key of the state; JSON texts.

    Attributes:
      key: With its prefix.
      before: What it was, as far as this session tells; None if it was not there.
      after: What it is.
    """

    key: str
    before: str | None
    after: str


@dataclass(frozen=True)
class Compaction:
    """What an event says in place of earlier ones."""

    start: str
    end: str
    text: str


@dataclass(frozen=True)
class Step:
    """An event, where it stands and what it did.

    Attributes:
      number: Its place in the session, from 1.
      rewinds: The invocation that it takes back, with all that came after; None without.
      rewound: Whether a later event took it back.
      compacted: Whether a later event stands in its place for the model.
      state: The state after it, as key and JSON text: the session's own keys, and what the session
        set of the user's and the app's.
      text: What a user says in it, which memory is asked with; ``""`` in others.
      source: The whole event as JSON text.
    """

    number: int
    id: str
    author: str
    when: str
    invocation_id: str
    branch: str
    parts: tuple[Part, ...]
    changes: tuple[Change, ...]
    state: tuple[tuple[str, str], ...]
    artifacts: tuple[tuple[str, int], ...]
    transfer: str
    escalates: bool
    rewinds: str | None
    rewound: bool
    compaction: Compaction | None
    compacted: bool
    error: str
    text: str
    source: str


def steps_of(session: Session, initial: Mapping[str, Any], *, shown: range) -> list[Step]:
    """Returns some events of a session as steps, in their order.

    Args:
      session: With all of its events.
      initial: Its own state before the first.
      shown: The places of those events, from 0; of the others only the state is followed.
    """
    events = session.events
    rewound, compacted = _rewound(events), _compacted(events)
    state: dict[str, Any] = dict(initial)
    masked: dict[str, Any] | None = None
    steps = []
    for place, event in enumerate(events[: shown.stop]):
        changes = [
            (key, value)
            for key, value in event.actions.state_delta.items()
            if not key.startswith(State.TEMP_PREFIX)
        ]
        if place < shown.start:
            state.update(changes)
            continue
        before = masked_state(dict(state)) if masked is None else masked
        state.update(changes)
        masked = masked_state(dict(state)) if changes else before
        steps.append(
            _step(place, event, changes, before, masked, place in rewound, place in compacted)
        )
    return steps


def marked_since(session: Session, *, known: int) -> set[int]:
    """Returns the places of earlier events that are marked otherwise since others came.

    Args:
      session: With all of its events.
      known: How many there were before.
    """
    earlier = session.events[:known]
    return {
        place
        for mark in (_rewound, _compacted)
        for place in mark(session.events) ^ mark(earlier)
        if place < known
    }


def parts_of(shown: Mapping[str, Any]) -> tuple[Part, ...]:
    """Returns what a masked event says, in its order."""
    return tuple(map(_part, shown.get("content", {}).get("parts") or []))


def pretty(value: Any) -> str:
    """Returns JSON text of many lines; what JSON has no word for, as Python writes it."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=repr)


def moment(seconds: float) -> str:
    """Returns Unix seconds as ISO 8601; as they are, if no calendar has them."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def _step(
    place: int,
    event: Event,
    changes: Sequence[tuple[str, Any]],
    before: Mapping[str, Any],
    masked: Mapping[str, Any],
    rewound: bool,
    compacted: bool,
) -> Step:
    shown = masked_event(event)
    actions = shown.get("actions", {})
    parts = parts_of(shown)
    compaction = event.actions.compaction
    after = masked_state(dict(changes))
    return Step(
        number=place + 1,
        id=event.id,
        author=event.author,
        when=moment(event.timestamp),
        invocation_id=event.invocation_id,
        branch=event.branch or "",
        parts=parts,
        changes=tuple(
            Change(key, _short(before[key]) if key in before else None, _short(after.get(key)))
            for key, _ in changes
        ),
        state=tuple((key, _short(each)) for key, each in sorted(masked.items())),
        artifacts=tuple(sorted(event.actions.artifact_delta.items())),
        transfer=event.actions.transfer_to_agent or "",
        escalates=bool(event.actions.escalate),
        rewinds=event.actions.rewind_before_invocation_id,
        rewound=rewound,
        compaction=None
        if compaction is None
        else Compaction(
            moment(compaction.start_timestamp),
            moment(compaction.end_timestamp),
            " ".join(
                part.get("text", "")
                for part in actions.get("compaction", {})
                .get("compactedContent", {})
                .get("parts", [])
            ),
        ),
        compacted=compacted,
        error=": ".join(filter(None, (event.error_code, event.error_message))),
        text=_asked(event),
        source=pretty(shown),
    )


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _asked(event: Event) -> str:
    if event.author != "user" or event.content is None:
        return ""
    texts = (part.text for part in event.content.parts or [] if part.text and not part.thought)
    return " ".join(texts).strip()


def _part(part: Mapping[str, Any]) -> Part:
    if "text" in part:
        return Part("thought" if part.get("thought") else "text", "", part["text"])
    if call := part.get("functionCall"):
        return Part("call", str(call.get("name", "")), pretty(call.get("args", {})))
    if answer := part.get("functionResponse"):
        return Part("response", str(answer.get("name", "")), pretty(answer.get("response", {})))
    if data := part.get("inlineData"):
        size = len(data.get("data", "")) * 3 // 4
        kind = data.get("mimeType", "bytes")
        return Part("file", str(data.get("displayName") or kind), f"{kind}, {size:,} bytes")
    if data := part.get("fileData"):
        return Part("file", str(data.get("displayName") or ""), str(data.get("fileUri", "")))
    if code := part.get("executableCode"):
        return Part("code", str(code.get("language", "")), str(code.get("code", "")))
    if result := part.get("codeExecutionResult"):
        return Part("code", str(result.get("outcome", "")), str(result.get("output", "")))
    return Part("other", ", ".join(part), pretty(part))


def _rewound(events: Sequence[Event]) -> set[int]:
    """The places of events that a later one took back."""
    begins: dict[str, int] = {}
    ends: dict[int, int] = {}  # by the place of the first that was taken back, how far
    for place, event in enumerate(events):
        first = begins.get(event.actions.rewind_before_invocation_id or "")
        if first is not None:
            ends[first] = place
        if event.invocation_id:
            begins.setdefault(event.invocation_id, place)
    found: set[int] = set()
    end = 0
    for place in range(len(events)):
        end = max(end, ends.get(place, 0))
        if place < end:
            found.add(place)
    return found


def _compacted(events: Sequence[Event]) -> set[int]:
    """The places of events that a later one stands for."""
    found: set[int] = set()
    starts: list[float] = []  # of the times that later ones stand for, none touching another
    ends: list[float] = []
    for place in range(len(events) - 1, -1, -1):
        compaction = events[place].actions.compaction
        if compaction is None:
            before = bisect_right(starts, events[place].timestamp) - 1
            if before >= 0 and events[place].timestamp <= ends[before]:
                found.add(place)
        elif compaction.start_timestamp <= compaction.end_timestamp:
            first = bisect_left(ends, compaction.start_timestamp)
            last = bisect_right(starts, compaction.end_timestamp)
            start = min([*starts[first:last], compaction.start_timestamp])
            end = max([*ends[first:last], compaction.end_timestamp])
            starts[first:last], ends[first:last] = [start], [end]
    return found
