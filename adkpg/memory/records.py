"""Records: ADK events and memory entries to rows and back. Pure; JSON travels as text."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from google.adk.events.event import Event
from google.adk.flows.llm_flows.functions import REQUEST_EUC_FUNCTION_CALL_NAME
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import uuid as platform_uuid
from google.genai import types
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from adkpg.errors import InvalidInput
from adkpg.keys import require_storable
from adkpg.moments import clamped

BODY_LIMIT = 100_000
"""Longest text that is searched, in characters; the content is kept whole whatever its length."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True)
class Draft:
    """A memory to be written.

    Attributes:
      memory_id: The caller's id, or a new one.
      event_id: The ADK event it comes from; None if it was added directly.
      author: Who said it.
      timestamp: When it was said.
      content: ``types.Content`` as JSON text.
      body: ``author: text``, what is searched and embedded.
      custom_metadata: JSON text of an object, or None.
      digest: Hash of what was given; equal digests mean nothing changed.
    """

    memory_id: str
    event_id: str | None
    author: str | None
    timestamp: datetime
    content: str
    body: str
    custom_metadata: str | None
    digest: str


@dataclass(frozen=True)
class Hit:
    """One recalled memory and how it was found.

    Attributes:
      memory: The memory, as ADK has it.
      score: Fused score; higher is better, comparable within one search only.
      lexical: BM25F score of its words and its neighbours'; 0 if no word matched.
      cosine: Cosine of question and memory in [-1, 1]; None without a vector.
    """

    memory: MemoryEntry
    score: float
    lexical: float
    cosine: float | None


def drafts_of_events(
    events: Sequence[Event], custom_metadata: Mapping[str, object] | None = None
) -> list[Draft]:
    """Returns what is to be remembered of events, in their order, equal ids included.

    Left out: partial events, thoughts, events without text, and requests for credentials.

    Raises:
      InvalidInput: An id cannot be stored, or the metadata is not JSON.
    """
    metadata = _object(custom_metadata)
    drafts = []
    for event in events:
        text = "" if event.partial or _asks_for_credentials(event) else text_of(event.content)
        if not text or event.content is None:
            continue
        require_storable(event_id=event.id)
        drafts.append(
            _draft(
                memory_id=platform_uuid.new_uuid(),
                event_id=event.id,
                author=event.author or None,
                timestamp=clamped(event.timestamp),
                content=event.content,
                text=text,
                metadata=metadata,
            )
        )
    return drafts


def drafts_of_memories(
    memories: Sequence[MemoryEntry], custom_metadata: Mapping[str, object] | None, now: float
) -> list[Draft]:
    """Returns memory entries as drafts, the last of equal ids; an entry's metadata wins.

    Raises:
      InvalidInput: An entry has no text, an id that cannot be stored, or a time that is not
        ISO 8601; or several entries are given one id.
    """
    if custom_metadata and custom_metadata.get("memory_id") and len(memories) > 1:
        raise InvalidInput(
            f"custom_metadata gives {len(memories)} memories one memory_id, so only the last would "
            "stay; give each its own id."
        )
    drafts: dict[str, Draft] = {}
    for entry in memories:
        text = text_of(entry.content)
        if not text:
            raise InvalidInput("A memory without text cannot be recalled; give its content text.")
        common = dict(custom_metadata or {})
        common_id = common.pop("memory_id", None)
        memory_id = str(
            entry.custom_metadata.get("memory_id")
            or entry.id
            or common_id
            or platform_uuid.new_uuid()
        )
        require_storable(memory_id=memory_id)
        drafts[memory_id] = _draft(
            memory_id=memory_id,
            event_id=None,
            author=entry.author or None,
            timestamp=_moment(entry.timestamp, now),
            content=entry.content,
            text=text,
            metadata=_object({**common, **entry.custom_metadata}),
        )
    return list(drafts.values())


def text_of(content: types.Content | None) -> str:
    """Returns the text of a content's parts without thoughts, fit for a text column."""
    parts = (content.parts if content else None) or []
    text = " ".join(part.text for part in parts if part.text and not part.thought)
    return storable_text(text)


