import asyncio
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import errors, types

from adkpg.embedding import Embedder, GeminiEmbedder
from adkpg.embedding.embedder import embed_checked
from adkpg.errors import ModelError, ModelUnavailable
from tests.fakes.embedding_server import EmbeddingServer, Reply, Request, vector_of

DIMENSIONS = 8
PATH = "/v1beta/models/gemini-embedding-001:batchEmbedContents"


def texts_of(request: Request) -> list[str]:
    return [each["content"]["parts"][0]["text"] for each in request.body["requests"]]


def answer(request: Request) -> Reply:
    return Reply({"embeddings": [{"values": vector_of(t, DIMENSIONS)} for t in texts_of(request)]})


def unit_of(text: str) -> list[float]:
    vector = vector_of(text, DIMENSIONS)
    return [number / math.hypot(*vector) for number in vector]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer(answer)
    yield server
    server.close()


def embedder_of(server: EmbeddingServer, **options: Any) -> GeminiEmbedder:
    settings: dict[str, Any] = {"dimensions": DIMENSIONS, "api_key": "key"} | options
    return GeminiEmbedder(**settings, base_url=server.url)


def down(code: int, **headers: str) -> Reply:
    return Reply({"error": {"code": code, "message": "no"}}, status=code, headers=headers)


async def test_documents_are_sent_with_task_type_and_length(server: EmbeddingServer) -> None:
    embedder = embedder_of(server)
    assert isinstance(embedder, Embedder)
    vectors = await embedder.embed_documents(["user: hello", "bye"])
    assert vectors == [unit_of("user: hello"), unit_of("bye")]
    [request] = server.requests
    assert request.path == PATH
    assert request.headers["x-goog-api-key"] == "key"
    for each in request.body["requests"]:
        assert each["model"] == "models/gemini-embedding-001"
        assert each["taskType"] == "RETRIEVAL_DOCUMENT"
        assert each["outputDimensionality"] == DIMENSIONS


async def test_a_query_has_its_own_task_type(server: EmbeddingServer) -> None:
    assert await embedder_of(server).embed_query("why?") == unit_of("why?")
    [request] = server.requests
    assert [each["taskType"] for each in request.body["requests"]] == ["RETRIEVAL_QUERY"]


async def test_shortened_vectors_get_unit_length(server: EmbeddingServer) -> None:
    [vector] = await embedder_of(server).embed_documents(["text"])
    assert math.hypot(*vector) == pytest.approx(1.0)


@pytest.mark.parametrize("model", ["gemini-embedding-001", "gemini-embedding-2"])
async def test_each_text_is_a_request_with_every_model(server: EmbeddingServer, model: str) -> None:
    vectors = await embedder_of(server, model=model).embed_documents(["a", "bb"])
    assert vectors == [unit_of("a"), unit_of("bb")]


async def test_splits_into_batches_in_order(server: EmbeddingServer) -> None:
    texts = [f"text number {'x' * n}" for n in range(7)]
    vectors = await embedder_of(server, batch_size=3, concurrency=1).embed_documents(texts)
    assert vectors == [unit_of(text) for text in texts]
    assert [len(texts_of(request)) for request in server.requests] == [3, 3, 1]
    assert server.connections == 1


async def test_a_repeated_text_is_sent_once(server: EmbeddingServer) -> None:
    embedder = embedder_of(server)
    await embedder.embed_documents(["yes", "no", "yes"])
    assert await embedder.embed_documents(["no"]) == [unit_of("no")]
    assert list(map(texts_of, server.requests)) == [["yes", "no"]]


async def test_batches_go_side_by_side_up_to_the_limit(server: EmbeddingServer) -> None:
    texts = [f"text number {'x' * n}" for n in range(12)]
    vectors = await embedder_of(server, batch_size=1, concurrency=2).embed_documents(texts)
    assert vectors == [unit_of(text) for text in texts]
    assert server.connections <= 2


