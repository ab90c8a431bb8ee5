"""Retries: a call that is made again when its failure may pass."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential_jitter,
)

from adkpg.embedding.failures import retry_after_s, transient

AnswerT = TypeVar("AnswerT")

_backoff_s = wait_exponential_jitter(initial=0.5, max=8.0, jitter=0.5)


async def retried(
    call: Callable[[], Awaitable[AnswerT]],
    *,
    max_retries: int,
    again: Callable[[BaseException], bool] = transient,
) -> AnswerT:
    """Return the answer of the first call that does not fail; the last failure is raised as it is.

    Between two attempts it waits as long as the server asks, else 0.5 s, doubled each time up to
    8 s, with up to 0.5 s of jitter.

    Args:
        call: Makes one attempt.
        max_retries: Attempts after the first, 0 or more.
        again: Whether a failure is worth another attempt.
    """
    retrying = AsyncRetrying(
        retry=retry_if_exception(again),
        wait=wait_s,
        stop=stop_after_attempt(max_retries + 1),
        reraise=True,
    )
    return await retrying(call)


def wait_s(state: RetryCallState) -> float:
    """Return the seconds to wait after a failed attempt, as `retried` says."""
    error = state.outcome.exception() if state.outcome else None
    return (retry_after_s(error) if error else 0.0) or _backoff_s(state)
