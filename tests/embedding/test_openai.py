import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from adkpg.embedding import Embedder, OpenAIEmbedder
from adkpg.embedding.embedder import embed_checked
from adkpg.errors import (
    ConfigurationError,
    ModelError,
    ModelUnavailable,
)
from tests.fakes.embedding_server import EmbeddingServer, Reply, Request, vector_of

DIMENSIONS = 8


def answer(request: Request, dimensions: int = DIMENSIONS) -> Reply:
    data = [
        {"object": "embedding", "index": index, "embedding": vector_of(text, dimensions)}
        for index, text in enumerate(request.body["input"])
    ]
    # Out of order, as the API allows.
    return Reply({"object": "list", "model": "m", "data": data[::-1], "usage": {}})


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer(answer)
    yield server
    server.close()


def embedder_of(server: EmbeddingServer, **options: Any) -> OpenAIEmbedder:
    settings: dict[str, Any] = {"model": "m", "dimensions": DIMENSIONS, "api_key": "key"} | options
    return OpenAIEmbedder(**settings, base_url=f"{server.url}/v1")


async def test_sends_one_request_and_puts_the_answer_in_order(server: EmbeddingServer) -> None:
    texts = ["a", "user: hello", "three"]
    embedder = embedder_of(server)
    assert isinstance(embedder, Embedder)
    assert await embedder.embed_documents(texts) == [vector_of(t, DIMENSIONS) for t in texts]
    [request] = server.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == "Bearer key"
    assert request.body == {"input": texts, "model": "m", "encoding_format": "float"}


async def test_query_is_embedded_like_a_document(server: EmbeddingServer) -> None:
    assert await embedder_of(server).embed_query("why?") == vector_of("why?", DIMENSIONS)


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"model": "text-embedding-3-small", "dimensions": 1536}, None),
        ({"model": "text-embedding-3-small", "dimensions": 8}, 8),
        ({"model": "text-embedding-3-large", "dimensions": 1536}, 1536),
        ({"model": "nomic-embed-text", "dimensions": 768}, None),
        ({"model": "own", "dimensions": 8, "request_dimensions": True}, 8),
        ({"model": "text-embedding-3-small", "dimensions": 8, "request_dimensions": False}, None),
    ],
)
async def test_dimensions_are_sent_only_where_they_shorten(
    server: EmbeddingServer, options: dict[str, Any], sent: int | None
) -> None:
    server.script.append(lambda request: answer(request, options["dimensions"]))
    await embedder_of(server, **options).embed_query("text")
    assert server.requests[0].body.get("dimensions") == sent


async def test_splits_into_batches_in_order(server: EmbeddingServer) -> None:
    texts = [f"text number {'x' * n}" for n in range(7)]
    vectors = await embedder_of(server, batch_size=3, concurrency=1).embed_documents(texts)
    assert vectors == [vector_of(text, DIMENSIONS) for text in texts]
    assert [len(request.body["input"]) for request in server.requests] == [3, 3, 1]
    assert server.connections == 1


async def test_long_and_ill_formed_texts_are_cut_and_mended(server: EmbeddingServer) -> None:
    await embedder_of(server, max_text_bytes=10).embed_documents(["é" * 20, "\ud800x\x00"])
    assert server.requests[0].body["input"] == ["é" * 5, "?x\x00"]


async def test_a_repeated_text_is_sent_once(server: EmbeddingServer) -> None:
    embedder = embedder_of(server)
    await embedder.embed_documents(["yes", "no", "yes"])
    assert await embedder.embed_documents(["no"]) == [vector_of("no", DIMENSIONS)]
    assert [request.body["input"] for request in server.requests] == [["yes", "no"]]


async def test_batches_go_side_by_side_up_to_the_limit(server: EmbeddingServer) -> None:
    texts = [f"text number {'x' * n}" for n in range(12)]
    embedder = embedder_of(server, batch_size=1, concurrency=2)
    vectors = await embedder.embed_documents(texts)
    assert vectors == [vector_of(text, DIMENSIONS) for text in texts]
    assert server.connections <= 2


@pytest.mark.parametrize(
    ("status", "waits"), [(401, True), (404, True), (503, True), (400, False), (413, False)]
)
async def test_the_type_tells_whether_texts_should_wait(
    server: EmbeddingServer, status: int, waits: bool
) -> None:
    server.script.append(Reply({"error": {}}, status=status))
    with pytest.raises(ModelError) as caught:
        await embedder_of(server, max_retries=0).embed_query("q")
    assert isinstance(caught.value, ModelUnavailable) == waits


async def test_large_texts_make_small_requests(server: EmbeddingServer) -> None:
    texts = [f"{n:02}" + "x" * 7_998 for n in range(40)]
    await embedder_of(server, concurrency=1).embed_documents(texts)
    assert [len(request.body["input"]) for request in server.requests] == [31, 9]


async def test_429_is_retried_as_the_server_asks(server: EmbeddingServer) -> None:
    server.script.append(Reply({"error": {}}, status=429, headers={"retry-after": "0.01"}))
    assert await embedder_of(server).embed_query("q") == vector_of("q", DIMENSIONS)
    assert len(server.requests) == 2


async def test_5xx_is_retried(server: EmbeddingServer) -> None:
    server.script.append(Reply(b"gone", status=503, headers={"retry-after": "0.001"}))
    assert await embedder_of(server).embed_query("q") == vector_of("q", DIMENSIONS)


