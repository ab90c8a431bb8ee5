"""Rerankers as commands name them."""

from __future__ import annotations

import adkpg

FORMS = "cohere:MODEL, tei:URL, onnx:FOLDER, or module:attribute of one of yours"


def reranker_named(name: str) -> adkpg.reranking.Reranker:
    """Returns the reranker that a command line names.

    Args:
      name: ``cohere:rerank-v3.5``, ``tei:http://localhost:8080``, ``onnx:models/reranker``, or
        ``module:attribute`` for one of your own, or for a function that makes one.

    Raises:
      ConfigurationError: It names none.
    """
    from adkpg.embedding.default import own_object
    from adkpg.reranking.reranker import require_reranker

    kind, _, rest = name.partition(":")
    if not rest:
        raise adkpg.errors.ConfigurationError(f"{name!r} names no reranker; say {FORMS}.")
    if kind == "cohere":
        return adkpg.reranking.CohereReranker(rest)
    if kind == "tei":
        return adkpg.reranking.TEIReranker(rest)
    if kind == "onnx":
        return adkpg.reranking.OnnxReranker(rest)
    found = own_object(name, adkpg.reranking.Reranker)
    require_reranker(found)
    assert isinstance(found, adkpg.reranking.Reranker)
    return found
