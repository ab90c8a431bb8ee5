"""Embeddings of OpenAI and of servers that speak its API, through OpenAI's SDK."""

import os
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from adkpg.embedding.calls import Calls
from adkpg.embedding.clients import LoopClients
from adkpg.embedding.environment import dimensions_from_env, model_from_env
from adkpg.embedding.failures import unavailable
from adkpg.errors import EmbedderUnavailable, EmbeddingError

if TYPE_CHECKING:
    import openai

# OpenAI refuses a request of more than 300,000 tokens; a token is at least one byte.
_MAX_BATCH_BYTES = 250_000
# The models that can shorten their vectors, with their full lengths:
# https://platform.openai.com/docs/guides/embeddings
_FULL_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072}


class OpenAIEmbedder:
    """Embeds with OpenAI or a compatible server; needs ``pip install 'adkpg[openai]'``.

    Each text of a call is embedded once and the latest are remembered; the others go in batches, a
    few at a time. The SDK retries 408, 409, 429, 5xx and broken connections, and waits as long as
    the server asks, within the SDK's limits. Each event loop gets its own connections, closed with
    the loop.

    Attributes:
      model: The model's name, as given.
      dimensions: Length d of the vectors.
      floor: Cosine under which a hit is noise, in [-1, 1].
    """

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
        floor: float = 0.0,
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
          timeout_s: Seconds that one attempt may wait for the server.
          max_retries: Attempts after the first.
          cache_size: Vectors of documents remembered; 0 remembers none.
          floor: Measured on your texts; this model's is not known here.

        Raises:
          ConfigurationError: A number is too small.
        """
        self.model = model
        self.dimensions = dimensions
        self.floor = floor
        self._api_key = api_key
        self._base_url = base_url
        if request_dimensions is None:
            request_dimensions = _FULL_DIMENSIONS.get(model, dimensions) != dimensions
        self._request_dimensions = request_dimensions
        self._max_text_bytes = max_text_bytes
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._clients = LoopClients(self._connect)
        self._calls = Calls(
            model=model,
            dimensions=dimensions,
            batch_size=batch_size,
            max_batch_bytes=_MAX_BATCH_BYTES,
            concurrency=concurrency,
            cache_size=cache_size,
        )

    @classmethod
    def from_env(cls) -> "OpenAIEmbedder":
        """Makes the embedder from OPENAI_API_KEY and OPENAI_BASE_URL, of which one must be set.

        ADKPG_EMBEDDING_MODEL and ADKPG_EMBEDDING_DIMENSIONS are read too, if set.

        Raises:
          EmbedderUnavailable: Neither a key nor a server is set.
          ConfigurationError: The dimensions are not a whole number of 1 or more.
        """
        base_url = os.environ.get("OPENAI_BASE_URL") or None
        return cls(
            model=model_from_env("text-embedding-3-small"),
            dimensions=dimensions_from_env(1536),
            api_key=_key(None, base_url),
            base_url=base_url,
        )

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns vectors ``[n, d]`` in the order of the texts.

        Raises:
          EmbedderUnavailable: The SDK or the API key is missing or refused, or the server is
            down or silent, retries included.
          EmbeddingMismatch: The answer has another number or length of vectors.
          EmbeddingError: The server refused the texts, or gave no usable answer.
        """
        return await self._calls.documents(
            texts, self._request, max_text_bytes=self._max_text_bytes
        )

    async def embed_query(self, text: str) -> list[float]:
        """Returns the vector ``[d]`` of a question; documents are embedded alike.

        Raises:
          EmbeddingError: As `embed_documents` says.
        """
        return await self._calls.query(text, self._request, max_text_bytes=self._max_text_bytes)

    async def close(self) -> None:
        """Closes the running loop's connections now rather than at its end."""
        await self._clients.close()

    async def _request(self, batch: list[str]) -> list[list[float]]:
        try:
            import openai  # noqa: PLC0415 - of the extra adkpg[openai]
        except ImportError as exc:
            raise EmbedderUnavailable(
                f"OpenAIEmbedder needs the package {exc.name}; run: pip install 'adkpg[openai]'"
            ) from exc
        client = await self._clients.get()
        try:
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
        except openai.APIStatusError as exc:
            raise (EmbedderUnavailable if unavailable(exc) else EmbeddingError)(
                f"The embedding server answered {exc.status_code} ({exc.message[:200]}) for model "
                f"{self.model!r}; check the model's name, the API key and its quota, or try "
                "again later."
            ) from exc
        except (openai.OpenAIError, ValueError, TypeError, AttributeError) as exc:
            raise (EmbedderUnavailable if unavailable(exc) else EmbeddingError)(
                f"The embedding server gave no usable answer ({type(exc).__name__}) for model "
                f"{self.model!r}; check the network and the base URL, or raise timeout_s."
            ) from exc

    async def _connect(self) -> "AsyncGenerator[openai.AsyncOpenAI, None]":
        import openai  # noqa: PLC0415 - of the extra adkpg[openai]

        base_url = self._base_url or os.environ.get("OPENAI_BASE_URL") or None
        client = openai.AsyncOpenAI(
            api_key=_key(self._api_key, base_url),
            base_url=base_url,
            timeout=self._timeout_s,
            max_retries=self._max_retries,
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
        raise EmbedderUnavailable(
            "OpenAIEmbedder has no API key; set OPENAI_API_KEY or pass api_key, or name a server "
            "of your own in OPENAI_BASE_URL or base_url."
        )
    return key