async def test_persistent_5xx_is_an_embedding_error(server: EmbeddingServer) -> None:
    down = Reply({"error": {}}, status=500, headers={"retry-after": "0.001"})
    server.script.extend([down] * 3)
    with pytest.raises(ModelError, match="status 500") as caught:
        await embedder_of(server, max_retries=2).embed_query("q")
    assert caught.value.__cause__ is not None
    assert len(server.requests) == 3


async def test_a_refusal_is_not_retried_and_hides_the_key(server: EmbeddingServer) -> None:
    server.script.append(Reply({"error": {"message": "no such model"}}, status=404))
    with pytest.raises(ModelError, match="no such model") as caught:
        await embedder_of(server, api_key="s3cret").embed_query("q")
    assert "s3cret" not in str(caught.value)
    assert len(server.requests) == 1


async def test_silence_is_an_embedding_error(server: EmbeddingServer) -> None:
    server.script.append(Reply(silent=True))
    with pytest.raises(ModelUnavailable, match="timeout_s"):
        await embedder_of(server, timeout_s=0.2, max_retries=0).embed_query("q")


async def test_no_server_is_an_embedding_error(server: EmbeddingServer) -> None:
    server.close()
    with pytest.raises(ModelUnavailable, match="network"):
        await embedder_of(server, max_retries=0).embed_query("q")


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"<html>a portal</html>", headers={"content-type": "text/html"}),
        Reply(b"{not json"),
        Reply({"object": "list"}),
        Reply({"data": [{"index": 0}]}),
        Reply({"data": []}),
        Reply({"data": [{"index": 0, "embedding": None}]}),
        Reply({"data": [{"index": 0, "embedding": ["x"] * DIMENSIONS}]}),
        Reply({"data": [{"index": 0, "embedding": [0.0] * DIMENSIONS}]}),
        Reply({"data": [{"index": 0, "embedding": [float("nan")] * DIMENSIONS}]}),
    ],
)
async def test_a_nonsense_answer_is_an_embedding_error(
    server: EmbeddingServer, reply: Reply
) -> None:
    server.script.append(reply)
    with pytest.raises(ModelError):
        await embedder_of(server).embed_query("q")


async def test_servers_without_index_answer_in_order(server: EmbeddingServer) -> None:
    server.script.append(
        lambda request: Reply(
            {"data": [{"embedding": vector_of(t, DIMENSIONS)} for t in request.body["input"]]}
        )
    )
    texts = ["one", "three"]
    vectors = await embedder_of(server).embed_documents(texts)
    assert vectors == [vector_of(text, DIMENSIONS) for text in texts]


async def test_a_short_batch_is_a_mismatch(server: EmbeddingServer) -> None:
    def short(request: Request) -> Reply:
        reply = answer(request)
        reply.body["data"].pop()
        return reply

    server.script.append(short)
    with pytest.raises(ModelError, match="1 vectors for 2 texts"):
        await embed_checked(embedder_of(server), ["a", "b"])


async def test_a_wrong_dimension_is_a_mismatch(server: EmbeddingServer) -> None:
    with pytest.raises(ModelError, match="set dimensions=8"):
        await embed_checked(embedder_of(server, dimensions=9), ["a"])


def test_one_embedder_serves_loops_in_turn_and_leaks_nothing(server: EmbeddingServer) -> None:
    embedder = embedder_of(server)
    for text in ("first", "second"):
        assert asyncio.run(embedder.embed_query(text)) == vector_of(text, DIMENSIONS)
    assert server.connections == 2
    assert server.all_connections_closed()


async def test_close_closes_now_and_the_next_call_connects_again(server: EmbeddingServer) -> None:
    embedder = embedder_of(server)
    await embedder.close()
    await embedder.embed_query("q")
    await embedder.close()
    assert await asyncio.to_thread(server.all_connections_closed)
    assert await embedder.embed_query("q") == vector_of("q", DIMENSIONS)


async def test_from_env(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    monkeypatch.setenv("ADKPG_EMBEDDING_MODEL", "own-model")
    monkeypatch.setenv("ADKPG_EMBEDDING_DIMENSIONS", str(DIMENSIONS))
    embedder = OpenAIEmbedder.from_env()
    await embedder.embed_query("q")
    assert (embedder.model, embedder.dimensions) == ("own-model", DIMENSIONS)
    assert server.requests[0].headers["authorization"] == "Bearer from-env"


async def test_a_server_of_ones_own_needs_no_key(server: EmbeddingServer) -> None:
    vector = await embedder_of(server, api_key=None).embed_query("q")
    assert vector == vector_of("q", DIMENSIONS)


async def test_no_key_and_no_server_names_both_cures() -> None:
    with pytest.raises(ModelUnavailable, match=r"OPENAI_API_KEY.*OPENAI_BASE_URL"):
        OpenAIEmbedder.from_env()
    embedder = OpenAIEmbedder()
    for _ in range(2):
        with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY"):
            await embedder.embed_query("q")


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_dimensions_from_env_must_be_a_number(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ADKPG_EMBEDDING_DIMENSIONS", value)
    with pytest.raises(ConfigurationError, match="ADKPG_EMBEDDING_DIMENSIONS"):
        OpenAIEmbedder.from_env()


async def test_without_the_sdk_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'adkpg\[openai\]'"):
        await OpenAIEmbedder(api_key="k").embed_query("q")
