"""Failures of an embedder's library: ask again immediately, later, or give up.

The libraries share no type, so an error is read by what they have in common: a status code and
response headers, the builtin connection errors, and the names of their own.
"""

import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential_jitter,
)

from adkpg.errors import ModelError, ModelUnavailable

AnswerT = TypeVar("AnswerT")

# The key, the bill or the model's name is refused: no text is at fault, and waiting a second is
# no cure.
_REFUSED_CALLER_CODES = frozenset({401, 402, 403, 404, 407})
# httpx and google-auth; openai, anthropic and others; aiohttp; urllib; requests.
_CONNECTION_ERRORS = frozenset(
    {
        "TransportError",
        "APIConnectionError",
        "ClientConnectionError",
        "URLError",
        "ConnectionError",
        "Timeout",
    }
)
_MAX_RETRY_AFTER_S = 60.0
_PAIR = 2

_backoff_s = wait_exponential_jitter(initial=0.5, max=8.0, jitter=0.5)


def transient(error: BaseException) -> bool:
    """Tells whether the same call may succeed within a minute.

    True for the status codes 408, 429 and 5xx, unless the server asks to wait for more than 60 s,
    and for connections that fail, break or keep silent. An error's causes are read too.
    """
    return _failing(error) and retry_after_s(error) <= _MAX_RETRY_AFTER_S


def unavailable(error: BaseException) -> bool:
    """Tells whether an error says that no text is answered now, so nothing more is to be asked.

    True for 408, 429, 5xx and broken connections. True also for 401, 402, 403, 404 and 407, where
    the key, the bill or the model is refused. Gemini refuses a key with 400, like a text.
    """
    wrong_key = "API_KEY_INVALID" in str(getattr(error, "details", ""))
    return _failing(error) or wrong_key or status_of(error) in _REFUSED_CALLER_CODES


@contextmanager
def failures_of(model: str) -> Iterator[None]:
    """Within it, whatever an embedder raises becomes an error of ours, with its own as the cause.

    Raises:
      ModelUnavailable: It answers no text now.
      ModelError: It failed otherwise.
    """
    try:
        yield
    except ModelError:
        raise
    except Exception as exc:
        raise failure_of(model, exc) from exc


def failure_of(model: str, error: Exception) -> ModelError:
    """Returns the error of ours that says what an embedder's own, its cause to be, means."""
    code = status_of(error)
    # The message of an SDK's error is the server's; other texts may hold an address with a key.
    message = getattr(error, "message", None) or ""
    what = f"{type(error).__name__}, status {code}" if code else type(error).__name__
    what += f": {str(message)[:200]}" if code and message else ""
    if unavailable(error):
        return ModelUnavailable(
            f"Embedder {model!r} cannot answer now ({what}); ask again later, or check the model's "
            "name, the key and its quota, and the network: its error is the cause of this one."
        )
    return ModelError(
        f"Embedder {model!r} failed with {what}; fix the fault that its error, the cause of this "
        "one, names."
    )


def status_of(error: BaseException) -> int | None:
    """Returns the HTTP status code that the error, its response or a cause carries, if any."""
    for each in _causes(error):
        for holder in (each, getattr(each, "response", None)):
            for name in ("status_code", "status", "code"):
                value = getattr(holder, name, None)
                if isinstance(value, int) and 400 <= value <= 599:
                    return int(value)
    return None


def retry_after_s(error: BaseException) -> float:
    """Returns how many seconds the server asks to wait before the next attempt; 0.0 if none.

    Read from the header Retry-After (seconds or a date) or from the error's RetryInfo, which the
    Gemini API sends with 429: https://google.aip.dev/194, google.rpc.RetryInfo.
    """
    for each in _causes(error):
        for holder in (getattr(each, "response", None), each):
            for name, value in _headers(holder):
                if name.lower() == "retry-after":
                    return _seconds(value)
        match = re.search(
            r"'retryDelay': '([0-9]+(?:\.[0-9]+)?)s'", str(getattr(each, "details", ""))
        )
        if match:
            return float(match[1])
    return 0.0


async def retried(
    call: Callable[[], Awaitable[AnswerT]],
    *,
    max_retries: int,
    again: Callable[[BaseException], bool] = transient,
) -> AnswerT:
    """Returns the answer of the first call that does not fail; the last failure is raised as it is.

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
    """Returns the seconds to wait after a failed attempt, as `retried` says."""
    error = state.outcome.exception() if state.outcome else None
    return (retry_after_s(error) if error else 0.0) or _backoff_s(state)


def _headers(holder: object) -> Iterator[tuple[str, str]]:
    """The headers of a response or an error, be they in attributes or, as botocore's, in dicts."""
    if isinstance(holder, Mapping):
        metadata = holder.get("ResponseMetadata")
        headers = metadata.get("HTTPHeaders") if isinstance(metadata, Mapping) else None
        headers = headers or holder.get("headers")
    else:
        headers = getattr(holder, "headers", None)
    items = headers.items() if isinstance(headers, Mapping | Message) else headers
    if not isinstance(items, Iterable):
        return
    for item in items:
        if isinstance(item, Sequence) and not isinstance(item, str | bytes) and len(item) == _PAIR:
            name, value = (
                part.decode("latin-1") if isinstance(part, bytes) else str(part) for part in item
            )
            yield name, value


def _seconds(value: str) -> float:
    if re.fullmatch(r"\s*[-+]?[0-9]+(\.[0-9]*)?\s*", value):
        return max(0.0, float(value))
    try:
        date = parsedate_to_datetime(value)
        date = date.replace(tzinfo=date.tzinfo or UTC)
        return max(0.0, (date - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError, TypeError):
        return 0.0


def _failing(error: BaseException) -> bool:
    code = status_of(error)
    if code is None:
        return any(map(_of_connection, _causes(error)))
    return code in (408, 429) or code >= 500


def _of_connection(error: BaseException) -> bool:
    return isinstance(error, ConnectionError | TimeoutError | socket.gaierror) or any(
        ancestor.__name__ in _CONNECTION_ERRORS for ancestor in type(error).__mro__
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__
