"""Drafts: ADK events and memory entries as rows to be written. Pure; JSON travels as text."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from typing import Any

from google.adk.events.event import Event
from google.adk.flows.llm_flows.functions import REQUEST_EUC_FUNCTION_CALL_NAME
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import uuid as platform_uuid
from google.genai import types
from pydantic_core import to_json

from adkpg import jsontext
from adkpg.errors import InvalidInput
from adkpg.keys import require_storable
from adkpg.limits import require_size
from adkpg.memory import attributes
from adkpg.memory.attributes import Attributes
from adkpg.memory.records import (
    BODY_LIMIT,
    WORDS_LIMIT,
    Memory,
    memory,
    plain_content,
    storable_text,
    text_of,
)
from adkpg.memory.tokenizer import script_config, searchable
from adkpg.remember.policy import RememberPolicy, said_of
from adkpg.settings import Settings
from adkpg.timestamps import clamped, moment

_SAMPLE = 5_000  # characters that tell a text's script
_NOTHING_SAID = Attributes()


@dataclass(frozen=True, kw_only=True)
class Draft(Attributes):
    """A memory to be written: the columns that a writer gives, and ``ttl_s``.

    Attributes:
      memory_id: The caller's id, or a new one.
      kind: See `Memory`.
      session_id: The session it comes from; ``""`` is none.
      event_id: The ADK event it comes from; None if it was added directly.
      invocation_id: The agent's run that it was said in; None if unknown.
      author: Who said it.
      timestamp: When it was said.
      content: ``types.Content`` as JSON text.
      body: ``author: text``, what is embedded.
      source: The file a document came from.
      artifacts: JSON text of an object, or None.
      digest: Hash of what was given; equal digests mean nothing changed.
    """

    memory_id: str
    kind: str
    session_id: str
    event_id: str | None
    invocation_id: str | None
    author: str | None
    timestamp: datetime
    content: str
    body: str
    source: str | None
    artifacts: str | None
    digest: str

    @property
    def is_plain(self) -> bool:
        """Whether its author and body tell all of its content."""
        return self.content == plain_content(self.author, self.body)

    @property
    def words(self) -> str:
        """The body as Postgres' parser is to see it; made when it is asked for."""
        return words_of(self.author, self.body)

    @property
    def script(self) -> str | None:
        """The text search configuration of its script; made when it is asked for."""
        return script_of(self.author, self.body)


COLUMNS = tuple(field.name for field in fields(Draft) if field.name != "ttl_s")
"""The columns of a memory that a writer gives; its place is given apart from it."""


def as_json(rows: Sequence[tuple[int, Draft]]) -> str:
    """Returns memories at their positions as the statements of `write` take them.

    Their words are prepared here, since only memories that are written need them.
    """
    return to_json(
        [
            {
                **vars(draft),
                "content": None if draft.is_plain else draft.content,
                "position": position,
                "words": draft.words,
                "script": draft.script,
            }
            for position, draft in rows
        ]
    ).decode()


def drafts_of_events(
    events: Iterable[Event],
    session_id: str,
    custom_metadata: Mapping[str, object] | None = None,
    *,
    now: float = 0.0,
    policy: RememberPolicy | None = None,
) -> list[Draft]:
    """Returns what is to be remembered of events, in their order, equal ids included.

    Left out: partial events, thoughts, events with neither text nor artifacts, requests for
    credentials, and what the policy leaves out.

    Args:
      events: In the order they were said.
      session_id: Where they were said.
      custom_metadata: Each memory's; see `attributes.read` for the keys that mean something here.
      now: Unix time that a ``ttl`` counts from.
      policy: What is remembered, and in which words; None is all that was said.

    Raises:
      InvalidInput: An id cannot be stored, or the metadata is not JSON.
    """
    given = attributes.read(custom_metadata, now) if custom_metadata else _NOTHING_SAID
    drafts = [_draft_of_event(event, session_id, given, policy) for event in events]
    return [draft for draft in drafts if draft is not None]


