"""Replay: a transcript through the services, as an agent would have lived it, and its questions."""

import time
from collections.abc import AsyncIterator
from datetime import datetime

from google.adk.events.event import Event
from google.genai import types

from adkpg.demo.figures import CUTOFFS, Answer
from adkpg.demo.transcript import Chat, Conversation, Inquiry
from adkpg.memory.search.hits import Hit
from adkpg.memory.service import PgVectorMemoryService
from adkpg.sessions.service import DatabaseSessionService


def events(chat: Chat) -> list[Event]:
    """Returns a session's turns as ADK has them; an event's id is the turn's."""
    return [
        Event(
            id=turn.turn_id,
            author=turn.speaker,
            timestamp=turn.moment.timestamp(),
            content=types.Content(role="user", parts=[types.Part(text=turn.text)]),
        )
        for turn in chat.turns
    ]


async def remember(
    conversation: Conversation,
    sessions: DatabaseSessionService,
    memory: PgVectorMemoryService,
    *,
    app_name: str,
    user_id: str,
) -> AsyncIterator[Chat]:
    """Stores and remembers a conversation session by session; yields each when it is done.

    Raises:
      SessionExists: The user has the conversation already.
    """
    for chat in conversation.chats:
        session = await sessions.create_session(
            app_name=app_name, user_id=user_id, session_id=chat.session_id
        )
        for event in events(chat):
            await sessions.append_event(session, event)
        await memory.add_session_to_memory(session)
        yield chat


async def ask(
    conversation: Conversation,
    inquiry: Inquiry,
    memory: PgVectorMemoryService,
    *,
    app_name: str,
    user_id: str,
) -> Answer:
    """Asks one question and says at which places its evidence came; the evidence is not empty."""
    begin = time.perf_counter()
    hits = await memory.search(
        app_name=app_name, user_id=user_id, query=inquiry.text, top_k=max(CUTOFFS)
    )
    latency_s = time.perf_counter() - begin
    turn_ids = {
        (chat.session_id, turn.moment): turn.turn_id
        for chat in conversation.chats
        for turn in chat.turns
    }
    found = [turn_ids.get(_origin(hit)) for hit in hits]
    ranks = tuple(rank for rank, name in enumerate(found, 1) if name in inquiry.evidence)
    return Answer(inquiry.category, len(inquiry.evidence), ranks, latency_s)


def _origin(hit: Hit) -> tuple[str, datetime]:
    """Returns where a memory was said: its session and its moment there."""
    return (
        str(hit.memory.custom_metadata.get("session_id", "")),
        datetime.fromisoformat(hit.memory.timestamp or ""),
    )
