"""Embeddings of the Gemini API, through Google's SDK."""

import math
import os
from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING

from adkpg.embedding.callable import CallableEmbedder
from adkpg.embedding.clients import LoopClients
from adkpg.embedding.embedder import DEFAULT_WEIGHT, DEFAULT_WINDOW
from adkpg.embedding.environment import settings_from_env
from adkpg.errors import ModelUnavailable

if TYPE_CHECKING:
    from google import genai

# The API reads 2,048 tokens of a text and takes 100 texts a request:
# https://ai.google.dev/gemini-api/docs/embeddings
_MAX_TEXT_BYTES = 8_000


class GeminiEmbedder(CallableEmbedder):
    """Embeds with a Gemini model; needs ``pip install 'adkpg[gemini]'``, and a key or Vertex AI.

    ADK's own variables choose, as for its models: with GOOGLE_GENAI_USE_ENTERPRISE or
    GOOGLE_GENAI_USE_VERTEXAI it asks Vertex AI, by GOOGLE_CLOUD_PROJECT, GOOGLE_CLOUD_LOCATION and
    the machine's credentials.
    Stored texts are sent with the task type RETRIEVAL_DOCUMENT and questions with RETRIEVAL_QUERY.
    The first 8,000 bytes of each text are sent, about as much as the model reads. Vectors have unit
    length; the API's own, if shortened, do not. Batches, timeouts, retries and the cache are those
    of `CallableEmbedder`. Each event loop gets its own connections, closed with the loop.

    Attributes:
      model: The model's name, as given.
      dimensions: Length d of the vectors.
      weight: How much the cosine counts in a search, see `embedder.weight_of`.
      window: Estimated tokens of a memory up to which it has one vector.
    """

    def __init__(
        self,
        model: str = "gemini-embedding-001",
        *,
        dimensions: int = 768,
        api_key: str | None = None,
        client: "genai.Client | None" = None,
        base_url: str | None = None,
        vertexai: bool | None = None,
        batch_size: int | None = None,
        concurrency: int = 4,
        timeout_s: float = 30.0,
        max_retries: int = 3,
        cache_size: int = 1024,
        weight: float = DEFAULT_WEIGHT,
        window: int = DEFAULT_WINDOW,
    ) -> None:
        """Stores the options; nothing is opened yet.

        Args:
          model: A model that embeds texts.
          dimensions: Numbers to ask for, 1 or more; gemini-embedding-001 has 3,072, and Google
            recommends 768, 1,536 or 3,072.
          api_key: None reads GOOGLE_API_KEY, else GEMINI_API_KEY, at first use; Vertex AI needs
            none.
          client: A client of your own instead of ``api_key`` and ``base_url``; it is used as it
            is, in every loop, and stays yours to close.
          base_url: Another server that speaks the API.
          vertexai: Whether Vertex AI is asked; None is what the client or ADK's variables say.
          batch_size: Texts a request, 1 to 100; None is 100, and 1 of Vertex AI, which takes no
            more.
          concurrency: Most simultaneous requests in one event loop; as many for questions.
          timeout_s: Seconds that one attempt may take, above 0.
          max_retries: Attempts after the first, 0 or more.
          cache_size: Vectors of documents remembered; 0 remembers none.
          weight: How much the cosine counts in a search; see docs/embedders.md.
          window: Estimated tokens of a memory up to which it has one vector, 16 or more; a longer
            one has one for each passage of some 200. Give half of what the model reads at most.

        Raises:
          ConfigurationError: A number is too small.
        """
        if vertexai is None:
            vertexai = _by_env() if client is None else bool(client.vertexai)
        super().__init__(
            partial(self._request, task_type="RETRIEVAL_DOCUMENT"),
            query=self._question,
            model=model,
            dimensions=dimensions,
            weight=weight,
            window=window,
            batch_size=(1 if vertexai else 100) if batch_size is None else batch_size,
            concurrency=concurrency,
            timeout_s=timeout_s,
            max_retries=max_retries,
            cache_size=cache_size,
            max_text_bytes=_MAX_TEXT_BYTES,
        )
        self._vertexai = vertexai
        self._api_key = api_key
        self._client = client
        self._base_url = base_url
        self._clients = LoopClients(self._connect)

    @classmethod
    def from_env(cls) -> "GeminiEmbedder":
        """Makes the embedder from GOOGLE_API_KEY or GEMINI_API_KEY, or from Vertex AI's variables.

        The first key counts before the second. ADKPG_EMBEDDING_MODEL and
        ADKPG_EMBEDDING_DIMENSIONS are read too, if set.

        Raises:
          ModelUnavailable: Neither key is set, and Vertex AI is not chosen.
          ConfigurationError: The dimensions are not a whole number of 1 or more.
        """
        settings = settings_from_env()
        return cls(
            model=settings.embedding_model or "gemini-embedding-001",
            dimensions=settings.embedding_dimensions or 768,
            api_key=_key(None, vertexai=_by_env()),
        )

    async def close(self) -> None:
        """Closes the running loop's connections now rather than at its end."""
        await self._clients.close()

    async def _question(self, text: str) -> list[float]:
        return (await self._request([text], "RETRIEVAL_QUERY"))[0]

    async def _request(self, batch: list[str], task_type: str) -> list[list[float]]:
        client = self._client or await self._clients.get()
        from google.auth import exceptions  # noqa: PLC0415 - of the extra adkpg[gemini]
        from google.genai import types  # noqa: PLC0415 - of the extra adkpg[gemini]

        try:
            response = await client.aio.models.embed_content(
                model=self.model,
                # As Content objects: plain strings make one vector of them all with newer models.
                contents=[types.Content(parts=[types.Part(text=text)]) for text in batch],
                config=types.EmbedContentConfig(
                    task_type=task_type, output_dimensionality=self.dimensions
                ),
            )
        except (exceptions.DefaultCredentialsError, exceptions.RefreshError) as exc:
            raise ModelUnavailable(
                f"GeminiEmbedder has no access to Vertex AI ({type(exc).__name__}); run gcloud "
                "auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS."
            ) from exc
        return [_unit(embedding.values or []) for embedding in response.embeddings or []]

    async def _connect(self) -> "AsyncGenerator[genai.Client, None]":
        try:
            import httpx  # noqa: PLC0415 - comes with the extra adkpg[gemini]
            from google import genai  # noqa: PLC0415 - of the extra adkpg[gemini]
            from google.genai import types  # noqa: PLC0415 - of the extra adkpg[gemini]
        except ImportError as exc:
            raise ModelUnavailable(
                f"GeminiEmbedder needs the package {exc.name}; run: pip install 'adkpg[gemini]'"
            ) from exc
        # Our own HTTP client, so that it can be closed and its errors are known.
        http = httpx.AsyncClient(follow_redirects=True, timeout=None)
        client = genai.Client(
            vertexai=self._vertexai,
            api_key=_key(self._api_key, vertexai=self._vertexai),
            http_options=types.HttpOptions(base_url=self._base_url, httpx_async_client=http),
        )
        try:
            yield client
        finally:
            client.close()
            await http.aclose()


def _unit(vector: list[float]) -> list[float]:
    norm = math.hypot(*vector) or 1.0
    return [number / norm for number in vector]


def _by_env() -> bool:
    """Whether the environment chooses Vertex AI, as Google's SDK and ADK read it."""
    for name in ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"):
        if name in os.environ:
            return os.environ[name].lower() in ("true", "1")
    return False


def _key(given: str | None, *, vertexai: bool) -> str | None:
    key = given or os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")
    if vertexai:
        # Google's SDK chooses between a key and a project of the environment.
        if not key and not os.environ.get("GOOGLE_CLOUD_PROJECT"):
            raise ModelUnavailable(
                "GeminiEmbedder is to ask Vertex AI, and has no project; set GOOGLE_CLOUD_PROJECT "
                "and GOOGLE_CLOUD_LOCATION."
            )
        return given
    if not key:
        raise ModelUnavailable(
            "GeminiEmbedder has no API key; set GOOGLE_API_KEY or GEMINI_API_KEY, pass api_key, or "
            "choose Vertex AI by GOOGLE_GENAI_USE_VERTEXAI."
        )
    return key
