from typing import Any

import pytest

from adkpg.embedding import Embedder, LangChainEmbedder
from adkpg.embedding.embedder import embed_checked, weight_of
from adkpg.errors import ConfigurationError, ModelError


class SyncEmbeddings:
    """LangChain's interface, as an integration without async methods has it."""

    model_name = "sync-model"

    def __init__(self) -> None:
        self.asked: list[object] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked.append(texts)
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.asked.append(text)
        return [2.0, float(len(text))]


class AsyncEmbeddings(SyncEmbeddings):
    model = "async-model"

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[3.0, float(len(text))] for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        return [4.0, float(len(text))]


class OnlyDocuments:
    model = "half"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 1.0] for _ in texts]


class Nameless(SyncEmbeddings):
    model_name = ""


async def test_async_methods_are_used_where_there_are_any() -> None:
    embeddings = AsyncEmbeddings()
    embedder = LangChainEmbedder(embeddings, dimensions=2, weight=0.4)
    assert isinstance(embedder, Embedder)
    assert (embedder.model, weight_of(embedder)) == ("async-model", 0.4)
    assert await embed_checked(embedder, ["a", "bb"]) == [[3.0, 1.0], [3.0, 2.0]]
    assert await embedder.embed_query("why?") == [4.0, 4.0]
    assert embeddings.asked == []


async def test_sync_methods_run_in_a_thread() -> None:
    embeddings = SyncEmbeddings()
    embedder = LangChainEmbedder(embeddings, dimensions=2)
    assert embedder.model == "sync-model"
    assert await embedder.embed_documents(["a", "bb", "a"]) == [[1.0, 1.0], [1.0, 2.0], [1.0, 1.0]]
    assert await embedder.embed_query("why?") == [2.0, 4.0]
    assert embeddings.asked == [["a", "bb"], "why?"]


async def test_options_are_passed_on() -> None:
    embeddings = SyncEmbeddings()
    embedder = LangChainEmbedder(
        embeddings, dimensions=2, model="mine", batch_size=1, concurrency=1, cache_size=0
    )
    assert embedder.model == "mine"
    for _ in range(2):
        await embedder.embed_documents(["a", "b"])
    assert embeddings.asked == [["a"], ["b"]] * 2


async def test_the_wrong_length_is_a_mismatch() -> None:
    embedder = LangChainEmbedder(SyncEmbeddings(), dimensions=3)
    with pytest.raises(ModelError, match="set dimensions=2"):
        await embedder.embed_documents(["a"])


@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        (object(), "neither aembed_documents nor embed_documents"),
        (OnlyDocuments(), "neither aembed_query nor embed_query"),
        (Nameless(), "which model"),
    ],
)
def test_what_is_no_embeddings_is_refused(embeddings: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        LangChainEmbedder(embeddings, dimensions=2)
