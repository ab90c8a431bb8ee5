"""What was said as ADK's events, and ADK's entries as texts."""

from collections.abc import Iterable, Sequence

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from benchmarks.corpus import Said


def events(batch: Sequence[Said]) -> list[Event]:
    return [
        Event(
            id=said.event_id,
            invocation_id=said.session_id,
            author="user",
            timestamp=said.time.timestamp(),
            content=types.Content(role="user", parts=[types.Part(text=said.text)]),
        )
        for said in batch
    ]


def texts(entries: Iterable[MemoryEntry]) -> list[str]:
    return [entry.content.parts[0].text or "" for entry in entries if entry.content.parts]
