"""Records: stored memories as ADK entries, and what fits a column. Pure; JSON travels as text."""

import json
import math
import struct
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from pydantic import Field
from pydantic_core import to_json

from adkpg import jsontext

BODY_LIMIT = 100_000
"""Longest text that is searched, in characters; the content is kept whole whatever its length."""

WORDS_LIMIT = 2 * BODY_LIMIT
"""The same with what `searchable` adds to it; a tsvector ends at 1 MB."""

_TEXT_LENGTH = (
    1e6  # of a vector as text: its numbers are rounded to 1e-6 of it, a halfvec's to 5e-4
)


class StoredMemory(TypedDict):
    """The columns that `memory` reads.

    The content is null where the body says it all, and the body where it does not. JSON is text; no
    topics are null.
    """

    memory_id: str
    kind: str
    session_id: str
    event_id: str | None
    author: str | None
    timestamp: datetime
    content: str | None
    body: str | None
    custom_metadata: str | None
    source: str | None
    artifacts: str | None
    topics: str | None
    importance: float
    expires_at: datetime | None
    superseded_by: str | None


class PlacedMemory(StoredMemory):
    """The same, and its place among its user's memories."""

    position: int


class Memory(MemoryEntry):
    """A memory as ADK has it, and what else is known of it.

    Attributes:
      kind: ``turn`` (of an event), ``note`` (added directly), ``document``, ``fact``, ``summary``.
      topics: What it is about.
      importance: From 0 to 1; a factor of its score that is 1 at 0.5.
      expires_at: ISO 8601 with offset; from then on it is not recalled. None is never.
      source: The file a document came from.
      session_id: The session it came from.
      event_id: The ADK event it came from.
      artifacts: Names and versions of the artifacts that its event saved.
      superseded_by: Id of the fact that replaced this one.
    """

    kind: str = "note"
    topics: list[str] = Field(default_factory=list)
    importance: float = Field(default=0.5, ge=0, le=1)
    expires_at: str | None = None
    source: str | None = None
    session_id: str | None = None
    event_id: str | None = None
    artifacts: dict[str, int] = Field(default_factory=dict)
    superseded_by: str | None = None

    def plain(self) -> MemoryEntry:
        """Returns it with ADK's fields alone."""
        own = self.__dict__
        return jsontext.copied(_PLAIN, {name: own[name] for name in _ADKS_FIELDS})


_ADKS_FIELDS = tuple(MemoryEntry.model_fields)
# What is stored was valid when it was written.
_PLAIN, _VALID = MemoryEntry(content=types.Content()), Memory(content=types.Content())


def text_of(content: types.Content | None) -> str:
    """Returns the text of a content's parts without thoughts, fit for a text column."""
    return storable_text(said(content))


def said(content: types.Content | None) -> str:
    """Returns all text of a content's parts without thoughts, whatever is in it."""
    parts = (content.parts if content else None) or []
    return " ".join(part.text for part in parts if part.text and not part.thought)


def storable_text(text: str) -> str:
    """Returns a text's beginning, as a text column can hold it.

    Cut before anything looks at its characters: an event may have megabytes.
    """
    return jsontext.storable(text.lstrip()[: 2 * BODY_LIMIT]).strip()[:BODY_LIMIT]


def plain_content(author: str | None, body: str) -> str:
    """Returns the content, as JSON text, of which a body tells all there is.

    It is one text, of the role that goes with its author. Such a content is not stored.

    Args:
      author: Who said it; None has no role.
      body: ``author: text``.
    """
    text = to_json(_said_in(author, body)).decode()
    if author is None:
        return f'{{"parts":[{{"text":{text}}}]}}'
    return f'{{"parts":[{{"text":{text}}}],"role":"{_role_of(author)}"}}'


def _content(content: str | None, author: str | None, body: str | None) -> types.Content:
    """Reads a content, or makes the one that a body tells, as `plain_content` does."""
    if content is not None:
        return jsontext.read_content(content)
    role = None if author is None else _role_of(author)
    return jsontext.text_content(_said_in(author, body or ""), role)


