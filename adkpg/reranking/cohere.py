"""Reranking by Cohere, and by servers that speak its API."""

import os

from adkpg.errors import ModelError, ModelUnavailable
from adkpg.reranking import http

_URL = "https://api.cohere.com/v2/rerank"


class CohereReranker:
    """Asks Cohere, or a service of the same form, such as Jina's, vLLM's or Infinity's.

    It posts ``model``, ``query``, ``documents`` and ``top_n``, and reads ``results`` (or ``data``)
    with an ``index`` and a ``relevance_score`` each. Each event loop gets its own connections,
    closed with the loop.

    Attributes:
      model: The model's name, as given.
    """

    def __init__(
        self,
        model: str = "rerank-v3.5",
        *,
        url: str = _URL,
        api_key: str | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        """Stores the options; nothing is opened yet.

        Args:
          model: The service's model.
          url: The whole address that requests are posted to, such as
            ``http://localhost:8000/v1/rerank``.
          api_key: None reads CO_API_KEY, then COHERE_API_KEY, at first use. A server of your own
            needs none.
          timeout_s: Seconds that a request may take, above 0; a search waits no longer than
            ``ADKPG_RERANK_TIMEOUT_S``.

        Raises:
          ConfigurationError: The address or the time cannot work.
        """
        self.model = model
        self._own = url != _URL
        self._url, self._api_key, self._timeout_s = url, api_key, timeout_s
        self._service: http.Service | None = None
        http.Service(model, url, {}, timeout_s=timeout_s)  # refuses now what cannot work

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r})"

    async def scores(self, question: str, passages: list[str]) -> list[float]:
        """Returns the relevance of each passage in their order, from 0 to 1.

        Raises:
          ModelUnavailable: There is no key.
          ModelError: The answer is not of this form.
        """
        if not passages:
            return []
        answer = await self._asked().post(
            {
                "model": self.model,
                "query": http.sent(question),
                "documents": [http.sent(passage) for passage in passages],
                "top_n": len(passages),
            }
        )
        if not isinstance(answer, dict):
            raise ModelError(
                f"Reranker {self.model!r} answered no object of results; check its address."
            )
        results = answer.get("results", answer.get("data"))
        return http.by_index(self.model, results, "relevance_score", len(passages))

    async def close(self) -> None:
        """Closes the running loop's connections now rather than at its end."""
        if self._service is not None:
            await self._service.close()

    def _asked(self) -> http.Service:
        if self._service is None:
            key = self._api_key or os.environ.get("CO_API_KEY") or os.environ.get("COHERE_API_KEY")
            if not key and not self._own:
                raise ModelUnavailable(
                    "CohereReranker has no API key; set CO_API_KEY or pass api_key, or name a "
                    "server of your own as url."
                )
            headers = {"authorization": f"Bearer {key}"} if key else {}
            self._service = http.Service(self.model, self._url, headers, timeout_s=self._timeout_s)
        return self._service
