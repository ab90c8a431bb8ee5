"""Embedder: the interface, and the checks every vector passes before it is stored or compared.

An embedder fails in one of two ways, and the type tells which:

* `ModelUnavailable`: it answers no text now. Its service is down, overloaded, silent or out of
  quota (408, 429, 5xx, a broken connection), or its package, key or model is missing or refused
  (401, 402, 403, 404, 407). The texts wait and are asked again later, however often.
* Any other `ModelError`: a failure that does not tell whether these texts are at fault. Examples
  are a text too long or a wrong key (400, 413, 422), a vector of the wrong length, and an error of
  an unknown kind. `adkpg.embedding.guarded` asks a harmless text next: if that is answered, these
  were refused, else it is an outage. Attempts are counted for refused texts alone. One text may
  spoil the whole batch, so each is asked alone.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from adkpg.embedding.failures import failures_of
from adkpg.errors import ConfigurationError, ModelError, ModelUnavailable

# The server adds up squares in 32-bit floats, where 1e-30 and 1e30 are still numbers.
_MIN_NORM, _MAX_NORM = 1e-15, 1e15
_TEXTS = frozenset({str, bytes})  # of which float() would read the digits


@runtime_checkable
class Embedder(Protocol):
    """Anything that turns texts into vectors of one length; no base class is needed.

    One embedder may be used by many tasks and by several event loops in turn. Vectors need not be
    of unit length: they are compared by cosine. An embedder may also have the attributes
    ``weight: float``, see `weight_of`, ``window: int``, see `window_of`, and ``languages``, see
    `languages_of`. It may have a method ``def fits(self, text: str) -> bool`` that counts by the
    model's own tokenizer, see `fits`. It may have a method ``async def warm(self) -> None``
    that loads what it needs, such as a local model: the first search waits for that, and for
    nothing else longer than ``ADKPG_SEARCH_TIMEOUT_S``. It may raise anything: texts wait unless it
    answers others. It may also keep silent, since each call has a deadline; but it must not block
    the event loop, where no deadline could end it: give a function that blocks to
    `CallableEmbedder`, which has threads.

    Attributes:
      model: Name stored with each vector; vectors of two models are never compared.
      dimensions: Length d of every vector.
    """

    model: str
    dimensions: int

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns one vector for each text to be stored, ``[n, d]``, in the order of the texts."""
        ...

    async def embed_query(self, text: str) -> list[float]:
        """Returns the vector ``[d]`` of a question, comparable with those of documents."""
        ...


DEFAULT_WEIGHT = 0.2
"""The weight of an embedder that states none: of one that is better than the offline one."""


def weight_of(embedder: Embedder) -> float:
    """Returns how much a deviation of the cosine counts in a search against all of its words.

    That is 1: with 0.2, a memory that is five deviations nearer to the question than the user's
    memories are on average counts as much as one that has all of its words. The better a model, the
    more; docs/retrieval.md has figures. An embedder states its own as the attribute ``weight``;
    without one it is `DEFAULT_WEIGHT`.

    Raises:
      ConfigurationError: The attribute is not a number from 0 to 10.
    """
    weight: Any = getattr(embedder, "weight", DEFAULT_WEIGHT)
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not is_number or not 0 <= weight <= _MOST_WEIGHT:
        raise ConfigurationError(
            f"The weight of embedder {embedder.model!r} is {weight!r}; give a number from 0 to "
            f"{_MOST_WEIGHT:g}."
        )
    return float(weight)


_MOST_WEIGHT = 10.0


def languages_of(embedder: Embedder) -> frozenset[str] | None:
    """Returns the codes of the languages that an embedder knows, as in ISO 639-1; None is any.

    An embedder states them as the attribute ``languages``, if they are few.

    Raises:
      ConfigurationError: The attribute is no collection of texts.
    """
    languages: object = getattr(embedder, "languages", None)
    if languages is None:
        return None
    if (
        isinstance(languages, str)
        or not isinstance(languages, Collection)
        or not all(isinstance(each, str) for each in languages)
    ):
        raise ConfigurationError(
            f"The languages of embedder {embedder.model!r} are {languages!r}; give a list of "
            "codes, such as ['en']."
        )
    return frozenset(languages)


DEFAULT_WINDOW = 256
"""The window of an embedder that states none: half of what the common models read at least.

Code, ids and many languages have up to twice the tokens that are estimated.
"""

_LEAST_WINDOW = 16