def _role_of(author: str) -> str:
    return "user" if author == "user" else "model"


def _said_in(author: str | None, body: str) -> str:
    return body if author is None else body.removeprefix(f"{author}: ")


def said_in(row: Mapping[str, Any]) -> str:
    """Returns all text of a stored memory's content without thoughts, as `said` does."""
    if row["content"] is not None:
        return said(jsontext.read_content(row["content"]))
    return _said_in(row["author"], row["body"] or "")


def memory(row: Mapping[str, Any]) -> Memory:
    """Reads a stored memory; its times are ISO 8601 with offset.

    The metadata also has what helps a model: the session, a document's source, and artifacts.
    """
    artifacts = artifacts_of(row)
    expires_at = row["expires_at"]
    return jsontext.copied(
        _VALID,
        {
            **_adks_fields(row, artifacts),
            "kind": row["kind"],
            "topics": json.loads(row["topics"]) if row["topics"] else [],
            "importance": round(row["importance"], 6),
            "expires_at": _iso(expires_at) if expires_at else None,
            "source": row["source"],
            "session_id": row["session_id"] or None,
            "event_id": row["event_id"],
            "artifacts": artifacts,
            "superseded_by": row["superseded_by"],
        },
    )


def entry(row: Mapping[str, Any]) -> MemoryEntry:
    """Reads a stored memory with ADK's fields alone, as `Memory.plain` returns it."""
    return jsontext.copied(_PLAIN, _adks_fields(row, artifacts_of(row)))


def artifacts_of(row: Mapping[str, Any]) -> dict[str, int]:
    """Reads the names and versions of a stored memory's artifacts."""
    return jsontext.read(row["artifacts"]) if row["artifacts"] else {}


def _adks_fields(row: Mapping[str, Any], artifacts: dict[str, int]) -> dict[str, Any]:
    author, session_id, source = row["author"], row["session_id"], row["source"]
    metadata: dict[str, Any] = {}
    if session_id:
        metadata["session_id"] = session_id
    if source:
        metadata["source"] = source
    if artifacts:
        metadata["artifacts"] = artifacts
    if row["custom_metadata"]:
        metadata |= jsontext.read(row["custom_metadata"])
    return {
        "id": row["memory_id"],
        "author": author,
        "timestamp": _iso(row["timestamp"]),
        "content": _content(row["content"], author, row["body"]),
        "custom_metadata": metadata,
    }


def _iso(time: datetime) -> str:
    return (time if time.tzinfo is UTC else time.astimezone(UTC)).isoformat()


def unit_vector(vector: Sequence[float]) -> list[float]:
    """Returns a vector ``[d]`` scaled to unit length.

    Cosines stay as they are, and halfvec, which ends at 65,504 and loses tiny values, holds it.
    """
    norm = math.hypot(*vector)
    return [value / norm for value in vector]


def vector_text(vector: Sequence[float]) -> str:
    """Returns a vector ``[d]`` in whole numbers, of a length of about a million.

    `store_vectors` reads it. A halfvec holds three digits; a float's
    seventeen take the server three times as long to receive and read.
    """
    scale = _TEXT_LENGTH / math.hypot(*vector)
    numpy = _numpy()
    if numpy is None:
        whole = [int(value * scale) for value in vector]
    else:  # in half the time
        packed = struct.pack(f"{len(vector)}d", *vector)
        whole = (numpy.frombuffer(packed) * scale).astype(numpy.int32).tolist()
    return to_json(whole).decode()


def _numpy() -> Any:
    """Returns numpy if it is loaded, as an offline embedder loads it; else None.

    Loading it for this would keep the event loop waiting for 90 ms.
    """
    if "numpy" not in sys.modules:
        return None
    import numpy  # noqa: PLC0415 - waits, if another thread is loading it

    return numpy