@pytest.mark.parametrize(
    ("status", "reason", "waits"),
    [
        (400, "API_KEY_INVALID", True),
        (403, "", True),
        (503, "", True),
        (400, "", False),
        (413, "", False),
    ],
)
async def test_the_type_tells_whether_texts_should_wait(
    server: EmbeddingServer, status: int, reason: str, waits: bool
) -> None:
    error = {"code": status, "message": "no", "details": [{"reason": reason}]}
    server.script.append(Reply({"error": error}, status=status))
    with pytest.raises(ModelError) as caught:
        await embedder_of(server, max_retries=0).embed_query("q")
    assert isinstance(caught.value, ModelUnavailable) == waits


async def test_long_and_ill_formed_texts_are_cut_and_mended(server: EmbeddingServer) -> None:
    await embedder_of(server).embed_documents(["é" * 5_000, "\ud800x\x00"])
    assert texts_of(server.requests[0]) == ["é" * 4_000, "?x\x00"]


async def test_429_is_retried_as_the_server_asks(server: EmbeddingServer) -> None:
    server.script.append(down(429, **{"retry-after": "0.01"}))
    assert await embedder_of(server).embed_query("q") == unit_of("q")
    assert len(server.requests) == 2


async def test_429_that_asks_for_an_hour_is_given_up(server: EmbeddingServer) -> None:
    server.script.append(down(429, **{"retry-after": "3600"}))
    with pytest.raises(ModelError, match="status 429"):
        await embedder_of(server).embed_query("q")
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [408, 500, 502, 503, 504])
async def test_5xx_is_retried(server: EmbeddingServer, code: int) -> None:
    server.script.append(down(code, **{"retry-after": "0.01"}))
    assert await embedder_of(server).embed_query("q") == unit_of("q")


async def test_5xx_without_a_wait_is_retried_after_a_backoff(server: EmbeddingServer) -> None:
    server.script.append(Reply(b"<html>bad gateway</html>", status=502))
    assert await embedder_of(server).embed_query("q") == unit_of("q")


async def test_persistent_5xx_is_an_embedding_error(server: EmbeddingServer) -> None:
    server.script.extend([down(503, **{"retry-after": "0.01"})] * 3)
    with pytest.raises(ModelError, match="status 503") as caught:
        await embedder_of(server, max_retries=2).embed_query("q")
    assert isinstance(caught.value.__cause__, errors.APIError)
    assert len(server.requests) == 3


async def test_a_refusal_is_not_retried_and_hides_the_key(server: EmbeddingServer) -> None:
    server.script.append(down(400))
    with pytest.raises(ModelError, match="status 400") as caught:
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
        Reply([]),
        Reply({}),
        Reply({"embeddings": []}),
        Reply({"embeddings": [{}]}),
        Reply({"embeddings": [{"values": ["x"] * DIMENSIONS}]}),
        Reply({"embeddings": [{"values": [0.0] * DIMENSIONS}]}),
        Reply({"embeddings": [{"values": [float("nan")] * DIMENSIONS}]}),
    ],
)
async def test_a_nonsense_answer_is_an_embedding_error(
    server: EmbeddingServer, reply: Reply
) -> None:
    server.script.append(reply)
    with pytest.raises(ModelError):
        await embedder_of(server).embed_query("q")


async def test_a_short_batch_is_a_mismatch(server: EmbeddingServer) -> None:
    server.script.append(Reply({"embeddings": [{"values": [1.0] * DIMENSIONS}]}))
    with pytest.raises(ModelError, match="1 vectors for 2 texts"):
        await embed_checked(embedder_of(server), ["a", "b"])


async def test_a_wrong_dimension_is_a_mismatch(server: EmbeddingServer) -> None:
    with pytest.raises(ModelError, match="set dimensions=8"):
        await embed_checked(embedder_of(server, dimensions=9), ["a"])


def test_one_embedder_serves_loops_in_turn_and_leaks_nothing(server: EmbeddingServer) -> None:
    embedder = embedder_of(server)
    for text in ("first", "second"):
        assert asyncio.run(embedder.embed_query(text)) == unit_of(text)
    assert server.connections == 2
    assert server.all_connections_closed()


async def test_close_closes_now_and_the_next_call_connects_again(server: EmbeddingServer) -> None:
    embedder = embedder_of(server)
    await embedder.close()
    await embedder.embed_query("q")
    await embedder.close()
    assert await asyncio.to_thread(server.all_connections_closed)
    assert await embedder.embed_query("q") == unit_of("q")


