"""GuardedReranker: a reranker that may hang, fail or be away, behind a deadline and a breaker."""

import asyncio
import inspect

from adkpg.embedding.failures import retry_after_s
from adkpg.errors import ModelError, ModelUnavailable
from adkpg.outages.breaker import Breakers
from adkpg.outages.deadline import Overdue, answer_within
from adkpg.outages.proof import harmless, require_answer
from adkpg.reranking.reranker import Reranker, failures_of, scores_checked


class GuardedReranker:
    """Asks a reranker, for a limited time, and not while it is away.

    Tasks, loops and threads may share it.

    Args:
      reranker: Any.
      breakers: Shared by all users of the reranker.
      timeout_s: How long a search waits for it.
    """

    def __init__(self, reranker: Reranker, breakers: Breakers, timeout_s: float) -> None:
        self._reranker = reranker
        self._breaker = breakers.of(reranker, "rerank")
        self._timeout_s = timeout_s

    @property
    def model(self) -> str:
        """The reranker's model."""
        return self._reranker.model

    def news(self, failure: ModelError) -> bool:
        """Tells whether a failure belongs in a log: one that was not asked is told of once."""
        opened = self._breaker.news("searches")
        return opened or not isinstance(failure, ModelUnavailable) or failure.asked

    async def warm(self, timeout_s: float) -> None:
        """Loads what the reranker needs, if it has a coroutine function ``warm`` for that.

        Args:
          timeout_s: Longest wait, in seconds.

        Raises:
          ModelError: It failed, or gave no answer in time.
        """
        warm = getattr(self._reranker, "warm", None)
        if not inspect.iscoroutinefunction(warm):
            return
        self._breaker.forgive()
        try:
            with failures_of(self._reranker.model):
                await answer_within(warm(), timeout_s)
        except ModelUnavailable as exc:
            if isinstance(exc.__cause__, Overdue):
                raise self._late(exc.__cause__, timeout_s) from exc.__cause__
            raise

    async def scores(self, question: str, passages: list[str]) -> list[float]:
        """Returns a score for each passage.

        Raises:
          ModelUnavailable: It does not answer now, gave no answer in time, or is away.
          ModelError: It failed otherwise, though it answers something harmless.
        """
        permit = self._breaker.admit(self._timeout_s)
        if permit is None:
            error = ModelUnavailable(
                f"Reranker {self._reranker.model!r} is away and not asked for another "
                f"{self._breaker.pause_s():.0f} s: {self._breaker.cause}"
            )
            error.asked = False
            raise error
        try:
            with failures_of(self._reranker.model):
                found = await answer_within(self._asked(question, passages), self._timeout_s)
        except asyncio.CancelledError:
            self._breaker.withdrawn(permit)
            raise
        except ModelUnavailable as exc:
            if isinstance(exc.__cause__, Overdue):
                exc = self._late(exc.__cause__, self._timeout_s)
            self._breaker.failed(permit, str(exc), at_least_s=retry_after_s(exc))
            raise exc from exc.__cause__
        except ModelError:
            self._breaker.answered()
            raise
        self._breaker.answered()
        return found

    async def _asked(self, question: str, passages: list[str]) -> list[float]:
        try:
            return await scores_checked(self._reranker, question, passages)
        except ModelUnavailable:
            raise
        except ModelError:
            probes = [harmless() for _ in passages]
            await require_answer(lambda: scores_checked(self._reranker, harmless(), probes))
            raise

    def _late(self, cause: BaseException, timeout_s: float) -> ModelUnavailable:
        error = ModelUnavailable(
            f"Reranker {self._reranker.model!r} gave no answer within {timeout_s:g} s; see "
            "why it is slow, or raise ADKPG_RERANK_TIMEOUT_S."
        )
        error.__cause__ = cause
        return error
