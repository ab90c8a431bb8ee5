"""Replay: conversations through the services, as an agent would have lived them."""

from collections.abc import AsyncIterator

from adkpg.evaluation import Chat, Question, Store
from adkpg.evaluation.asking import Memory, outcome
from adkpg.evaluation.figures import Outcome
from adkpg.evaluation.remembering import events
from adkpg.memory.service import PgVectorMemoryService
from adkpg.sessions.service import DatabaseSessionService


async def remember(
    store: Store,
    sessions: DatabaseSessionService,
    memory: PgVectorMemoryService,
    *,
    app_name: str,
    user_id: str,
) -> AsyncIterator[Chat]:
    """Stores and remembers a store session by session; yields each when it is done.

    Raises:
      SessionExists: The user has the conversation already.
    """
    for chat in store.chats:
        session = await sessions.create_session(
            app_name=app_name, user_id=user_id, session_id=chat.id
        )
        for event in events(chat):
            await sessions.append_event(session, event)
        await memory.add_session_to_memory(session)
        yield chat


async def ask(
    store: Store,
    question: Question,
    memory: PgVectorMemoryService,
    *,
    app_name: str,
    user_id: str,
) -> Outcome:
    """Asks one question, and says at which places its evidence came; the evidence is not empty."""
    recalled = await Memory(memory, app_name).ask(user_id, question)
    sessions = {turn.id: chat.id for chat in store.chats for turn in chat.turns}
    return outcome(question, recalled, sessions)