async def test_a_client_of_ones_own_is_used_and_left_open(server: EmbeddingServer) -> None:
    async with httpx.AsyncClient() as http:
        options = types.HttpOptions(base_url=server.url, httpx_async_client=http)
        with genai.Client(api_key="own", http_options=options) as client:
            embedder = GeminiEmbedder(dimensions=DIMENSIONS, client=client)
            assert await embedder.embed_query("q") == unit_of("q")
            await embedder.close()
            assert not http.is_closed
    assert server.requests[0].headers["x-goog-api-key"] == "own"


@pytest.mark.parametrize("variable", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
async def test_from_env(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "from-env")
    monkeypatch.setenv("ADKPG_EMBEDDING_DIMENSIONS", str(DIMENSIONS))
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    embedder = GeminiEmbedder.from_env()
    await embedder.embed_query("q")
    assert (embedder.model, embedder.dimensions) == ("gemini-embedding-001", DIMENSIONS)
    assert server.requests[0].headers["x-goog-api-key"] == "from-env"


async def test_no_key_names_the_variables() -> None:
    with pytest.raises(ModelUnavailable, match="GOOGLE_API_KEY or GEMINI_API_KEY"):
        GeminiEmbedder.from_env()
    embedder = GeminiEmbedder()
    for _ in range(2):
        with pytest.raises(ModelUnavailable, match="GOOGLE_API_KEY or GEMINI_API_KEY"):
            await embedder.embed_query("q")


def predicted(request: Request) -> Reply:
    """As Vertex AI answers, which takes one text a request."""
    [instance] = request.body["instances"]
    values = vector_of(instance["content"], DIMENSIONS)
    return Reply({"predictions": [{"embeddings": {"values": values}}]})


@pytest.fixture
def vertex(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[EmbeddingServer]:
    """Its server, by ADK's variables; this machine has no credentials."""
    server = EmbeddingServer(predicted)
    monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", server.url)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "project")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-central1")
    monkeypatch.setenv("ADKPG_EMBEDDING_DIMENSIONS", str(DIMENSIONS))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    yield server
    server.close()


@pytest.mark.parametrize("variable", ["GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"])
@pytest.mark.parametrize("value", ["TRUE", "1"])
async def test_adks_variables_choose_vertex_ai(
    vertex: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    embedder = GeminiEmbedder.from_env()
    assert await embedder.embed_documents(["a", "bb"]) == [unit_of("a"), unit_of("bb")]
    assert await embedder.embed_query("why?") == unit_of("why?")
    sent = [request.body["instances"][0]["task_type"] for request in vertex.requests]
    assert sent == ["RETRIEVAL_DOCUMENT", "RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"]
    assert all("x-goog-api-key" not in request.headers for request in vertex.requests)


async def test_vertex_ai_takes_a_key_too(
    vertex: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    monkeypatch.delenv("GOOGLE_CLOUD_LOCATION")
    monkeypatch.setenv("GOOGLE_API_KEY", "key")
    await GeminiEmbedder(dimensions=DIMENSIONS, vertexai=True).embed_query("q")
    [request] = vertex.requests
    assert request.path.endswith("/publishers/google/models/gemini-embedding-001:predict")
    assert request.headers["x-goog-api-key"] == "key"


@pytest.mark.usefixtures("vertex")
async def test_what_vertex_ai_lacks_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.delenv("GOOGLE_VERTEX_BASE_URL")
    with pytest.raises(ModelUnavailable, match="GOOGLE_APPLICATION_CREDENTIALS"):
        await GeminiEmbedder.from_env().embed_query("q")
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    with pytest.raises(ModelUnavailable, match="GOOGLE_CLOUD_PROJECT"):
        GeminiEmbedder.from_env()
    monkeypatch.setenv("GOOGLE_GENAI_USE_ENTERPRISE", "false")
    with pytest.raises(ModelUnavailable, match="GOOGLE_API_KEY"):
        GeminiEmbedder.from_env()


async def test_without_the_sdk_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.genai", None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'adkpg\[gemini\]'"):
        await GeminiEmbedder(api_key="k").embed_query("q")
