"""Embeddings of LangChain, by the shape of the object: LangChain itself is not imported."""

from typing import Any

from adkpg.embedding.callable import CallableEmbedder
from adkpg.embedding.embedder import DEFAULT_WEIGHT, DEFAULT_WINDOW
from adkpg.errors import ConfigurationError


class LangChainEmbedder(CallableEmbedder):
    """Embeds with any LangChain ``Embeddings`` object, or one that looks like it.

    ``aembed_documents`` and ``aembed_query`` are called if the object has them, else
    ``embed_documents`` and ``embed_query`` in a thread. Batches, timeouts, retries and the cache
    are those of `CallableEmbedder`; the object's own retries, if it makes any, happen within one
    attempt, so turn off one of the two.

    Attributes:
      model: The model's name.
      dimensions: Length d of the vectors.
      weight: How much the cosine counts in a search, see `embedder.weight_of`.
      window: Estimated tokens of a memory up to which it has one vector.
    """

    def __init__(
        self,
        embeddings: Any,
        *,
        dimensions: int,
        model: str | None = None,
        weight: float = DEFAULT_WEIGHT,
        window: int = DEFAULT_WINDOW,
        batch_size: int = 64,
        concurrency: int = 4,
        timeout_s: float = 30.0,
        max_retries: int = 3,
        cache_size: int = 1024,
    ) -> None:
        """Stores the object and the options; nothing is called yet.

        Args:
          embeddings: The LangChain object; it stays yours.
          dimensions: Length of its vectors, 1 or more.
          model: Name stored with each vector. None is the object's ``model`` or
            ``model_name``.
          weight: As for `CallableEmbedder`, like all that follow.
          window: Estimated tokens of a memory up to which it has one vector.
          batch_size: Texts a call, at most.
          concurrency: Most simultaneous calls in one event loop.
          timeout_s: Seconds that one attempt may take.
          max_retries: Attempts after the first.
          cache_size: Vectors of documents remembered.

        Raises:
          ConfigurationError: The object lacks a method, the model has no name, or a number is
            too small.
        """
        super().__init__(
            _method(embeddings, "embed_documents"),
            model=model or _model_of(embeddings),
            dimensions=dimensions,
            query=_method(embeddings, "embed_query"),
            weight=weight,
            window=window,
            batch_size=batch_size,
            concurrency=concurrency,
            timeout_s=timeout_s,
            max_retries=max_retries,
            cache_size=cache_size,
        )


def _method(embeddings: Any, name: str) -> Any:
    method = getattr(embeddings, f"a{name}", None) or getattr(embeddings, name, None)
    if not callable(method):
        raise ConfigurationError(
            f"{type(embeddings).__name__} has neither a{name} nor {name}; give LangChainEmbedder "
            "an object with LangChain's Embeddings interface."
        )
    return method


def _model_of(embeddings: Any) -> str:
    for name in ("model", "model_name"):
        value = getattr(embeddings, name, None)
        if isinstance(value, str) and value:
            return value
    raise ConfigurationError(
        f"{type(embeddings).__name__} does not say which model it is; give LangChainEmbedder a "
        "model name, which is stored with each vector."
    )
