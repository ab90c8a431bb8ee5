"""Words: what a peer is told of an error, which names nothing of the database. Pure."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from a2a.utils.errors import InternalError, InvalidParamsError

from adkpg.errors import AdkpgError, InvalidInput, RetryableError

logger = logging.getLogger(__name__)

GONE = "The agent was interrupted before it could answer; send the message again."
"""What a task says whose process is gone."""


def of(exc: AdkpgError) -> str:
    """Returns what a peer is told of an error: whether to ask again."""
    if isinstance(exc, InvalidInput):
        return (
            "The message cannot be kept: it is too large, an id is too long or has NUL, or a "
            "number is none of JSON's."
        )
    if isinstance(exc, RetryableError):
        return "The agent is busy; try again later."
    return "The agent cannot do this now; its operator knows why."


@contextmanager
def for_peers() -> Iterator[None]:
    """Raises errors as the sdk's, in words for peers; the log has the others.

    Raises:
      InvalidParamsError: What was given cannot be kept.
      InternalError: Any other error of adkpg's.
    """
    try:
        yield
    except AdkpgError as exc:
        logger.warning("A task was not kept or read: %s: %s", type(exc).__name__, exc)
        kind = InvalidParamsError if isinstance(exc, InvalidInput) else InternalError
        raise kind(of(exc)) from exc
