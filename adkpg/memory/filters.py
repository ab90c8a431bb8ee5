"""SearchFilters: which memories a search, a list or a count is about. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from typing import Any, TypedDict

from pydantic_core import PydanticSerializationError, to_jsonable_python

from adkpg import jsontext
from adkpg.errors import InvalidInput
from adkpg.interface.internal import internal
from adkpg.keys import storable
from adkpg.memory import records
from adkpg.timestamps import moment

KINDS = ("turn", "note", "document", "fact", "summary")

_INDEXED = frozenset({"kinds", "session_ids"})

MOST_VALUES = 1_000
"""Most values of a condition, since each memory may be compared with each of them."""


class Conditions(TypedDict):
    """Conditions of `SearchFilters` as queries take them; null asks nothing."""

    after: datetime | None
    before: datetime | None
    authors: list[str] | None
    session_ids: list[str] | None
    metadata: str | None
    kinds: list[str] | None
    topics: list[str] | None


@dataclass(frozen=True)
class SearchFilters:
    """Conditions that a memory must all meet; what is left out asks nothing.

    Attributes:
      after: Said at or after this moment: a datetime, a date, ISO 8601 text, or Unix seconds. What
        has no offset is read in the search's `time_zone`, which is UTC unless it says another.
      before: Said before this moment.
      authors: Said by any of these.
      session_ids: Said in any of these sessions.
      metadata: Contained in its custom metadata, nested values included (jsonb ``@>``).
      kinds: The memory's kind is one of these: turn, note, document, fact, summary.
      topics: It has one of these topics.

    Raises:
      InvalidInput: A moment, kind or metadata cannot be read, or a condition has too many values.
    """

    after: date | str | float | None = None
    before: date | str | float | None = None
    authors: Sequence[str] = ()
    session_ids: Sequence[str] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    kinds: Sequence[str] = ()
    topics: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("authors", "session_ids", "kinds", "topics"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise InvalidInput(f"{name}={value!r} is not a list of texts; write [{value!r}].")
            if not isinstance(value, Collection) or not all(
                isinstance(each, str) for each in value
            ):
                raise InvalidInput(f"{name}={value!r} is not a list of texts.")
            _require_few(name, len(value))
        if unknown := sorted(set(self.kinds) - set(KINDS)):
            raise InvalidInput(f"There is no kind {unknown[0]!r}; kinds are {', '.join(KINDS)}.")
        object.__setattr__(self, "_parameters", self._read())

    @property
    @internal
    def asked(self) -> frozenset[str]:
        """The names of the conditions."""
        return frozenset(self.parameters)

    @property
    @internal
    def parameters(self) -> dict[str, Any]:
        """The conditions' values as statements take them, times without offset in UTC."""
        read: dict[str, Any] = self.__dict__["_parameters"]
        return read

    @property
    @internal
    def shape(self) -> frozenset[str]:
        """The names of the conditions that an index may serve, and ``others`` for all the rest."""
        return frozenset(name if name in _INDEXED else "others" for name in self.parameters)

    def _read(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        for name, value in (("after", self.after), ("before", self.before)):
            if value is not None:
                parameters[name] = _moment(name, value, UTC)
        if self.authors:
            parameters["authors"] = [records.storable_text(author) for author in self.authors]
        if self.session_ids:
            # An id that cannot be stored has no memories, and no other is meant.
            parameters["session_ids"] = [each for each in self.session_ids if storable(id=each)]
        if self.kinds:
            parameters["kinds"] = list(self.kinds)
        if self.topics:
            parameters["topics"] = [jsontext.storable(topic).strip() for topic in self.topics]
        if self.metadata:
            parameters["metadata"] = _json(self.metadata)
            _require_few("metadata", _values(jsontext.read(parameters["metadata"])))
        return parameters


def parameters_of(filters: SearchFilters, zone: tzinfo) -> Conditions:
    """Returns the conditions' values; None asks nothing, and a time without offset is of `zone`."""
    asked = filters.parameters
    after, before = filters.after, filters.before
    return {
        "after": None if after is None else _moment("after", after, zone),
        "before": None if before is None else _moment("before", before, zone),
        "authors": asked.get("authors"),
        "session_ids": asked.get("session_ids"),
        "metadata": asked.get("metadata"),
        "kinds": asked.get("kinds"),
        "topics": asked.get("topics"),
    }


def _values(value: Any) -> int:
    """How many values JSON has, those that hold others included."""
    count, left = 0, [value]
    while left:
        count += 1
        each = left.pop()
        if isinstance(each, (dict, list)):
            left.extend(each.values() if isinstance(each, dict) else each)
    return count


def _require_few(name: str, values: int) -> None:
    if values > MOST_VALUES:
        raise InvalidInput(
            f"The filter {name} has {values:,} values, and each memory may be compared with all of "
            f"them; give {MOST_VALUES:,} at most."
        )


def _moment(name: str, value: Any, zone: tzinfo) -> datetime:
    if isinstance(value, bool) or (isinstance(value, float) and math.isnan(value)):
        raise InvalidInput(f"{name}={value!r} is not a moment; give ISO 8601 or Unix seconds.")
    return moment(name, value, zone)


def _plain(metadata: Any) -> Any:
    return to_jsonable_python(metadata, bytes_mode="base64")


def _json(metadata: Any) -> str:
    """Metadata as `attributes.read` stores it."""
    try:
        return jsontext.write(_plain(jsontext.mended(dict(metadata))), jsontext.MODELS_DEPTH)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as exc:
        raise InvalidInput(
            f"The metadata to look for cannot be written as JSON: {exc}; give simpler values."
        ) from exc


NO_FILTERS = SearchFilters()
