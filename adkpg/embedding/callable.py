"""Any function as an embedder."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar, cast

from adkpg.embedding.calls import Calls
from adkpg.embedding.embedder import DEFAULT_WEIGHT, DEFAULT_WINDOW
from adkpg.embedding.failures import failures_of, retried, transient
from adkpg.errors import ConfigurationError, ModelError, ModelUnavailable
from adkpg.outages.threads import Threads

ArgumentT = TypeVar("ArgumentT")
AnswerT = TypeVar("AnswerT")
Vector: TypeAlias = Sequence[float]
Function: TypeAlias = Callable[[ArgumentT], AnswerT] | Callable[[ArgumentT], Awaitable[AnswerT]]


class CallableEmbedder:
    """Embeds with a function, sync or async, and what it takes to call a service with it.

    Each text of a call is embedded once and the latest are remembered; the others go in batches, a
    few at a time. An attempt that takes too long ends. 408, 429, 5xx and broken connections, as
    the common HTTP libraries and SDKs raise them, are retried after a jittered exponential backoff
    or as long as the server asks, up to 60 s. The methods of another embedder are functions too,
    so this gives all of it to an embedder of your own.

    A sync function runs in a thread of its own. It cannot be stopped there: after its time is up
    it runs on unheard, and is not called again for the same texts. Once twice `concurrency` of its
    calls do so, it is not called until one of them ends.

    Attributes:
      model: The model's name, as given.
      dimensions: Length d of the vectors.
      weight: How much the cosine counts in a search, see `embedder.weight_of`.
      window: Estimated tokens of a memory up to which it has one vector.
    """

    _max_batch_bytes = 1_000_000

    def __init__(
        self,
        documents: Function[list[str], Iterable[Vector]],
        *,
        model: str,
        dimensions: int,
        query: Function[str, Vector] | None = None,
        weight: float = DEFAULT_WEIGHT,
        window: int = DEFAULT_WINDOW,
        batch_size: int = 64,
        concurrency: int = 4,
        timeout_s: float | None = 30.0,
        max_retries: int = 3,
        cache_size: int = 1024,
        max_text_bytes: int | None = None,
    ) -> None:
        """Stores the functions and options; nothing is called yet.

        Args:
          documents: Takes a list of texts and returns as many vectors in their order: lists, or
            any array whose rows are numbers. Sync or async.
          model: Name stored with each vector; vectors of two models are never compared, so
            give another model another name.
          dimensions: Length of the vectors, 1 or more.
          query: Takes a question and returns its vector, for models that embed questions
            otherwise than documents. None embeds both alike.
          weight: How much the cosine counts in a search; see docs/embedders.md.
          window: Estimated tokens of a memory up to which it has one vector, 16 or more; a longer
            one has one for each passage of some 200. Give half of what the model reads at most.
          batch_size: Texts a call, at most; 1 or more.
          concurrency: Most simultaneous calls in one event loop, 1 or more; as many for questions.
          timeout_s: Seconds that one attempt may take, above 0; None is only the caller's limit.
          max_retries: Attempts after the first, 0 or more.
          cache_size: Vectors of documents remembered; 0 remembers none.
          max_text_bytes: Most bytes of UTF-8 that are sent of a text; None sends all of it.

        Raises:
          ConfigurationError: The model has no name, or a number is too small.
        """
        if not model:
            raise ConfigurationError(
                "The embedder has no model name; give one, which is stored with each vector."
            )
        if (timeout_s is not None and timeout_s <= 0) or max_retries < 0:
            raise ConfigurationError(
                f"Embedder {model!r} has timeout_s={timeout_s} and max_retries={max_retries}; give "
                "seconds above 0 and a whole number of 0 or more."
            )
        self.model = model
        self.dimensions = dimensions
        self.weight = weight
        self.window = window
        self._documents = documents
        self._query = query
        self._max_text_bytes = max_text_bytes
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._threads = Threads()
        self._most_left = 2 * concurrency
        self._calls = Calls(
            model=model,
            dimensions=dimensions,
            batch_size=batch_size,
            max_batch_bytes=self._max_batch_bytes,
            concurrency=concurrency,
            cache_size=cache_size,
            max_text_bytes=max_text_bytes,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, dimensions={self.dimensions})"

    def fits(self, text: str) -> bool:
        """Tells whether all of a text is sent."""
        return self._max_text_bytes is None or len(text.encode()) <= self._max_text_bytes

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns vectors ``[n, d]`` in the order of the texts.

        Raises:
          ModelUnavailable: The function took too long, or its service is down or refuses the
            caller, retries included.
          ModelError: It returned another number or length of vectors, or no numbers.
          ModelError: It failed otherwise; its own error is the cause.
        """
        return await self._calls.documents(texts, self._ask)

    async def embed_query(self, text: str) -> list[float]:
        """Returns the vector ``[d]`` of a question.

        Raises:
          ModelError: As `embed_documents` says.
        """
        return await self._calls.query(text, self._ask if self._query is None else self._ask_one)

    async def _ask(self, batch: list[str]) -> Iterable[Vector]:
        return await self._answer(self._documents, batch)

    async def _ask_one(self, batch: list[str]) -> Iterable[Vector]:
        assert self._query is not None
        return [await self._answer(self._query, batch[0])]

    async def _answer(self, function: Function[ArgumentT, AnswerT], argument: ArgumentT) -> AnswerT:
        asynchronous = _is_async(function)
        if not asynchronous and self._threads.left >= self._most_left:
            raise ModelUnavailable(
                f"Embedder {self.model!r} hangs: {self._threads.left} of its calls still run whose "
                "time is up; see what they wait for."
            )

        def again(exc: BaseException) -> bool:
            # Our own says that time is up; another thread would only join the first one's wait.
            ours = isinstance(exc, ModelError)
            return transient(exc) and (asynchronous or not ours)

        async def attempt() -> AnswerT:
            try:
                async with asyncio.timeout(self._timeout_s) as limit:
                    return await self._called(function, argument, asynchronous=asynchronous)
            except TimeoutError as exc:
                if limit.expired():
                    raise ModelUnavailable(
                        f"Embedder {self.model!r} gave no answer within {self._timeout_s:g} s; "
                        "see why it is slow, or raise timeout_s."
                    ) from exc
                raise

        with failures_of(self.model):
            return await retried(attempt, max_retries=self._max_retries, again=again)

    async def _called(
        self, function: Function[ArgumentT, AnswerT], argument: ArgumentT, *, asynchronous: bool
    ) -> AnswerT:
        answer = function(argument) if asynchronous else await self._threads.run(function, argument)
        # Such as a lambda around an async function.
        return await answer if inspect.isawaitable(answer) else cast("AnswerT", answer)


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose call is async
    )
