"""Functions that embed, as `CallableEmbedder` takes them."""

from typing import Any

from adkpg.embedding import CallableEmbedder
from tests.fakes.embedding_server import vector_of

DIMENSIONS = 4


def vectors_of(texts: list[str]) -> list[list[float]]:
    return [vector_of(text, DIMENSIONS) for text in texts]


def embedder_of(documents: Any, **options: Any) -> CallableEmbedder:
    settings: dict[str, Any] = {"model": "m", "dimensions": DIMENSIONS} | options
    return CallableEmbedder(documents, **settings)
