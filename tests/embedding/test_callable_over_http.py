"""A function that asks a server: what is retried, what is not, and what it is then called."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from adkpg.errors import (
    ModelError,
    ModelUnavailable,
)
from tests.fakes.embedding_functions import embedder_of, vectors_of
from tests.fakes.embedding_server import EmbeddingServer, Reply, Request


def answer(request: Request) -> Reply:
    return Reply(vectors_of(request.body))


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer(answer)
    yield server
    server.close()


def over_http(server: EmbeddingServer, library: str) -> Callable[[list[str]], Any]:
    async def by_httpx(texts: list[str]) -> Any:
        async with httpx.AsyncClient() as client:
            response = await client.post(server.url, json=texts)
            return response.raise_for_status().json()

    def by_urllib(texts: list[str]) -> Any:
        request = urllib.request.Request(server.url, json.dumps(texts).encode())
        try:
            with urllib.request.urlopen(request) as response:
                return json.load(response)
        except urllib.error.HTTPError as exc:
            exc.close()  # it holds the connection
            raise

    return by_httpx if library == "httpx" else by_urllib


@pytest.mark.parametrize("library", ["httpx", "urllib"])
@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_what_may_pass_is_retried_as_the_server_asks(
    server: EmbeddingServer, library: str, status: int
) -> None:
    server.script.append(Reply({}, status=status, headers={"retry-after": "0.01"}))
    vectors = await embedder_of(over_http(server, library)).embed_documents(["a"])
    assert vectors == vectors_of(["a"])
    assert len(server.requests) == 2


@pytest.mark.parametrize("library", ["httpx", "urllib"])
@pytest.mark.parametrize(
    ("status", "headers", "waits"),
    [
        (400, {}, False),
        (422, {}, False),
        (401, {}, True),
        (404, {}, True),
        (429, {"retry-after": "3600"}, True),
    ],
)
async def test_what_will_not_pass_is_not_retried(
    server: EmbeddingServer, library: str, status: int, headers: dict[str, str], waits: bool
) -> None:
    server.script.append(Reply({}, status=status, headers=headers))
    with pytest.raises(ModelError, match=f"status {status}") as caught:
        await embedder_of(over_http(server, library)).embed_documents(["a"])
    assert isinstance(caught.value, ModelUnavailable) == waits
    assert len(server.requests) == 1


@pytest.mark.parametrize("library", ["httpx", "urllib"])
async def test_a_service_that_stays_down_is_unavailable(
    server: EmbeddingServer, library: str
) -> None:
    down = Reply({}, status=503, headers={"retry-after": "0.01"})
    server.script.extend([down] * 3)
    embedder = embedder_of(over_http(server, library), max_retries=2)
    with pytest.raises(ModelUnavailable, match="status 503"):
        await embedder.embed_documents(["a"])
    assert len(server.requests) == 3


@pytest.mark.parametrize("library", ["httpx", "urllib"])
async def test_no_server_is_unavailable(server: EmbeddingServer, library: str) -> None:
    server.close()
    embedder = embedder_of(over_http(server, library), max_retries=0)
    with pytest.raises(ModelUnavailable, match="again later"):
        await embedder.embed_documents(["a"])
