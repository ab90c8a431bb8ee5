import asyncio
import socket
import urllib.error
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from typing import Any

import httpx
import openai
import pytest
import requests
import tenacity
from google.genai import errors

from adkpg.embedding.failures import (
    failure_of,
    retried,
    retry_after_s,
    status_of,
    transient,
    unavailable,
    wait_s,
)
from adkpg.errors import ModelError, ModelUnavailable

REQUEST: Any = httpx.Request("POST", "http://localhost")


class StatusError(Exception):
    def __init__(self, status_code: object, headers: dict[str, str] | None = None) -> None:
        super().__init__("no")
        self.status_code = status_code
        self.headers = headers


def of_httpx(code: int, **headers: str) -> Exception:
    response = httpx.Response(code, headers=headers, request=REQUEST)
    return httpx.HTTPStatusError("no", request=REQUEST, response=response)


def of_openai(code: int, **headers: str) -> Exception:
    response: Any = httpx.Response(code, headers=headers, request=REQUEST)
    return openai.APIStatusError("no", response=response, body=None)


def of_google(code: int, **headers: str) -> errors.APIError:
    return errors.APIError(code, {}, httpx.Response(code, headers=headers))


def of_requests(code: int, **headers: str) -> Exception:
    response = requests.Response()
    response.status_code = code
    response.headers.update(headers)
    return requests.HTTPError("no", response=response)


def of_urllib(code: int, **headers: str) -> Exception:
    message = Message()
    for name, value in headers.items():
        message[name] = value
    return urllib.error.HTTPError("http://localhost", code, "no", message, None)


def of_plain_headers(code: int, **headers: str) -> Exception:
    return StatusError(code, {name.title(): value for name, value in headers.items()})


def wrapped(error: Exception) -> Exception:
    try:
        raise RuntimeError("a library's own") from error
    except RuntimeError as exc:
        return exc


LIBRARIES = [of_httpx, of_openai, of_google, of_requests, of_urllib, of_plain_headers]


@pytest.mark.parametrize("make", LIBRARIES)
def test_codes_and_waits_of_each_library_are_read(make: Callable[..., Exception]) -> None:
    error = make(429, **{"retry-after": "7"})
    for each in (error, wrapped(error)):
        assert status_of(each) == 429
        assert retry_after_s(each) == 7.0
    assert retry_after_s(make(503)) == 0.0


@pytest.mark.parametrize(
    ("code", "at_once", "later"),
    [
        (400, False, False),
        (401, False, True),
        (403, False, True),
        (404, False, True),
        (408, True, True),
        (413, False, False),
        (422, False, False),
        (429, True, True),
        (500, True, True),
        (503, True, True),
        (529, True, True),
    ],
)
@pytest.mark.parametrize("make", LIBRARIES)
def test_what_is_worth_another_attempt(
    make: Callable[..., Exception], code: int, at_once: bool, later: bool
) -> None:
    assert transient(make(code)) == at_once
    assert unavailable(make(code)) == later
    assert isinstance(failure_of("m", make(code)), ModelUnavailable) == later


@pytest.mark.parametrize("make", LIBRARIES)
def test_a_wait_of_an_hour_is_for_later(make: Callable[..., Exception]) -> None:
    error = make(429, **{"retry-after": "3600"})
    assert not transient(error)
    assert unavailable(error)
    assert transient(make(429, **{"retry-after": "60"}))


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        TimeoutError(),
        socket.gaierror(-2, "Name or service not known"),
        httpx.ReadTimeout("x"),
        httpx.ConnectError("x"),
        openai.APIConnectionError(request=REQUEST),
        openai.APITimeoutError(request=REQUEST),
        requests.ConnectionError(),
        requests.Timeout(),
        urllib.error.URLError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_broken_connection_is_worth_another_attempt(error: Exception) -> None:
    for each in (error, wrapped(error)):
        assert transient(each)
        assert unavailable(each)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("no quota"),
        ValueError(),
        FileNotFoundError(),
        StatusError(200),
        StatusError("503"),
        StatusError(None),
        StatusError(12345),
    ],
)
def test_what_says_nothing_counts_against_the_texts(error: Exception) -> None:
    assert not transient(error)
    assert not unavailable(error)
    failure = failure_of("m", error)
    assert type(failure) is ModelError
    assert type(error).__name__ in str(failure)


def test_causes_that_form_a_ring_end() -> None:
    one, two = RuntimeError(), RuntimeError()
    one.__cause__, two.__cause__ = two, one
    assert not transient(one)


def test_the_wait_is_read_in_all_its_forms() -> None:
    in_an_hour = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    retry_info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "31.5s"}
    assert retry_after_s(of_google(429, **{"retry-after": "-7"})) == 0.0
    assert retry_after_s(of_google(429, **{"retry-after": "soon"})) == 0.0
    assert retry_after_s(of_google(429, **{"retry-after": "nan"})) == 0.0
    assert 3_500 < retry_after_s(of_google(429, **{"retry-after": in_an_hour})) <= 3_600
    details = {"error": {"details": [retry_info]}}
    assert retry_after_s(errors.APIError(429, details, httpx.Response(429))) == 31.5


class Botocore(Exception):
    def __init__(self, headers: object) -> None:
        super().__init__("slow down")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": 429, "HTTPHeaders": headers}}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"RETRY-AFTER": 7}, 7.0),
        ({b"retry-after": b"7"}, 7.0),
        ([(b"retry-after", b"7")], 7.0),
        ([["retry-after", "7"], "odd", None], 7.0),
        ({"retry-after": None}, 0.0),
        ({"retry-after": "Mon, 01 Jan 99999 00:00:00 GMT"}, 0.0),
        ("retry-after", 0.0),
        (None, 0.0),
        (7, 0.0),
    ],
)
def test_headers_of_any_type_are_read(headers: Any, seconds: float) -> None:
    assert retry_after_s(Botocore(headers)) == seconds
    assert retry_after_s(StatusError(429, headers)) == seconds
    plain = RuntimeError()
    plain.response = {"headers": headers}  # type: ignore[attr-defined] # a library's own
    assert retry_after_s(plain) == seconds


def test_the_wait_asked_for_takes_the_place_of_the_backoff() -> None:
    state = tenacity.RetryCallState(tenacity.AsyncRetrying(), None, (), {})
    asked, silent = of_google(429, **{"retry-after": "7"}), of_google(429)
    state.set_exception((type(asked), asked, None))
    assert wait_s(state) == 7.0
    state.set_exception((type(silent), silent, None))
    waits = {wait_s(state) for _ in range(20)}
    assert all(0.5 <= each <= 1.0 for each in waits)
    assert len(waits) > 1
    state.attempt_number = 9
    assert wait_s(state) <= 8.5


async def test_the_last_failure_is_raised_as_it_is() -> None:
    failures = [of_httpx(503, **{"retry-after": "0.001"}) for _ in range(3)]
    left = iter(failures)

    async def call() -> None:
        raise next(left)

    with pytest.raises(httpx.HTTPStatusError) as caught:
        await retried(call, max_retries=2)
    assert caught.value is failures[2]


async def test_cancellation_is_not_retried() -> None:
    calls = 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await retried(call, max_retries=3)
    assert calls == 1
