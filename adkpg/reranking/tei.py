"""Reranking by Hugging Face's Text Embeddings Inference."""

import asyncio

from adkpg.errors import ConfigurationError
from adkpg.reranking import http


class TEIReranker:
    """Asks a server of Text Embeddings Inference (TEI) that runs a reranker.

    It posts ``query`` and ``texts`` to ``/rerank``, in batches side by side. Each event loop gets
    its own connections, closed with the loop.

    Attributes:
      model: Its name in messages.
    """

    def __init__(
        self,
        url: str = "http://localhost:8080",
        *,
        model: str = "tei",
        api_key: str | None = None,
        batch_size: int = 32,
        timeout_s: float = 30.0,
    ) -> None:
        """Stores the options; nothing is opened yet.

        Args:
          url: The server, without ``/rerank``.
          model: A name for messages; the server has one model.
          api_key: If the server was started with one.
          batch_size: Texts a request, 1 or more; the server's ``--max-client-batch-size`` is 32 by
            default.
          timeout_s: Seconds that a request may take, above 0; a search waits no longer than
            ``ADKPG_RERANK_TIMEOUT_S``.

        Raises:
          ConfigurationError: The address or a number cannot work.
        """
        if batch_size < 1:
            raise ConfigurationError(
                f"batch_size of reranker {model!r} is {batch_size}; give 1 or more."
            )
        self.model = model
        self._batch_size = batch_size
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        address = f"{url.rstrip('/')}/rerank"
        self._service = http.Service(model, address, headers, timeout_s=timeout_s)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r})"

    async def scores(self, question: str, passages: list[str]) -> list[float]:
        """Returns the score of each passage in their order, from 0 to 1.

        A batch that fails ends the others.

        Raises:
          ModelError: The answer is not of TEI's form.
        """
        batches = [
            passages[start : start + self._batch_size]
            for start in range(0, len(passages), self._batch_size)
        ]
        tasks = [asyncio.create_task(self._batch(question, batch)) for batch in batches]
        try:
            answers = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [score for scores in answers for score in scores]

    async def close(self) -> None:
        """Closes the running loop's connections now rather than at its end."""
        await self._service.close()

    async def _batch(self, question: str, passages: list[str]) -> list[float]:
        answer = await self._service.post(
            {
                "query": http.sent(question),
                "texts": [http.sent(passage) for passage in passages],
                "raw_scores": False,
                "truncate": True,
            }
        )
        return http.by_index(self.model, answer, "score", len(passages))
