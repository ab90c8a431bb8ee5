"""Reranker: the interface, and the checks that every score passes."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from adkpg.embedding.failures import status_of, unavailable
from adkpg.errors import ConfigurationError, ModelError, ModelUnavailable


@runtime_checkable
class Reranker(Protocol):
    """Anything that says how well each of some passages answers a question; needs no base class.

    One reranker may be used by many tasks and by several event loops in turn. It may raise
    anything, and may also keep silent, since each call has a deadline; but it must not block the
    event loop. When it fails or is late, the order of the search stands.

    Attributes:
      model: Its name, for messages.
    """

    model: str

    async def scores(self, question: str, passages: list[str]) -> list[float]:
        """Returns a finite number for each passage, in their order; higher answers better.

        They are compared within one call only, so any scale will do.
        """
        ...


def require_reranker(given: object) -> None:
    """Raises unless it is a reranker.

    Raises:
      ConfigurationError: It has no ``model`` or no ``scores``.
    """
    if isinstance(given, type) or not isinstance(given, Reranker):
        raise ConfigurationError(
            f"{given!r} is not a reranker; give an object with a model and an async method "
            "scores, such as adkpg.reranking.TEIReranker()."
        )


async def scores_checked(reranker: Reranker, question: str, passages: list[str]) -> list[float]:
    """Asks a reranker for scores, and lets through only what can order the passages.

    Raises:
      ModelUnavailable: It does not answer now; its own error is the cause.
      ModelError: It failed otherwise, or gave something else than a number for each passage.
    """
    with failures_of(reranker.model):
        return checked(
            await reranker.scores(question, passages), count=len(passages), model=reranker.model
        )


def checked(scores: Iterable[float], *, count: int, model: str) -> list[float]:
    """Returns the scores as floats.

    Raises:
      ModelError: They are not as many finite numbers as there are passages.
    """
    try:
        if isinstance(scores, str | bytes):
            raise TypeError("a text is not a list of scores")
        numbers = [_number(score) for score in scores]
    except (TypeError, ValueError, OverflowError) as exc:
        raise ModelError(
            f"Reranker {model!r} returned something else than numbers; return a float for each "
            "passage."
        ) from exc
    if len(numbers) != count:
        raise ModelError(
            f"Reranker {model!r} returned {len(numbers)} scores for {count} passages; return one "
            "for each."
        )
    if not all(map(math.isfinite, numbers)):
        raise ModelError(
            f"Reranker {model!r} returned a score that is not a finite number; check the model."
        )
    return numbers


def _number(score: float) -> float:
    if isinstance(score, str | bytes):
        raise TypeError("a text is not a score")
    return float(score)


@contextmanager
def failures_of(model: str) -> Iterator[None]:
    """Within it, whatever a reranker raises becomes an error of ours, with its own as the cause.

    Raises:
      ModelUnavailable: It does not answer now.
      ModelError: It failed otherwise.
    """
    try:
        yield
    except ModelError:
        raise
    except Exception as exc:
        code = status_of(exc)
        # Not the message: it may hold an address with a key, or what was asked.
        what = type(exc).__name__ + (f", status {code}" if code else "")
        if unavailable(exc):
            raise ModelUnavailable(
                f"Reranker {model!r} cannot answer now ({what}); check its address, the key and "
                "its quota, and the network: its error is the cause of this one."
            ) from exc
        raise ModelError(
            f"Reranker {model!r} failed with {what}; fix the fault that its error, the cause of "
            "this one, names."
        ) from exc
