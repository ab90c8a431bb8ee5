"""Batches with single retries: one memory that is refused spoils no other."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from adkpg.errors import (
    AdkpgError,
    DatabaseError,
    InvalidInput,
    ModelError,
    ModelUnavailable,
    RetryableError,
)

ItemT = TypeVar("ItemT")
DoneT = TypeVar("DoneT")


async def apart(
    items: Sequence[ItemT], do: Callable[[Sequence[ItemT]], Awaitable[DoneT]]
) -> tuple[list[DoneT], list[tuple[ItemT, AdkpgError]]]:
    """Does a batch together, or each item alone if the batch is refused.

    Returns:
      What `do` returned, and the items that were refused alone, each with its error.

    Raises:
      ModelUnavailable: No item is at fault, nor would another succeed.
      RetryableError: Nor is any if the database is in trouble.
    """
    try:
        return [await do(items)], []
    except (ModelUnavailable, RetryableError):
        raise
    except (ModelError, DatabaseError, InvalidInput) as exc:
        if len(items) == 1:
            return [], [(items[0], exc)]
    done: list[DoneT] = []
    refused: list[tuple[ItemT, AdkpgError]] = []
    for item in items:
        one, failed = await apart([item], do)
        done += one
        refused += failed
    return done, refused
