"""Attributes: what a caller says of a memory in ADK's ``custom_metadata``. Pure.

ADK's interfaces have no other place for it: ``ttl`` or ``expires_at`` (Vertex's ``expire_time``),
``importance`` and ``topics``.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from adkpg import jsontext
from adkpg.errors import InvalidInput
from adkpg.memory.records import Memory
from adkpg.timestamps import clamped, moment

_SECONDS = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)s?")
ENDS = frozenset({"ttl", "expires_at", "expire_time"})
"""The keys of metadata that say when a memory ends."""

_LEAST = 1e-37
"""Smallest number above 0 that a column of type real holds."""

# Beyond it no two clocks differ that matter, and the server's calendar might end.
_LONGEST_TTL_S = 1e9


@dataclass(frozen=True)
class Attributes:
    """What is stored alongside a memory's content.

    Attributes:
      custom_metadata: JSON text of an object, or None.
      topics: JSON text of an array of texts.
      importance: From 0 to 1.
      expires_at: From when on it is not recalled, by this machine's clock; None is never.
      ttl_s: How long it is recalled from when it is written, by the server's clock, which says
        when it ends too; None goes by `expires_at`.
    """

    custom_metadata: str | None = None
    topics: str = "[]"
    importance: float = 0.5
    expires_at: datetime | None = None
    ttl_s: float | None = None


def read(
    custom_metadata: Mapping[str, object] | None, now: float, known: Memory | None = None
) -> Attributes:
    """Sorts metadata into attributes and the rest.

    The keys ``ttl``, ``expires_at`` and ``expire_time`` are taken out. A ``ttl`` counts from now
    on: seconds, ``"3600s"`` as Vertex writes it, or a timedelta. The other two are moments.
    ``importance`` (a number) and ``topics`` (a list of texts) stay in the metadata too, and are
    nothing special if they have another type.

    Args:
      custom_metadata: As ADK hands it over.
      now: Unix time, in seconds.
      known: What holds where the metadata says nothing.

    Raises:
      InvalidInput: A time cannot be read, an importance is not in [0, 1], or the rest is not JSON.
    """
    rest = dict(custom_metadata or {})
    until = None if known is None else end("expires_at", known.expires_at)
    for key in ("expires_at", "expire_time"):
        until = end(key, rest.pop(key, None)) or until
    ttl = rest.pop("ttl", None)
    ttl_s = None if ttl is None else lifetime_s(ttl)
    return Attributes(
        custom_metadata=_object(rest),
        topics=_topics(rest.get("topics"), known.topics if known else []),
        importance=_importance(rest.get("importance"), known.importance if known else 0.5),
        expires_at=until if ttl_s is None else clamped(now + ttl_s),
        ttl_s=ttl_s if ttl_s is not None and ttl_s < _LONGEST_TTL_S else None,
    )


def end(name: str, value: Any) -> datetime | None:
    """Reads when a memory ends; None is never.

    Raises:
      InvalidInput: It is no datetime, ISO 8601 text, or number of Unix seconds.
    """
    if value is None:
        return None
    if isinstance(value, float) and math.isnan(value):
        raise InvalidInput(f"{name}=nan is not a moment; write ISO 8601, or Unix seconds.")
    return moment(name, value)


def lifetime_s(ttl: object) -> float:
    """Returns a time to live in seconds.

    Raises:
      InvalidInput: It is no positive number of seconds, ``"3600s"`` or timedelta.
    """
    seconds = -1.0
    if isinstance(ttl, timedelta):
        seconds = ttl.total_seconds()
    elif isinstance(ttl, (int, float)) and not isinstance(ttl, bool):
        seconds = float(max(min(ttl, 1e300), -1.0))
    elif isinstance(ttl, str) and (written := _SECONDS.fullmatch(ttl.strip())):
        seconds = float(written[1])
    if not seconds > 0:
        raise InvalidInput(
            f"ttl={ttl!r} is not a time to live; give seconds (3600, '3600s') or a timedelta."
        )
    return seconds


def _importance(value: object, default: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    return weight("importance", value)


def require_topics(topics: object) -> None:
    """Refuses topics of other types, which metadata may have.

    Raises:
      InvalidInput: They are no list of texts.
    """
    if isinstance(topics, str):
        raise InvalidInput(f"topics={topics!r} is not a list of texts; write [{topics!r}].")
    if not isinstance(topics, Sequence) or not all(isinstance(topic, str) for topic in topics):
        raise InvalidInput(f"topics={topics!r} is not a list of texts.")


def weight(name: str, value: float) -> float:
    """Returns an importance as a column of type real can hold it.

    Args:
      name: What the message calls it.
      value: From 0 to 1.

    Raises:
      InvalidInput: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{name}={value!r} is not a number; give one from 0 to 1.")
    if not 0 <= value <= 1:
        raise InvalidInput(f"{name}={value} is not in [0, 1]; scale it.")
    return float(value) if value >= _LEAST else 0.0


def _topics(value: object, default: Sequence[str]) -> str:
    if isinstance(value, str) or not isinstance(value, Sequence):
        value = default
    if not all(isinstance(topic, str) for topic in value):
        value = default
    return jsontext.write(sorted({jsontext.storable(topic).strip() for topic in value} - {""}))


def _object(metadata: Mapping[str, object]) -> str | None:
    if not metadata:
        return None
    try:
        plain = _plain(jsontext.mended(dict(metadata)))
        # It leaves NaN a float, which is no JSON: as null.
        return jsontext.write(jsontext.mapped(plain, _finite), jsontext.MODELS_DEPTH)
    except (PydanticSerializationError, ValueError, RecursionError) as exc:
        raise InvalidInput(
            f"custom_metadata cannot be written as JSON: {exc}; give simpler values."
        ) from exc


def _plain(metadata: object) -> Any:
    return to_jsonable_python(
        metadata, serialize_unknown=True, bytes_mode="base64", inf_nan_mode="null"
    )


def _finite(leaf: object) -> object:
    return None if isinstance(leaf, float) and not math.isfinite(leaf) else leaf
