"""SearchOptions: how a search answers. It does no I/O."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Literal, TypedDict, Unpack

from adkpg.embedding.default import default_embedder
from adkpg.embedding.embedder import Embedder
from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.memory import records
from adkpg.memory.filters import NO_FILTERS, SearchFilters
from adkpg.timestamps import zone_of

Mode = Literal["hybrid", "vector", "text"]
MAX_TOP_K = 10_000
"""Most memories that a search returns; a listing returns all of them."""

MAX_NEIGHBOURS = 10
"""Most turns on each side of a hit."""

MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")


class SearchOverrides(TypedDict, total=False):
    """Options of a search by name, as constructors and searches take them.

    Those that are left out or None stay as they are; see `SearchOptions`.
    """

    filters: SearchFilters | None
    top_k: int | None
    min_relevance: float | None
    half_life: timedelta | None
    max_tokens: int | None
    passages: bool | None
    neighbours: int | None
    mode: Mode | None
    app_wide: bool | None
    rerank: bool | None
    exclude_invocation_id: str | None
    now: datetime | None
    time_zone: str | tzinfo | None
    gather: bool | None
    inactive_model: bool | None
    similarity_top_k: int | None
    """Vertex's name for `top_k`."""


@dataclass(frozen=True)
class SearchOptions:
    """How a search answers.

    Attributes:
      filters: Conditions that hits must meet.
      top_k: Most hits, 1 to 10,000.
      min_relevance: Lowest `Reason.relevance` of a hit, in [0, 1]; what is of a time that the
        question names is a hit all the same. 0 cuts only what shares no word and has no cosine
        above 0, and -1 nothing.
      half_life: After this time a memory's score counts half; None never fades.
      max_tokens: Most tokens of all hits and their neighbours, estimated at four bytes each; a hit
        that does not fit has its passage alone, and if that does not fit, is left out. None is no
        limit.
      passages: Whether long memories are returned as the passage that matched, about 200 tokens
        instead of all that they say.
      neighbours: How many turns on each side of a hit are returned with it, 0 to 10.
      mode: ``hybrid`` is words and vectors together, ``vector`` and ``text`` one of them alone.
      app_wide: Whether to find what the app knows for all its users.
      rerank: Whether the service's reranker, if it has one, orders the hits.
      exclude_invocation_id: The agent's run whose memories are left out, since it knows them.
      now: When it is asked, with an offset: what "last week" in a question counts from, and where
        its days begin. None is ADK's clock, in `time_zone`.
      time_zone: Where days begin, by its IANA name such as ``Europe/Vienna``, or a tzinfo: of
        "yesterday" in a question if there is no `now`, and of times in filters that have no offset.
      gather: For questions whose answer is spread over many turns, such as lists, counts and orders
        of events. The search returns all memories about the question in order of time, as many of
        the best as fit `max_tokens`, 4,000 if that is None; `top_k` does not count. At most 400
        memories.
      inactive_model: Whether the vectors of the embedder's model are compared also if the app is
        searched with another, as before a change of models, or to compare two. Memories that have
        none of it are found by their words.

    Raises:
      InvalidInput: A value is out of range.
    """

    filters: SearchFilters = NO_FILTERS
    top_k: int = 20
    min_relevance: float = 0.0
    half_life: timedelta | None = None
    max_tokens: int | None = None
    passages: bool = False
    neighbours: int = 0
    mode: Mode = "hybrid"
    app_wide: bool = True
    rerank: bool = True
    exclude_invocation_id: str | None = None
    now: datetime | None = None
    time_zone: str | tzinfo = UTC
    gather: bool = False
    inactive_model: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.filters, SearchFilters):
            raise InvalidInput(f"filters={self.filters!r} are not SearchFilters; make them of it.")
        _require_whole("top_k", self.top_k, 1, MAX_TOP_K)
        _require_whole("neighbours", self.neighbours, 0, MAX_NEIGHBOURS)
        if self.max_tokens is not None:
            _require_whole("max_tokens", self.max_tokens, 1, None)
        if not _is_number(self.min_relevance) or (
            self.min_relevance != -1 and not 0 <= self.min_relevance <= 1
        ):
            raise InvalidInput(
                f"min_relevance={self.min_relevance!r} is not a share; give one from 0 to 1, or -1."
            )
        if self.half_life is not None and not (
            isinstance(self.half_life, timedelta) and self.half_life > timedelta()
        ):
            raise InvalidInput(
                f"half_life={self.half_life!r} is not a time; give a positive timedelta."
            )
        for name, value in (
            ("app_wide", self.app_wide),
            ("passages", self.passages),
            ("rerank", self.rerank),
            ("gather", self.gather),
            ("inactive_model", self.inactive_model),
        ):
            if not isinstance(value, bool):
                raise InvalidInput(f"{name}={value!r} is neither True nor False.")
        if self.now is not None and not (
            isinstance(self.now, datetime) and self.now.utcoffset() is not None
        ):
            raise InvalidInput(f"now={self.now!r} is not a time; give a datetime with an offset.")
        object.__setattr__(self, "time_zone", zone_of(self.time_zone))
        if self.exclude_invocation_id is not None:
            if not isinstance(self.exclude_invocation_id, str):
                raise InvalidInput(
                    f"exclude_invocation_id={self.exclude_invocation_id!r} is not a text."
                )
            stored = records.storable_text(self.exclude_invocation_id)  # as drafts have it
            object.__setattr__(self, "exclude_invocation_id", stored or None)
        if self.mode not in MODES:
            raise InvalidInput(f"mode is 'hybrid', 'vector' or 'text', not {self.mode!r}.")

    def changed(self, **overrides: Unpack[SearchOverrides]) -> "SearchOptions":
        """Returns these options with others in their place; None leaves one as it is.

        Raises:
          InvalidInput: A value is out of range, or given under both of its names.
        """
        given: dict[str, Any] = {k: v for k, v in overrides.items() if v is not None}
        top_k = given.pop("similarity_top_k", None)
        if top_k is not None:
            given["top_k"] = _one("top_k", given.get("top_k"), top_k)
        return replace(self, **given) if given else self


def service_defaults(
    options: SearchOptions, embedder: Embedder | None, choice: str, overrides: SearchOverrides
) -> tuple[SearchOptions, Embedder | None]:
    """Returns the options of a service that is being made, and its embedder; words need none.

    Args:
      options: What is left out in `overrides`.
      embedder: The one that is given; None asks for the default.
      choice: The default one, as ``ADKPG_EMBEDDER`` has it.
      overrides: The options that are given.

    Raises:
      ConfigurationError: An argument cannot work.
    """
    try:
        options = options.changed(**overrides)
    except InvalidInput as exc:
        raise ConfigurationError(str(exc)) from exc
    if embedder is None and options.mode != "text":
        embedder = default_embedder(choice)
    require_embedder(options.mode, embedder)
    return (options if embedder is not None else replace(options, mode="text")), embedder


def require_embedder(mode: str, embedder: object | None) -> None:
    """Raises unless a search of this mode can be answered.

    Raises:
      ConfigurationError: Only vectors are asked for, and there is no embedder.
    """
    if mode == "vector" and embedder is None:
        raise ConfigurationError(
            "mode='vector' needs an embedder; give one, or run pip install 'adkpg[local]'."
        )


def _one(name: str, given: Any, other: Any) -> Any:
    if given is None or given == other:
        return other
    raise InvalidInput(f"{name} was given twice, under Vertex's name too; give one.")


def _require_whole(name: str, value: Any, least: int, most: int | None) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        wanted = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InvalidInput(f"{name}={value!r} is not a whole number {wanted}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
