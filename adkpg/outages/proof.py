"""Proof that a model answers, so that its failure is about what it was asked.

The libraries of models share no type of error: no list of codes and names tells an outage from a
refusal. So a failure is an outage, until the same model answers something harmless.
"""

import random
from collections.abc import Awaitable, Callable

from adkpg.errors import ModelError, ModelUnavailable


def harmless() -> str:
    """Returns a short text that no model refuses; another one each time, so no cache has it."""
    return f"The train leaves at noon from platform {random.randrange(10**9)}."


async def require_answer(probe: Callable[[], Awaitable[object]]) -> None:
    """Returns if a model answers; then its failure a moment ago was about what it was asked.

    Args:
      probe: Asks the model something harmless.

    Raises:
      ModelUnavailable: It does not answer that either, so nothing that it was asked is at fault.
    """
    try:
        await probe()
    except ModelUnavailable:
        raise
    except ModelError as exc:
        raise ModelUnavailable(str(exc), exc.usage) from exc