def storable_text(text: str) -> str:
    """Returns a text without what Postgres cannot store: NUL and lone surrogates become blanks."""
    return _UNSTORABLE.sub(" ", text).strip()[:BODY_LIMIT]


def hit(row: Mapping[str, Any]) -> Hit:
    """Reads a row of a search."""
    return Hit(
        memory=entry(row),
        score=row["score"],
        lexical=row["lexical"],
        cosine=row["cosine"],
    )


def entry(row: Mapping[str, Any]) -> MemoryEntry:
    """Reads a stored memory; its time is ISO 8601 with offset, its session in the metadata."""
    metadata: dict[str, Any] = {"session_id": row["session_id"]} if row["session_id"] else {}
    if row["custom_metadata"]:
        metadata |= json.loads(row["custom_metadata"])
    return MemoryEntry(
        id=row["memory_id"],
        author=row["author"],
        timestamp=row["timestamp"].astimezone(UTC).isoformat(),
        content=_content(row["content"]),
        custom_metadata=metadata,
    )


def vector_text(vector: Sequence[float]) -> str:
    """Returns a vector ``[d]`` scaled to unit length, as pgvector reads it.

    Cosines stay as they are, and halfvec, which ends at 65,504 and loses tiny values, holds it.
    """
    norm = math.hypot(*vector)
    return str([value / norm for value in vector])


def _draft(
    *,
    memory_id: str,
    event_id: str | None,
    author: str | None,
    timestamp: datetime,
    content: types.Content,
    text: str,
    metadata: str | None,
) -> Draft:
    stored = _content_text(content)
    name = storable_text(author) if author else None
    body = f"{name}: {text}" if name else text
    # The metadata of an event's memory is no part of it: re-adding a session, which gives none,
    # must not erase what add_events_to_memory was given.
    compared = metadata if event_id is None else None
    given = "\x00".join((name or "", timestamp.isoformat(), stored, compared or ""))
    return Draft(
        memory_id=memory_id,
        event_id=event_id,
        author=name,
        timestamp=timestamp,
        content=stored,
        body=body,
        custom_metadata=metadata,
        digest=hashlib.sha256(given.encode()).hexdigest()[:32],
    )


def _asks_for_credentials(event: Event) -> bool:
    """ADK's rule for auth events (flows/llm_flows/context/_contents.py, ``_is_auth_event``)."""
    parts = (event.content.parts if event.content else None) or []
    return any(
        call is not None and call.name == REQUEST_EUC_FUNCTION_CALL_NAME
        for part in parts
        for call in (part.function_call, part.function_response)
    )


def _content_text(content: types.Content) -> str:
    try:
        return content.model_dump_json(exclude_none=True)
    except (PydanticSerializationError, UnicodeEncodeError):  # lone surrogates
        return json.dumps(content.model_dump(mode="json", exclude_none=True))


def _content(text: str) -> types.Content:
    try:
        return types.Content.model_validate_json(text)
    except ValidationError:
        return types.Content.model_validate(json.loads(text))


def _object(metadata: Mapping[str, object] | None) -> str | None:
    if not metadata:
        return None
    try:
        return to_json(
            metadata, serialize_unknown=True, bytes_mode="base64", inf_nan_mode="null"
        ).decode()
    except (PydanticSerializationError, ValueError) as exc:
        raise InvalidInput(
            f"custom_metadata cannot be written as JSON: {exc}; give simpler values."
        ) from exc


def _moment(timestamp: str | None, now: float) -> datetime:
    if timestamp is None:
        return clamped(now)
    try:
        # A time without offset is local time, as ADK writes it (memory/_utils.py).
        return clamped(datetime.fromisoformat(timestamp).astimezone().timestamp())
    except (ValueError, OverflowError) as exc:
        raise InvalidInput(
            f"A memory's timestamp {timestamp!r} is not ISO 8601; write 2026-01-31T12:00:00+00:00."
        ) from exc