def _draft_of_event(
    event: Event, session_id: str, given: Attributes, policy: RememberPolicy | None
) -> Draft | None:
    content: types.Content | None
    artifacts: Mapping[str, int]
    if policy is not None:
        said = said_of(policy, event)
        if said is None:
            return None
        content, artifacts = said.content(event.author), said.artifacts
    elif event.partial or _asks_for_credentials(event):
        return None
    else:
        content, artifacts = event.content, event.actions.artifact_delta
    text = " ".join(filter(None, [text_of(content), *map(storable_text, artifacts)]))
    if not text:
        return None
    invocation_id = storable_text(event.invocation_id) or None
    require_storable(event_id=event.id, invocation_id=invocation_id)
    return new_draft(
        kind="turn",
        session_id=session_id,
        event_id=event.id,
        invocation_id=invocation_id,
        author=event.author or None,
        timestamp=clamped(event.timestamp),
        content=content or types.Content(parts=[]),
        text=text,
        given=given,
        artifacts=artifacts,
    )


def drafts_of_memories(
    memories: Sequence[MemoryEntry],
    custom_metadata: Mapping[str, object] | None,
    now: float,
    policy: RememberPolicy | None = None,
) -> list[Draft]:
    """Returns memory entries as drafts, the last of equal ids; an entry's metadata wins.

    Those of which the policy leaves nothing are left out.

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
        known = entry if isinstance(entry, Memory) else Memory(content=entry.content)
        text = " ".join(filter(None, [text, *map(storable_text, known.artifacts)]))
        if not text:
            raise InvalidInput("A memory without text cannot be recalled; add text to its content.")
        common = dict(custom_metadata or {})
        common_id = common.pop("memory_id", None)
        memory_id = str(
            entry.custom_metadata.get("memory_id")
            or entry.id
            or common_id
            or platform_uuid.new_uuid()
        )
        require_storable(memory_id=memory_id, source=known.source)
        content: types.Content | None = entry.content
        if policy is not None and policy.redact is not None:
            content = policy.cleared(entry.content, name=f"memory {memory_id}")
            text = " ".join(filter(None, [text_of(content), *map(storable_text, known.artifacts)]))
        if content is None:
            continue
        drafts[memory_id] = new_draft(
            memory_id=memory_id,
            kind=known.kind,
            author=entry.author or None,
            timestamp=_moment(entry.timestamp, now),
            content=content,
            text=text,
            given=attributes.read({**common, **entry.custom_metadata}, now, known),
            source=known.source,
            artifacts=known.artifacts,
        )
    return list(drafts.values())


def new_draft(
    *,
    kind: str,
    author: str | None,
    timestamp: datetime,
    content: types.Content,
    text: str,
    given: Attributes,
    memory_id: str | None = None,
    session_id: str = "",
    event_id: str | None = None,
    invocation_id: str | None = None,
    source: str | None = None,
    artifacts: Mapping[str, int] | None = None,
) -> Draft:
    """Returns one memory as it is to be written; without an id it gets a new one."""
    stored = jsontext.write_content(content)
    name = storable_text(author) if author else None
    text = text[:BODY_LIMIT]
    spoken = text if name is None else f"{name}: {text}"
    saved = None
    if artifacts:
        saved = jsontext.write({storable_text(key): version for key, version in artifacts.items()})
    # The metadata of an event's memory is no part of it: re-adding a session, which gives none,
    # must not erase what add_events_to_memory was given.
    compared = "" if event_id is not None else repr((kind, source, given))
    digested = "\x00".join((name or "", timestamp.isoformat(), stored, saved or "", compared))
    return Draft(
        memory_id=memory_id or platform_uuid.new_uuid(),
        kind=kind,
        session_id=session_id,
        event_id=event_id,
        invocation_id=invocation_id,
        author=name,
        timestamp=timestamp,
        content=stored,
        body=spoken,
        source=source,
        artifacts=saved,
        **vars(given),
        digest=hashlib.sha256(digested.encode()).hexdigest()[:32],
    )


def require_small(draft: Draft, settings: Settings) -> None:
    """Refuses a memory that is too large, as JSON with its metadata.

    Raises:
      InvalidInput: It is larger than ``max_event_mb``.
    """
    name = "A memory" if draft.event_id is None else f"The memory of event {draft.event_id}"
    texts = (draft.content, draft.author, draft.custom_metadata, draft.topics, draft.artifacts)
    require_size(settings, "max_event_mb", name, *texts)


def text_length(contents: Iterable[types.Content | None]) -> int:
    """Returns how many characters contents' texts have together."""
    parts = (part for content in contents if content for part in content.parts or [])
    return sum(len(part.text or "") for part in parts)


