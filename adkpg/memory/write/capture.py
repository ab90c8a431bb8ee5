"""Outbox: the memory that an append writes beside its event, in the same statement. No I/O.

What is remembered can then not be lost between two statements, and nothing is remembered of an
event that was refused.
"""

from typing import Any, TypedDict

from google.adk.events.event import Event
from sqlalchemy import (
    CTE,
    BindParameter,
    Double,
    Select,
    Text,
    bindparam,
    cast,
    exists,
    literal_column,
    null,
    select,
)
from sqlalchemy.dialects.postgresql import TIMESTAMP

from adkpg.memory.attributes import Facets
from adkpg.memory.drafts import draft_of_turn
from adkpg.memory.write import plan as ingestion
from adkpg.remember.policy import RememberPolicy
from adkpg.tables import memory_tombstones


class CaptureParameters(TypedDict, total=False):
    """What an append takes of the memory that it writes; nothing if the event is not remembered."""

    block: int
    memory_id: str
    author: str | None
    content: str
    body: str
    words: str
    script: str | None
    artifacts: str | None
    digest: str
    config: str


def parameters(
    policy: RememberPolicy, event: Event, user_id: str, session_id: str
) -> CaptureParameters | None:
    """Returns what the append's statement takes of a memory; None if the event is not remembered.

    Args:
      policy: Which events are remembered, and with which text.
      event: The event.
      user_id: Whose it is.
      session_id: Where it was said.

    Raises:
      InvalidInput: An id cannot be stored.
    """
    said = policy.said(event)
    if said is None:
        return None
    draft = draft_of_turn(event, said.content(event.author), said.artifacts, session_id, Facets())
    if draft is None:
        return None
    return {
        "block": ingestion.new_block(user_id),
        "memory_id": draft.memory_id,
        "author": draft.author,
        "content": draft.content,
        "body": draft.body,
        "words": draft.words,
        "script": draft.script,
        "artifacts": draft.artifacts,
        "digest": draft.digest,
    }


def memory_of(moved: CTE) -> Select[Any]:
    """The memory's columns, words and script, for the session row that the append moved on.

    No row if a memory of the event was deleted: a session that was deleted and created again may
    have the same events.
    """
    buried = exists(
        select(memory_tombstones.c.event_id).where(
            memory_tombstones.c.app_name == moved.c.app_name,
            memory_tombstones.c.user_id == moved.c.user_id,
            memory_tombstones.c.session_id == moved.c.session_id,
            memory_tombstones.c.event_id == bindparam("event_id", type_=Text),
        )
    )
    return select(
        moved.c.app_name,
        moved.c.user_id,
        (moved.c.memory_position - 1).label("position"),
        _text("memory_id"),
        literal_column("'turn'").label("kind"),
        moved.c.session_id,
        _text("event_id"),
        _text("author"),
        bindparam("timestamp", type_=TIMESTAMP(timezone=True)).label("timestamp"),
        _text("content"),
        _text("body"),
        _text("words"),
        _text("script"),
        cast(null(), Text).label("custom_metadata"),
        cast(null(), Text).label("source"),
        _text("artifacts"),
        literal_column("'[]'").label("topics"),
        cast(literal_column("0.5"), Double).label("importance"),
        cast(null(), TIMESTAMP(timezone=True)).label("expires_at"),
        _text("digest"),
    ).where(~buried)


def _text(name: str) -> Any:
    value: BindParameter[Any] = bindparam(name, type_=Text)
    return cast(value, Text).label(name)
