"""Embeddings of OpenAI and of servers that speak its API, through OpenAI's SDK."""

import os
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from adkpg.embedding.callable import CallableEmbedder
from adkpg.embedding.clients import LoopClients
from adkpg.embedding.embedder import DEFAULT_WEIGHT, DEFAULT_WINDOW
from adkpg.embedding.environment import settings_from_env
from adkpg.errors import ModelUnavailable

if TYPE_CHECKING:
    import openai

# The models that can shorten their vectors, with their full lengths:
# https://platform.openai.com/docs/guides/embeddings
_FULL_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072}


class OpenAIEmbedder(CallableEmbedder):
    """Embeds with OpenAI or a compatible server; needs ``pip install 'adkpg[openai]'``.

    Documents and questions are embedded alike. Batches, timeouts, retries and the cache are those
    of `CallableEmbedder`. Each event loop gets its own connections, closed with the loop.

    Attributes:
      model: The model's name, as given.
      dimensions: Length d of the vectors.
      weight: How much the cosine counts in a search, see `embedder.weight_of`.
      window: Estimated tokens of a memory up to which it has one vector.
    """

    # OpenAI refuses a request of more than 300,000 tokens; a token is at least one byte.
    _max_batch_bytes = 250_000

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        dimensions: int = 1536,
        api_key: str | None = None,
        base_url: str | None = None,
        request_dimensions: bool | None = None,
        batch_size: int = 128,
        concurrency: int = 4,
        max_text_bytes: int = 8_000,
        timeout_s: float = 30.0,
        max_retries: int = 3,
        cache_size: int = 1024,
        weight: float = DEFAULT_WEIGHT,
        window: int = DEFAULT_WINDOW,
    ) -> None:
        """Stores the options; nothing is opened yet.

        Args:
          model: A model that embeds texts.
          dimensions: Length of the vectors, 1 or more.
          api_key: None reads OPENAI_API_KEY at first use. A server of your own (``base_url`` or
            OPENAI_BASE_URL) needs none.
          base_url: The server, such as ``http://localhost:11434/v1``; None reads
            OPENAI_BASE_URL and is OpenAI without it.
          request_dimensions: Whether ``dimensions`` is sent to the server. Many compatible
            servers refuse the field, so by default it is sent only to shorten the vectors
            of ``text-embedding-3-small`` and ``-large``.
          batch_size: Texts a request, at most; OpenAI takes 2,048.
          concurrency: Most simultaneous requests in one event loop; as many for questions.
          max_text_bytes: Most bytes of UTF-8 that are sent of a text. OpenAI refuses a text of
            more than 8,192 tokens, and a token is at least one byte.
          timeout_s: Seconds that one attempt may take, above 0.
          max_retries: Attempts after the first, 0 or more.
          cache_size: Vectors of documents remembered; 0 remembers none.
          weight: How much the cosine counts in a search; see docs/embedders.md.
          window: Estimated tokens of a memory up to which it has one vector, 16 or more; a longer
            one has one for each passage of some 200. Give half of what the model reads at most.

        Raises:
          ConfigurationError: A number is too small.
        """
        super().__init__(
            self._request,
            model=model,
            dimensions=dimensions,
            weight=weight,
            window=window,
            batch_size=batch_size,
            concurrency=concurrency,
            timeout_s=timeout_s,
            max_retries=max_retries,
            cache_size=cache_size,
            max_text_bytes=max_text_bytes,
        )
        self._api_key = api_key
        self._base_url = base_url
        if request_dimensions is None:
            request_dimensions = _FULL_DIMENSIONS.get(model, dimensions) != dimensions
        self._request_dimensions = request_dimensions
        self._clients = LoopClients(self._connect)

    @classmethod
    def from_env(cls) -> "OpenAIEmbedder":
        """Makes the embedder from OPENAI_API_KEY and OPENAI_BASE_URL, of which one must be set.

        ADKPG_EMBEDDING_MODEL and ADKPG_EMBEDDING_DIMENSIONS are read too, if set.

        Raises:
          ModelUnavailable: Neither a key nor a server is set.
          ConfigurationError: The dimensions are not a whole number of 1 or more.
        """
        base_url = os.environ.get("OPENAI_BASE_URL") or None
        settings = settings_from_env()
        return cls(
            model=settings.embedding_model or "text-embedding-3-small",
            dimensions=settings.embedding_dimensions or 1536,
            api_key=_key(None, base_url),
            base_url=base_url,
        )

    async def close(self) -> None:
        """Closes the running loop's connections now rather than at its end."""
        await self._clients.close()

    async def _request(self, batch: list[str]) -> list[list[float]]:
        client = await self._clients.get()
        response = await client.embeddings.create(
            input=batch,
            model=self.model,
            # The SDK's default is base64, which not every compatible server knows.
            encoding_format="float",
            extra_body={"dimensions": self.dimensions} if self._request_dimensions else None,
        )
        # Servers may answer out of order, and those that give no index answer in order.
        items = sorted(response.data, key=lambda item: getattr(item, "index", None) or 0)
        return [item.embedding for item in items]

    async def _connect(self) -> "AsyncGenerator[openai.AsyncOpenAI, None]":
        try:
            import openai  # noqa: PLC0415 - of the extra adkpg[openai]
        except ImportError as exc:
            raise ModelUnavailable(
                f"OpenAIEmbedder needs the package {exc.name}; run: pip install 'adkpg[openai]'"
            ) from exc
        base_url = self._base_url or os.environ.get("OPENAI_BASE_URL") or None
        # Attempts end and are repeated as those of any embedder, not by the SDK.
        client = openai.AsyncOpenAI(
            api_key=_key(self._api_key, base_url), base_url=base_url, timeout=None, max_retries=0
        )
        try:
            yield client
        finally:
            await client.close()


def _key(given: str | None, base_url: str | None) -> str:
    key = given or os.environ.get("OPENAI_API_KEY")
    if not key and base_url:
        key = "none"  # the SDK insists on one, servers of one's own do not read it
    if not key:
        raise ModelUnavailable(
            "OpenAIEmbedder has no API key; set OPENAI_API_KEY or pass api_key, or name a server "
            "of your own in OPENAI_BASE_URL or base_url."
        )
    return key
