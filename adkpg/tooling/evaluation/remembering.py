"""Remembering: a data set's stores, each as a user's memories."""

from collections.abc import Sequence

from google.adk.events.event import Event
from google.genai import types

from adkpg.memory.service import PgVectorMemoryService
from adkpg.tooling.evaluation.asking import Told, silent
from adkpg.tooling.evaluation.dataset import Chat, Store

APP = "evaluation"
"""The app that stores are remembered under."""


def events(chat: Chat) -> list[Event]:
    """Returns a session's turns as ADK has them; an event's id is the turn's."""
    return [
        Event(
            id=turn.id,
            author=turn.author,
            timestamp=turn.moment.timestamp(),
            content=types.Content(
                role="user" if turn.author == "user" else "model",
                parts=[types.Part(text=turn.text)],
            ),
        )
        for turn in chat.turns
    ]


async def remember(
    words: PgVectorMemoryService, stores: Sequence[Store], *, told: Told = silent
) -> None:
    """Remembers stores session by session, as users of their names.

    Args:
      words: A service without an embedder: who embeds all of it afterwards does so in large
        batches.
      stores: What to remember.
      told: Is told the progress.
    """
    total = sum(len(chat.turns) for store in stores for chat in store.chats)
    done = 0
    for store in stores:
        for chat in store.chats:
            if chat.turns:
                await words.add_events_to_memory(
                    app_name=APP, user_id=store.name, session_id=chat.id, events=events(chat)
                )
            done += len(chat.turns)
            told("turns remembered", done, total)