def words_of(author: str | None, body: str) -> str:
    """Returns a memory's body, ``author: text``, as Postgres' parser is to see it."""
    # ADK calls every person "user": as a word it would match all that was ever said.
    return searchable(body.removeprefix("user: ") if author == "user" else body)[:WORDS_LIMIT]


def script_of(author: str | None, body: str) -> str | None:
    """Returns the text search configuration of a body's script; None is the one that is set.

    The author's name before it does not count: an assistant's name is Latin, whatever it says.
    """
    said = body if author is None else body.removeprefix(f"{author}: ")
    said = said[:_SAMPLE]
    return None if said.isascii() else script_config(searchable(said))


def changed_draft(
    row: Mapping[str, Any],
    *,
    text: str | None,
    topics: Sequence[str] | None,
    importance: float | None,
    expires_at: date | str | float | None,
    never_expires: bool,
    custom_metadata: Mapping[str, object] | None,
    now: float,
    policy: RememberPolicy | None = None,
) -> Draft:
    """Returns a stored memory with some of it changed; None leaves a part as it is.

    With another text it is of no event.

    Args:
      row: As stored.
      text: Instead of its content.
      topics: Instead of its topics.
      importance: From 0 to 1.
      expires_at: From when on it is not recalled.
      never_expires: Whether its end is taken away.
      custom_metadata: Instead of its metadata; it may say what the others say, and ``ttl``.
      now: Unix time that a ``ttl`` counts from.
      policy: Which text it may have.

    Raises:
      InvalidInput: The text is empty or refused by the policy, a value cannot be stored, or there
        is an end of what never expires.
    """
    stored = memory(row)
    content = stored.content
    if text is not None:
        if not isinstance(text, str):
            raise InvalidInput(f"text is {type(text).__name__}; give a str.")
        content = types.Content(role=content.role, parts=[types.Part(text=text)])
        if not text_of(content):
            raise InvalidInput("A memory without text cannot be recalled; add text to its content.")
        cleared = content if policy is None else policy.cleared(content, name=row["memory_id"])
        if cleared is None:
            raise InvalidInput("The policy refuses this text; give another.")
        content = cleared
    named = {"topics": topics, "importance": importance, "expires_at": expires_at}
    said = {name: value for name, value in named.items() if value is not None}
    if topics is not None:
        attributes.require_topics(topics)
    if importance is not None:
        attributes.weight("importance", importance)
    if never_expires and (expires_at is not None or attributes.ENDS & {*(custom_metadata or {})}):
        raise InvalidInput("An end and never_expires are both given; give one of them.")
    given = attributes.read({**(custom_metadata or {}), **said}, now, stored)
    if never_expires:
        given = replace(given, expires_at=None)
    kept = (
        jsontext.read(row["custom_metadata"] or "{}")
        if custom_metadata is None
        else custom_metadata
    )
    # Values given by name are no metadata, but metadata that says them too must say the same.
    told = {name: said.get(name, value) for name, value in kept.items()}
    given = replace(given, custom_metadata=attributes.read(told, now).custom_metadata)
    return new_draft(
        memory_id=row["memory_id"],
        kind=row["kind"],
        session_id=row["session_id"],
        event_id=row["event_id"] if text is None else None,
        author=row["author"],
        timestamp=row["timestamp"],
        content=content,
        text=" ".join(filter(None, [text_of(content), *map(storable_text, stored.artifacts)])),
        given=given,
        source=row["source"],
        artifacts=stored.artifacts,
    )


def _asks_for_credentials(event: Event) -> bool:
    """ADK's rule for auth events (flows/llm_flows/context/_contents.py, ``_is_auth_event``)."""
    parts = (event.content.parts if event.content else None) or []
    return any(
        call is not None and call.name == REQUEST_EUC_FUNCTION_CALL_NAME
        for part in parts
        for call in (part.function_call, part.function_response)
    )


def _moment(timestamp: str | None, now: float) -> datetime:
    return clamped(now) if timestamp is None else moment("A memory's timestamp", timestamp)
