"""Refusals: a row that the server refuses costs itself and no other."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from adkpg.database import Transaction
from adkpg.errors import ConstraintViolated, InvalidInput

T = TypeVar("T")


async def written(
    transaction: Transaction,
    rows: Sequence[T],
    write: Callable[[Sequence[T]], Awaitable[object]],
    refused: Callable[[T, str], None],
) -> None:
    """Writes rows; finds those that are refused by halves.

    Args:
      transaction: Where; it goes on whatever is refused.
      rows: What to write.
      write: Writes some of them.
      refused: Told each row that was refused, and why.
    """
    if not rows:
        return
    try:
        async with transaction.savepoint():
            await write(rows)
    except (InvalidInput, ConstraintViolated) as exc:
        if len(rows) == 1:
            refused(rows[0], str(exc))
            return
        middle = len(rows) // 2
        await written(transaction, rows[:middle], write, refused)
        await written(transaction, rows[middle:], write, refused)
