"""GuardedEmbedder: an embedder that may hang, fail or be away, behind deadlines and a breaker."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from adkpg.embedding.cache import VectorCache
from adkpg.embedding.embedder import Embedder, embed_checked, embed_query_checked, fits
from adkpg.embedding.failures import failure_of, failures_of, retry_after_s
from adkpg.errors import ModelError, ModelUnavailable
from adkpg.loops import PerLoop
from adkpg.outages.breaker import Breaker, Breakers
from adkpg.outages.deadline import Overdue, answer_within, ended
from adkpg.outages.proof import harmless, require_answer
from adkpg.settings import Settings
from adkpg.telemetry import calls

AnswerT = TypeVar("AnswerT")

_WARMING = "warm"
# What is left of a search's time when it gives its embedder up is for the words.
_EMBEDDERS_SHARE = 0.9
# Characters up to which a question is not refused for its length.
_SHORT = 100


@dataclass
class _Flight:
    """A question on its way: other callers with the same question join it.

    Attributes:
      task: Asks, and remembers the answer.
      permit: The one that the searches' breaker gave.
      waiting: How many wait for it.
    """

    task: asyncio.Task[list[float]]
    permit: int
    waiting: int = 0


class GuardedEmbedder:
    """Asks an embedder, for a limited time, and not while it is away.

    There are two breakers, since a question is given up long before a batch. All callers heed the
    one that opens when the embedder fails or lets the deadline pass. Searches also heed one that
    opens when a question took longer than a search may. Such a question goes on: its answer is
    remembered, and closes both.

    A failure that may be about a text is an outage all the same, unless the embedder answers a
    harmless text right after it. Then a text alone is asked once more before it is refused.

    The vectors of the latest questions are remembered: ADK's ``preload_memory`` asks the same one
    on every model request of a turn. Tasks, loops and threads may share it all.

    Args:
      embedder: Any.
      breakers: Shared by all users of the embedder.
      settings: Deadlines and the size of the cache.

    Attributes:
      embedder: The same.
    """

    def __init__(self, embedder: Embedder, breakers: Breakers, settings: Settings) -> None:
        self.embedder = embedder
        self._breaker = breakers.of(embedder)
        self._searches = breakers.of(embedder, "search")
        self._timeout_s = settings.embedding_timeout_s
        self._search_timeout_s = settings.search_timeout_s
        self._cache = VectorCache(settings.query_cache_size)
        self._flights: PerLoop[dict[Hashable, _Flight]] = PerLoop(dict)
        warm = getattr(embedder, "warm", None)
        self._warm: Callable[[], Awaitable[object]] | None = None
        if inspect.iscoroutinefunction(warm):
            self._warm = cast("Callable[[], Awaitable[object]]", warm)

    def pause_s(self) -> float:
        """Returns for how many seconds the embedder is not asked, since it failed; else 0.0."""
        return self._breaker.pause_s()

    def news(self, hearer: str, failure: Exception) -> bool:
        """Tells whether a failure belongs in a log: one that was not asked is told of once.

        Args:
          hearer: Who writes the log.
          failure: What was raised here.
        """
        opened = [breaker.news(hearer) for breaker in (self._breaker, self._searches)]
        return any(opened) or not isinstance(failure, ModelUnavailable) or failure.asked

    def require(self) -> None:
        """Raises while the embedder is not asked.

        Raises:
          ModelUnavailable: It failed a moment ago.
        """
        if self._breaker.pause_s():
            raise self._not_asked(self._breaker)

    def forgive(self) -> None:
        """Has an embedder that is away asked again, since a caller wants it now."""
        self._breaker.forgive()
        self._searches.forgive()

    async def loaded(self) -> None:
        """Waits until the embedder has loaded what it needs.

        Raises:
          ModelError: It failed.
          ModelUnavailable: Also without an answer in time, and at once while it is away.
        """
        await self._loaded(self._timeout_s)

    async def documents(self, texts: list[str], *, proven: bool = False) -> list[list[float]]:
        """Embeds documents as `embed_checked` does.

        Args:
          texts: The documents.
          proven: Whether the embedder answered a harmless text, and refused what these are of.

        Raises:
          ModelError: As `embed_checked` says, though the embedder answers a harmless text.
          ModelUnavailable: Also if it answers none, without an answer in time, and at once while
            it is away.
        """
        with self._watched():
            await self.loaded()
            return await self._asked(lambda: self._of_documents(texts, proven), self._timeout_s)

    async def question(self, text: str) -> list[float]:
        """Returns a question's vector ``[d]``, a list that is the caller's own.

        Tasks that ask the same at once make one call. It ends when the last of them is cancelled.
        A question that is too long, or is refused, is asked by its beginning and its end.

        Raises:
          ModelError: As `embed_query_checked` says, though the embedder answers a harmless
            question; a failure is not remembered.
          ModelUnavailable: Also if it answers none, without an answer in time, and at once while
            it is away.
        """
        key = (self.embedder.model, self.embedder.dimensions, text)
        vector = self._cache.get(key)
        if vector is not None:
            return vector
        with self._watched():
            return await self._flown(key, text)

    def _watched(self) -> AbstractContextManager[None]:
        if not calls.is_open():
            return nullcontext()
        return calls.embedding(self.embedder.model, self.embedder.dimensions)

    async def warm(self, timeout_s: float | None) -> None:
        """Loads what the embedder needs and asks it one question, also one that is away.

        Args:
          timeout_s: Longest wait; None is the deadline of any call.

        Raises:
          ModelError: It failed, or gave no answer in time.
        """
        timeout_s = timeout_s or self._timeout_s
        self.forgive()
        await self._loaded(timeout_s)
        await self._asked(lambda: self._of_question(_WARMING), timeout_s)

    async def _loaded(self, timeout_s: float) -> None:
        if self._warm is None:
            return

        async def load(warm: Callable[[], Awaitable[object]] = self._warm) -> None:
            try:
                with failures_of(self.embedder.model):
                    await warm()
            except ModelUnavailable:
                raise
            except ModelError as exc:  # which no text has to do with
                raise ModelUnavailable(str(exc)) from exc

        await self._asked(load, timeout_s)
        self._warm = None

    async def _flown(self, key: Hashable, text: str) -> list[float]:
        await self.loaded()
        flights = self._flights.here()
        flight = flights.get(key)
        if flight is None or flight.task.done():  # it may not have been told of yet
            self.require()
            permit = self._searches.admit(self._search_timeout_s)
            if permit is None:
                raise self._not_asked(self._searches)
            flight = flights[key] = _Flight(asyncio.create_task(self._ask(key, text)), permit)
            flight.task.add_done_callback(lambda task: _landed(flights, key, task))
        flight.waiting += 1
        try:
            await ended(flight.task, _EMBEDDERS_SHARE * self._search_timeout_s)
        except asyncio.CancelledError:
            if flight.waiting == 1 and not flight.task.done():
                flight.task.cancel()
                flights.pop(key, None)
                self._searches.withdrawn(flight.permit)
            raise
        finally:
            flight.waiting -= 1
        if not flight.task.done():
            error = self._silent(self._search_timeout_s, "ADKPG_SEARCH_TIMEOUT_S")
            self._searches.failed(flight.permit, str(error))
            raise error
        return flight.task.result().copy()

    async def _ask(self, key: Hashable, text: str) -> list[float]:
        vector = await self._asked(lambda: self._of_question(text), self._timeout_s)
        self._searches.answered()
        self._cache.put(key, vector)
        return vector

    async def _of_documents(self, texts: list[str], proven: bool) -> list[list[float]]:
        try:
            return await embed_checked(self.embedder, texts)
        except ModelUnavailable:
            raise
        except ModelError:
            if proven:
                raise
            await require_answer(lambda: embed_checked(self.embedder, [harmless()]))
            if len(texts) > 1:  # each is asked alone next
                raise
        # An outage may have ended between the two.
        return await embed_checked(self.embedder, texts)

    async def _of_question(self, text: str) -> list[float]:
        while len(text) > _SHORT and not fits(self.embedder, text):
            text = _ends(text)
        while True:
            try:
                return await embed_query_checked(self.embedder, text)
            except ModelUnavailable:
                raise
            except ModelError:
                if len(text) <= _SHORT:
                    await require_answer(lambda: embed_query_checked(self.embedder, harmless()))
                    raise
                text = _ends(text)

    async def _asked(
        self, ask: Callable[[], Coroutine[Any, Any, AnswerT]], timeout_s: float
    ) -> AnswerT:
        permit = self._breaker.admit(timeout_s)
        if permit is None:
            raise self._not_asked(self._breaker)
        try:
            answer = await answer_within(ask(), timeout_s)
        except asyncio.CancelledError:
            self._breaker.withdrawn(permit)
            raise
        except (Overdue, ConnectionAbortedError) as exc:
            error: ModelError = self._silent(timeout_s, "ADKPG_EMBEDDING_TIMEOUT_S")
            if not isinstance(exc, Overdue):
                error = failure_of(self.embedder.model, exc)
            self._breaker.failed(permit, str(error))
            raise error from exc
        except ModelUnavailable as exc:
            self._breaker.failed(permit, str(exc), at_least_s=retry_after_s(exc))
            raise
        except ModelError:
            self._breaker.answered()
            raise
        self._breaker.answered()
        return answer

    def _silent(self, timeout_s: float, setting: str) -> ModelUnavailable:
        return ModelUnavailable(
            f"Embedder {self.embedder.model!r} gave no answer within {timeout_s:g} s; see why it "
            f"is slow, or raise {setting}."
        )

    def _not_asked(self, breaker: Breaker) -> ModelUnavailable:
        error = ModelUnavailable(
            f"Embedder {self.embedder.model!r} is away and not asked for another "
            f"{breaker.pause_s():.0f} s: {breaker.cause}"
        )
        error.asked = False
        return error


def _ends(text: str) -> str:
    """Half of a text: its beginning and its end, at whitespace if there is any."""
    quarter = len(text) // 4
    first, last = text[:quarter], text[-quarter:]
    return f"{first.rsplit(None, 1)[0]} {last.split(None, 1)[-1]}"


def _landed(
    flights: dict[Hashable, _Flight], key: Hashable, task: asyncio.Task[list[float]]
) -> None:
    flight = flights.get(key)
    if flight is not None and flight.task is task:
        del flights[key]
    if not task.cancelled():
        task.exception()  # retrieved, if no caller waits any more