def window_of(embedder: Embedder) -> int:
    """Returns how many tokens of a text an embedder reads as one; longer ones go in passages.

    Tokens are estimated (`adkpg.memory.vectors.passages.tokens`): about six letters of English, or
    one of most other scripts. An embedder states its own as the attribute ``window``; without one
    it is `DEFAULT_WINDOW`. What the model reads in its own tokens, `fits` tells.

    Raises:
      ConfigurationError: The attribute is not a whole number of at least 16.
    """
    window: object = getattr(embedder, "window", DEFAULT_WINDOW)
    if not isinstance(window, int) or isinstance(window, bool) or window < _LEAST_WINDOW:
        raise ConfigurationError(
            f"The window of embedder {embedder.model!r} is {window!r}; give a whole number of "
            f"tokens, {_LEAST_WINDOW} or more."
        )
    return window


def fits(embedder: Embedder, text: str) -> bool:
    """Tells whether a model reads a text to its end, as far as its embedder knows.

    An embedder that has the model's tokenizer says so by a method ``fits(text)``, which may block
    for as long as it takes to read a few hundred tokens. It is called after ``warm``. What does not
    fit is embedded in smaller passages. Without the method all fits, until it is refused.

    Raises:
      ModelUnavailable: The method failed.
    """
    own = getattr(embedder, "fits", None)
    if own is None:
        return True
    try:
        return bool(own(well_formed(text)))
    except ModelUnavailable:
        raise
    except Exception as exc:
        raise ModelUnavailable(
            f"Embedder {embedder.model!r} cannot tell whether a text fits "
            f"({type(exc).__name__}); mend its method fits, or remove it."
        ) from exc


async def embed_checked(embedder: Embedder, texts: list[str]) -> list[list[float]]:
    """Embeds documents with any embedder, and let through only vectors that can be stored.

    A lone surrogate, which no encoder accepts, is embedded as ``?``. No texts cost no call.

    Returns:
      Vectors ``[n, d]`` in the order of the texts.

    Raises:
      ModelError: Wrong number or length, or a vector that has no cosine: NaN, infinite,
        all zero, or beyond what 32-bit floats can compare.
      ModelUnavailable: The embedder answers no text now; its own error is the cause.
      ModelError: The embedder failed otherwise; its own error is the cause.
    """
    if not texts:
        return []
    with failures_of(embedder.model):
        vectors = await embedder.embed_documents([well_formed(text) for text in texts])
        return checked_vectors(
            vectors, count=len(texts), model=embedder.model, dimensions=embedder.dimensions
        )


async def embed_query_checked(embedder: Embedder, text: str) -> list[float]:
    """Embeds one question as `embed_checked` embeds documents.

    Returns:
      The vector ``[d]``.

    Raises:
      ModelError: Wrong length, or a vector that has no cosine.
      ModelUnavailable: The embedder answers no text now; its own error is the cause.
      ModelError: The embedder failed otherwise; its own error is the cause.
    """
    with failures_of(embedder.model):
        vector = await embedder.embed_query(well_formed(text))
        [checked] = checked_vectors(
            [vector], count=1, model=embedder.model, dimensions=embedder.dimensions
        )
        return checked


def checked_vectors(
    vectors: Iterable[Sequence[float]], *, count: int, model: str, dimensions: int
) -> list[list[float]]:
    """Returns the vectors as lists ``[count, dimensions]`` of floats, or say what is wrong.

    Raises:
      ModelError: As `embed_checked` says.
    """
    try:
        rows = [_numbers(vector) for vector in vectors]
    except (TypeError, ValueError, OverflowError) as exc:
        raise ModelError(
            f"Embedder {model!r} returned something else than lists of numbers; "
            "return one list of floats for each text."
        ) from exc
    if len(rows) != count:
        raise ModelError(
            f"Embedder {model!r} returned {len(rows)} vectors for {count} texts; "
            "ask for fewer texts at a time or use a model that answers each of them."
        )
    for row in rows:
        if len(row) != dimensions:
            raise ModelError(
                f"Embedder {model!r} returned a vector of {len(row)} numbers where {dimensions} "
                f"were expected; set dimensions={len(row)} or use the model that was meant."
            )
        # One comparison refuses NaN, infinity and zero alike.
        if not _MIN_NORM < math.hypot(*row) < _MAX_NORM:
            raise ModelError(
                f"Embedder {model!r} returned a vector that has no cosine (zero, infinite or NaN); "
                "check the model, since such a vector can be neither stored nor found."
            )
    return rows


def _numbers(vector: Sequence[float]) -> list[float]:
    numbers = list(vector)
    kinds = set(map(type, numbers))
    if type(vector) in _TEXTS or not _TEXTS.isdisjoint(kinds):
        raise TypeError("a text is not a vector")
    return numbers if kinds == {float} else list(map(float, numbers))


def well_formed(text: str, max_bytes: int | None = None) -> str:
    """Returns text that UTF-8 can carry, cut at ``max_bytes`` of it without splitting a character.

    A lone surrogate becomes ``?``. A token of any byte-level vocabulary stands for at least one
    byte, so a text cut at n bytes never exceeds n tokens.
    """
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")
