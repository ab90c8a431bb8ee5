"""Rewriting: memories' words derived anew, where they stand."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from adkpg.database import Transaction
from adkpg.memory.drafts import Draft, script_of, words_of
from adkpg.memory.write import word_statements as statements


@dataclass(frozen=True)
class Body:
    """What a memory's words are derived from.

    Attributes:
      user_id: The user, or the reserved id of the app-wide scope.
      position: The memory's place.
      author: Who said it.
      body: ``author: text``.
      timestamp: When it was said.
    """

    user_id: str
    position: int
    author: str | None
    body: str
    timestamp: datetime


async def rewrite_words(
    transaction: Transaction, app_name: str, bodies: Sequence[Body], config: str
) -> None:
    """Replaces the words of some of an app's memories by those of their bodies.

    Args:
      transaction: Where.
      app_name: The app; its own text search configuration holds.
      bodies: The memories.
      config: The configuration where neither the app nor the script has one.
    """
    given = {
        "app_name": app_name,
        "config": config,
        "user_ids": [each.user_id for each in bodies],
        "positions": [each.position for each in bodies],
        "timestamps": [each.timestamp for each in bodies],
        "words": [words_of(each.author, each.body) for each in bodies],
        "scripts": [script_of(each.author, each.body) for each in bodies],
    }
    await transaction.fetch(statements.delete_words(), given)
    await transaction.fetch(statements.write_words(), given)


async def rewrite_text(
    transaction: Transaction, app_name: str, user_id: str, position: int, draft: Draft, config: str
) -> None:
    """Gives a memory another text; it keeps its id, place and sources, and waits for a vector.

    What was drawn from the old text goes, as if its source had been deleted.

    Args:
      transaction: Where; it holds the memory's row.
      app_name: The app.
      user_id: The user, or the reserved id of the app-wide scope.
      position: The memory's place.
      draft: The memory as it is to be.
      config: As for `rewrite_words`.
    """
    place = {
        "app_name": app_name,
        "user_id": user_id,
        "position": position,
        "memory_id": draft.memory_id,
    }
    await transaction.fetch(
        statements.update_text(), {**place, "content": draft.content, "body": draft.body}
    )
    await transaction.fetch(statements.forget_derived(), place)
    body = Body(user_id, position, draft.author, draft.body, draft.timestamp)
    await rewrite_words(transaction, app_name, [body], config)
    await transaction.fetch(statements.queue_again(), place)
