"""Embeddings of the Gemini API, through Google's SDK."""

import math
import os
from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING

from adkpg.embedding.calls import Calls
from adkpg.embedding.clients import LoopClients
from adkpg.embedding.environment import dimensions_from_env, model_from_env
from adkpg.embedding.failures import retried, unavailable
from adkpg.errors import EmbedderUnavailable, EmbeddingError

if TYPE_CHECKING:
    from google import genai

# The API reads 2,048 tokens of a text and takes 100 texts a request:
# https://ai.google.dev/gemini-api/docs/embeddings
_MAX_TEXT_BYTES = 8_000
_MAX_BATCH_BYTES = 1_000_000


class GeminiEmbedder:
    """Embeds with a Gemini model; needs an API key and ``pip install 'adkpg[gemini]'``.

    Stored texts are sent with the task type RETRIEVAL_DOCUMENT and questions with RETRIEVAL_QUERY.
    Vectors have unit length; the API's own, if shortened, do not. Each text of a call is embedded
    once and the latest are remembered; the others go in batches, a few at a time. 408, 429, 5xx and
    broken connections are retried; a server that asks for a wait of up to 60 s gets it, and one
    that asks for more is not asked again. Each event loop gets its own connections, closed with the
    loop.

    Attributes:
      model: The model's name, as given.
      dimensions: Length d of the vectors.
      floor: Cosine under which a hit is noise, in [-1, 1].
    """

    def __init__(
        self,
        model: str = "gemini-embedding-001",
        *,
        dimensions: int = 768,
        api_key: str | None = None,
        client: "genai.Client | None" = None,
        base_url: str | None = None,
        batch_size: int = 100,
        concurrency: int = 4,
        timeout_s: float = 30.0,
        max_retries: int = 3,
        cache_size: int = 1024,
        floor: float = 0.0,
    ) -> None:
        """Stores the options; nothing is opened yet.

        Args:
          model: A model that embeds texts.
          dimensions: Numbers to ask for, 1 or more; gemini-embedding-001 has 3,072, and Google
            recommends 768, 1,536 or 3,072.
          api_key: None reads GOOGLE_API_KEY, else GEMINI_API_KEY, at first use.
          client: A client of your own, for Vertex AI say, instead of ``api_key`` and
            ``base_url``; it is used as it is, in every loop, and stays yours to close.
          base_url: Another server that speaks the API.
          batch_size: Texts a request, 1 to 100; Vertex AI takes 1.
          concurrency: Most simultaneous requests in one event loop; as many for questions.
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
        self._client = client
        self._base_url = base_url
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
    def from_env(cls) -> "GeminiEmbedder":
        """Makes the embedder from GOOGLE_API_KEY or GEMINI_API_KEY, the first before the second.

        ADKPG_EMBEDDING_MODEL and ADKPG_EMBEDDING_DIMENSIONS are read too, if set.

        Raises:
          EmbedderUnavailable: Neither key is set.
          ConfigurationError: The dimensions are not a whole number of 1 or more.
        """
        return cls(
            model=model_from_env("gemini-embedding-001"),
            dimensions=dimensions_from_env(768),
            api_key=_key_from_env(),
        )

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns unit vectors ``[n, d]`` in the order of the texts.

        Of each text the first 8,000 bytes are sent, about as much as the model reads.

        Raises:
          EmbedderUnavailable: The SDK or the API key is missing or refused, or the API is down
            or silent, retries included.
          EmbeddingMismatch: The answer has another number or length of vectors.
          EmbeddingError: The API refused the texts, or gave no usable answer.
        """
        vectors = await self._calls.documents(
            texts,
            partial(self._request, task_type="RETRIEVAL_DOCUMENT"),
            max_text_bytes=_MAX_TEXT_BYTES,
        )
        return list(map(_unit, vectors))

    async def embed_query(self, text: str) -> list[float]:
        """Returns the unit vector ``[d]`` of a question.

        Raises:
          EmbeddingError: As `embed_documents` says.
        """
        vector = await self._calls.query(
            text,
            partial(self._request, task_type="RETRIEVAL_QUERY"),
            max_text_bytes=_MAX_TEXT_BYTES,
        )
        return _unit(vector)

    async def close(self) -> None:
        """Closes the running loop's connections now rather than at its end."""
        await self._clients.close()

    async def _request(self, batch: list[str], task_type: str) -> list[list[float]]:
        try:
            import httpx  # noqa: PLC0415 - comes with the extra adkpg[gemini]
            from google.genai import errors, types  # noqa: PLC0415 - of the extra adkpg[gemini]
        except ImportError as exc:
            raise EmbedderUnavailable(
                f"GeminiEmbedder needs the package {exc.name}; run: pip install 'adkpg[gemini]'"
            ) from exc

        client = self._client or await self._clients.get()
        embed = partial(
            client.aio.models.embed_content,
            model=self.model,
            # As Content objects: plain strings make one vector of them all with newer models.
            contents=[types.Content(parts=[types.Part(text=text)]) for text in batch],
            config=types.EmbedContentConfig(
                task_type=task_type,
                output_dimensionality=self.dimensions,
                http_options=types.HttpOptions(timeout=max(1, round(self._timeout_s * 1000))),
            ),
        )
        try:
            # The SDK's own retries do not read how long the server asks to wait.
            response = await retried(embed, max_retries=self._max_retries)
        except errors.APIError as exc:
            # A wrong key is answered with 400, like a wrong text.
            waits = unavailable(exc) or "API_KEY_INVALID" in str(exc.details)
            raise (EmbedderUnavailable if waits else EmbeddingError)(
                f"The Gemini API answered {exc.code} ({str(exc.message)[:200]}) for model "
                f"{self.model!r}; check the model's name, the API key and its quota, or try "
                "again later."
            ) from exc
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as exc:
            raise (EmbedderUnavailable if unavailable(exc) else EmbeddingError)(
                f"The Gemini API gave no usable answer ({type(exc).__name__}) for model "
                f"{self.model!r}; check the network and the base URL, or raise timeout_s."
            ) from exc
        return [embedding.values or [] for embedding in response.embeddings or []]

    async def _connect(self) -> "AsyncGenerator[genai.Client, None]":
        import httpx  # noqa: PLC0415 - comes with the extra adkpg[gemini]
        from google import genai  # noqa: PLC0415 - of the extra adkpg[gemini]
        from google.genai import types  # noqa: PLC0415 - of the extra adkpg[gemini]

        # Our own HTTP client, so that it can be closed and its errors are known.
        http = httpx.AsyncClient(follow_redirects=True)
        client = genai.Client(
            vertexai=False,
            api_key=self._api_key or _key_from_env(),
            http_options=types.HttpOptions(base_url=self._base_url, httpx_async_client=http),
        )
        try:
            yield client
        finally:
            client.close()
            await http.aclose()


def _unit(vector: list[float]) -> list[float]:
    norm = math.hypot(*vector)
    return [number / norm for number in vector]


def _key_from_env() -> str:
    key = os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")
    if not key:
        raise EmbedderUnavailable(
            "GeminiEmbedder has no API key; set GOOGLE_API_KEY or GEMINI_API_KEY, or pass api_key."
        )
    return key
