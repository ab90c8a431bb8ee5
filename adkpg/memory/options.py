"""SearchOptions: how a search answers. Pure."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from adkpg.errors import InvalidInput
from adkpg.memory.filters import NO_FILTERS, SearchFilters

Mode = Literal["hybrid", "vector", "text"]
MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")


@dataclass(frozen=True)
class SearchOptions:
    """What a search may be told; see `PgVectorMemoryService.search`.

    Raises:
      InvalidInput: A value is out of range.
    """

    filters: SearchFilters = NO_FILTERS
    top_k: int = 20
    min_score: float | None = None
    half_life: timedelta | None = None
    max_tokens: int | None = None
    neighbours: int = 0
    mode: Mode = "hybrid"
    app_wide: bool = True

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise InvalidInput(f"top_k={self.top_k} is below 1; ask for at least one memory.")
        if self.min_score is not None and not -1 <= self.min_score <= 1:
            raise InvalidInput(f"min_score={self.min_score} is a cosine, from -1 to 1.")
        if self.half_life is not None and self.half_life <= timedelta():
            raise InvalidInput(f"half_life={self.half_life} is no time; give a positive timedelta.")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InvalidInput(
                f"max_tokens={self.max_tokens} is below 1; leave it out for no limit."
            )
        if not 0 <= self.neighbours <= 10:
            raise InvalidInput(f"neighbours={self.neighbours} is not from 0 to 10.")
        if self.mode not in MODES:
            raise InvalidInput(f"mode is 'hybrid', 'vector' or 'text', not {self.mode!r}.")

    def changed(
        self,
        *,
        similarity_top_k: int | None = None,
        vector_distance_threshold: float | None = None,
        **options: Any,
    ) -> "SearchOptions":
        """Returns these options with others in their place; None leaves one as it is.

        Args:
          similarity_top_k: Vertex's name of ``top_k``.
          vector_distance_threshold: Vertex's measure of ``min_score``: 1 - cosine.
          **options: By name.

        Raises:
          InvalidInput: A value is out of range, or given under both of its names.
        """
        if similarity_top_k is not None:
            options["top_k"] = _one("top_k", options.get("top_k"), similarity_top_k)
        if vector_distance_threshold is not None:
            options["min_score"] = _one(
                "min_score", options.get("min_score"), 1 - vector_distance_threshold
            )
        given = {name: value for name, value in options.items() if value is not None}
        return replace(self, **given)


def _one(name: str, given: Any, other: Any) -> Any:
    if given is not None and given != other:
        raise InvalidInput(f"{name} was given twice, under Vertex's name too; give one.")
    return other
