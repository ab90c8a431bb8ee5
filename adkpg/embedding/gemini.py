"""Embeddings of the Gemini API, through Google's SDK."""

import math
import os
import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from adkpg.embedding.batch import batches, well_formed
from adkpg.embedding.clients import LoopClients
from adkpg.embedding.embedder import checked_vectors
from adkpg.embedding.environment import dimensions_from_env, model_from_env
from adkpg.errors import EmbedderUnavailable, EmbeddingError

if TYPE_CHECKING:
    from google import genai
    from tenacity import RetryCallState

# The API reads 2,048 tokens of a text and takes 100 texts a request:
# https://ai.google.dev/gemini-api/docs/embeddings
_MAX_TEXT_BYTES = 8_000
_MAX_BATCH_BYTES = 1_000_000
_TRANSIENT_CODES = frozenset({408, 429, 500, 502, 503, 504})
_MAX_BACKOFF_S = 8.0
_MAX_RETRY_AFTER_S = 60.0


class GeminiEmbedder:
    """Embed with a Gemini model; needs an API key and ``pip install 'adkpg[gemini]'``.

    Stored texts are sent with the task type RETRIEVAL_DOCUMENT and questions with RETRIEVAL_QUERY.
    Vectors have unit length; the API's own, if shortened, do not. 408, 429, 5xx and broken
    connections are retried; a server that asks for a wait of up to 60 s gets it, and one that asks
    for more is not asked again. Each event loop gets its own connections, closed with the loop.

    Attributes:
        model: The model's name, as given.
        dimensions: Length d of the vectors.
        floor: Cosine under which a hit is noise, in [-1, 1].
    """

    def __init__(
        self,
        model: str = "gemini-embedding-001",
        dimensions: int = 768,
        api_key: str | None = None,
        *,
        client: "genai.Client | None" = None,
        base_url: str | None = None,
        batch_size: int = 100,
        timeout_s: float = 30.0,
        max_retries: int = 3,
        floor: float = 0.0,
    ) -> None:
        """Store the options; nothing is opened yet.

        Args:
            model: A model that embeds texts.
            dimensions: Numbers to ask for, 1 or more; gemini-embedding-001 has 3,072, and Google
                recommends 768, 1,536 or 3,072.
            api_key: None reads GOOGLE_API_KEY, else GEMINI_API_KEY, at first use.
            client: A client of your own, for Vertex AI say, instead of ``api_key`` and
                ``base_url``; it is used as it is, in every loop, and stays yours to close.
            base_url: Another server that speaks the API.
            batch_size: Texts a request, 1 to 100; Vertex AI takes 1.
            timeout_s: Seconds that one attempt may wait for the server.
            max_retries: Attempts after the first.
            floor: Measured on your texts; this model's is not known here.
        """
        self.model = model
        self.dimensions = dimensions
        self.floor = floor
        self._api_key = api_key
        self._client = client
        self._base_url = base_url
        self._batch_size = batch_size
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._clients = LoopClients(self._connect)

    @classmethod
    def from_env(cls) -> "GeminiEmbedder":
        """Make the embedder from GOOGLE_API_KEY or GEMINI_API_KEY, the first before the second.

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
        """Return unit vectors ``[n, d]`` in the order of the texts.

        Of each text the first 8,000 bytes are sent, about as much as the model reads.

        Raises:
            EmbedderUnavailable: The SDK or the API key is missing.
            EmbeddingMismatch: The answer has another number or length of vectors.
            EmbeddingError: The API refused, failed or kept silent, retries included.
        """
        return await self._embed(texts, "RETRIEVAL_DOCUMENT")

    async def embed_query(self, text: str) -> list[float]:
        """Return the unit vector ``[d]`` of a question.

        Raises:
            EmbeddingError: As `embed_documents` says.
        """
        return (await self._embed([text], "RETRIEVAL_QUERY"))[0]

    async def close(self) -> None:
        """Close the running loop's connections now rather than at its end."""
        await self._clients.close()

    async def _embed(self, texts: list[str], task_type: str) -> list[list[float]]:
        vectors: list[list[float]] = []
        for batch in batches(
            [well_formed(text, _MAX_TEXT_BYTES) for text in texts],
            max_texts=self._batch_size,
            max_bytes=_MAX_BATCH_BYTES,
        ):
            answer = checked_vectors(
                await self._request(batch, task_type),
                count=len(batch),
                model=self.model,
                dimensions=self.dimensions,
            )
            vectors.extend(map(_unit, answer))
        return vectors

    async def _request(self, batch: list[str], task_type: str) -> list[list[float]]:
        try:
            import httpx  # noqa: PLC0415 - comes with the extra adkpg[gemini]
            import tenacity  # noqa: PLC0415 - comes with the extra adkpg[gemini]
            from google.genai import errors, types  # noqa: PLC0415 - of the extra adkpg[gemini]
        except ImportError as exc:
            raise EmbedderUnavailable(
                f"GeminiEmbedder needs the package {exc.name}; run: pip install 'adkpg[gemini]'"
            ) from exc

        def transient(exc: BaseException) -> bool:
            if isinstance(exc, errors.APIError):
                return exc.code in _TRANSIENT_CODES and retry_after_s(exc) <= _MAX_RETRY_AFTER_S
            return isinstance(exc, httpx.TransportError)

        client = self._client or await self._clients.get()
        # The SDK's own retries do not read how long the server asks to wait.
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(transient),
            wait=_wait_s,
            stop=tenacity.stop_after_attempt(self._max_retries + 1),
            reraise=True,
        )
        try:
            response: types.EmbedContentResponse = await retrying(
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
        except errors.APIError as exc:
            raise EmbeddingError(
                f"The Gemini API answered {exc.code} ({str(exc.message)[:200]}) for model "
                f"{self.model!r}; check the model's name, the API key and its quota, or try "
                "again later."
            ) from exc
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as exc:
            raise EmbeddingError(
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


def retry_after_s(error: Any) -> float:
    """Return the seconds that the API asks to wait before the next attempt; 0.0 if it asks none.

    Read from the header Retry-After (seconds or a date) or from the error's RetryInfo, which the
    Gemini API sends with 429: https://google.aip.dev/194, google.rpc.RetryInfo.

    Args:
        error: A ``google.genai.errors.APIError``.
    """
    headers = getattr(error.response, "headers", None) or {}
    value = headers.get("retry-after")
    if value is not None:
        try:
            return max(0.0, float(value))
        except ValueError:
            pass
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return 0.0
        return max(
            0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
        )
    match = re.search(r"'retryDelay': '([0-9.]+)s'", str(error.details))
    return float(match[1]) if match else 0.0


def _wait_s(state: "RetryCallState") -> float:
    import tenacity  # noqa: PLC0415 - comes with the extra adkpg[gemini]
    from google.genai import errors  # noqa: PLC0415 - of the extra adkpg[gemini]

    backoff_s = tenacity.wait_exponential_jitter(initial=0.5, max=_MAX_BACKOFF_S, jitter=0.5)(state)
    error = state.outcome.exception() if state.outcome else None
    asked_s = retry_after_s(error) if isinstance(error, errors.APIError) else 0.0
    return asked_s or backoff_s


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
