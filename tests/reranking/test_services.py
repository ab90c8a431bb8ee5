"""Services that speak Cohere's and TEI's API, over real HTTP."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from adkpg.errors import ConfigurationError, ModelError, ModelUnavailable
from adkpg.reranking import CohereReranker, Reranker, TEIReranker
from adkpg.reranking.reranker import scores_checked
from tests.fakes.embedding_server import EmbeddingServer, Reply, Request

PASSAGES = ["tea", "a long passage about bikes", "bike"]


def cohere(request: Request) -> Reply:
    """Longer documents are more relevant; results come the best first, as Cohere sends them."""
    results = [
        {"index": place, "relevance_score": len(text) / 100}
        for place, text in enumerate(request.body["documents"])
    ]
    results.sort(key=lambda each: -float(each["relevance_score"]))
    return Reply({"id": "1", "results": results[: request.body["top_n"]], "meta": {}})


def tei(request: Request) -> Reply:
    texts = request.body["texts"]
    if len(texts) > 32:
        return Reply({"error": "batch size 33 > maximum allowed batch size 32"}, status=422)
    scores = [{"index": place, "score": len(text) / 100} for place, text in enumerate(texts)]
    return Reply(sorted(scores, key=lambda each: -each["score"]))


@pytest.fixture
def cohere_server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer(cohere)
    yield server
    server.close()


@pytest.fixture
def tei_server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer(tei)
    yield server
    server.close()


async def test_cohere_is_asked_once(cohere_server: EmbeddingServer) -> None:
    url = f"{cohere_server.url}/v2/rerank"
    reranker = CohereReranker("rerank-v3.5", url=url, api_key="secret")
    assert isinstance(reranker, Reranker)
    assert await reranker.scores("Which bike?", PASSAGES) == [0.03, 0.26, 0.04]
    (request,) = cohere_server.requests
    assert (request.path, request.headers["authorization"]) == ("/v2/rerank", "Bearer secret")
    assert request.body == {
        "model": "rerank-v3.5",
        "query": "Which bike?",
        "documents": PASSAGES,
        "top_n": 3,
    }
    assert await reranker.scores("Which bike?", []) == []
    assert await reranker.scores("\udc80", ["\udc80", "x" * 9_000]) == [0.01, 80.0]
    await reranker.close()
    assert cohere_server.all_connections_closed()


async def test_cohere_reads_its_key_from_the_environment(
    cohere_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CO_API_KEY", "COHERE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    own = CohereReranker(url=f"{cohere_server.url}/rerank")
    assert await own.scores("?", ["tea"]) == [0.03]
    assert "authorization" not in cohere_server.requests[-1].headers
    with pytest.raises(ModelUnavailable, match="CO_API_KEY"):
        await CohereReranker().scores("?", ["tea"])
    monkeypatch.setenv("COHERE_API_KEY", "of the environment")
    await CohereReranker(url=f"{cohere_server.url}/rerank").scores("?", ["tea"])
    assert cohere_server.requests[-1].headers["authorization"] == "Bearer of the environment"


async def test_a_like_service_may_name_its_results_data(cohere_server: EmbeddingServer) -> None:
    cohere_server.script.append(Reply({"data": [{"index": 0, "relevance_score": 1}]}))
    assert await CohereReranker(url=cohere_server.url).scores("?", ["tea"]) == [1]


async def test_tei_is_asked_in_batches(tei_server: EmbeddingServer) -> None:
    reranker = TEIReranker(f"{tei_server.url}/", api_key="secret")
    assert isinstance(reranker, Reranker)
    passages = ["x" * (place % 7) for place in range(70)]
    assert await reranker.scores("Which?", passages) == [len(text) / 100 for text in passages]
    assert sorted(len(request.body["texts"]) for request in tei_server.requests) == [6, 32, 32]
    request = tei_server.requests[0]
    assert (request.path, request.headers["authorization"]) == ("/rerank", "Bearer secret")
    assert (request.body["query"], request.body["raw_scores"], request.body["truncate"]) == (
        "Which?",
        False,
        True,
    )
    await reranker.close()
    assert tei_server.all_connections_closed()


@pytest.mark.parametrize(
    ("reply", "unavailable"),
    [
        (Reply({"error": "overloaded"}, status=429), True),
        (Reply({"error": "down"}, status=503), True),
        (Reply({"message": "key secret is wrong"}, status=401), True),
        (Reply({"error": "too long"}, status=422), False),
        (Reply(b"<html>"), False),
        (Reply("text"), False),
        (Reply([]), False),
        (Reply({"results": []}), False),
        (Reply({"results": None}), False),
        (Reply([{"index": 0, "score": "high", "relevance_score": "high"}]), False),
        (Reply({"results": [{"index": 1, "relevance_score": 1}]}), False),
        (Reply([{"index": 5, "score": 1}]), False),
    ],
)
async def test_a_wrong_answer_is_a_sentence(
    cohere_server: EmbeddingServer, tei_server: EmbeddingServer, reply: Reply, unavailable: bool
) -> None:
    for server, reranker in (
        (cohere_server, CohereReranker(url=cohere_server.url, api_key="secret")),
        (tei_server, TEIReranker(tei_server.url, api_key="secret")),
    ):
        server.script.append(reply)
        with pytest.raises(ModelError) as raised:
            await scores_checked(reranker, "?", ["tea"])
        assert isinstance(raised.value, ModelUnavailable) == unavailable
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize("filling", [b"[[1],[2],[3]],", b'{"index": 0, "score": 1},'])
async def test_an_endless_answer_is_not_read_to_its_end(
    cohere_server: EmbeddingServer, tei_server: EmbeddingServer, filling: bytes
) -> None:
    """Parsing it would hold up all that the event loop serves."""
    for server, reranker in (
        (cohere_server, CohereReranker(url=cohere_server.url)),
        (tei_server, TEIReranker(tei_server.url)),
    ):
        many = b"[" + filling * (10_000_000 // len(filling)) + b"1]"
        server.script.append(Reply(many))
        with pytest.raises(ModelError, match="more than 64 kB") as raised:
            await scores_checked(reranker, "?", ["tea"])
        assert not isinstance(raised.value, ModelUnavailable), "others may be answered"
        assert await reranker.scores("?", ["tea"]) == [0.03]


async def test_passages_that_come_back_are_read(cohere_server: EmbeddingServer) -> None:
    """As services do that return the documents; each letter is six characters of JSON."""

    def returned(request: Request) -> Reply:
        results = [
            {"index": place, "relevance_score": 0.5, "document": {"text": text}}
            for place, text in enumerate(request.body["documents"])
        ]
        return Reply({"results": results})

    cohere_server.script.append(returned)
    passages = ["茶" * 2_000] * 50
    reranker = CohereReranker(url=cohere_server.url)
    assert await reranker.scores("茶?", passages) == [0.5] * 50


async def test_nobody_at_the_address_is_unavailable() -> None:
    reranker = TEIReranker("http://127.0.0.1:1", model="mine")
    with pytest.raises(ModelUnavailable, match="'mine' cannot answer now"):
        await scores_checked(reranker, "?", ["tea"])


def test_connections_end_with_their_loop(tei_server: EmbeddingServer) -> None:
    reranker = TEIReranker(tei_server.url)
    for _ in range(2):
        assert asyncio.run(reranker.scores("?", ["tea"])) == [0.03]
        assert tei_server.all_connections_closed()
    assert tei_server.connections == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: CohereReranker(url="localhost"),
        lambda: CohereReranker(timeout_s=0),
        lambda: TEIReranker("localhost:8080"),
        lambda: TEIReranker(batch_size=0),
    ],
)
def test_what_cannot_work_is_refused_at_once(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()
