"""Fields of a file's JSON, read with a sentence for what is wrong."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from adkpg.errors import InvalidInput

EntryT = TypeVar("EntryT", bound=BaseModel)


def read(model: type[EntryT], value: Any, what: str) -> EntryT:
    """Reads a JSON value.

    Args:
      model: Its shape.
      value: The value.
      what: What it is, for the message.

    Raises:
      InvalidInput: It has another shape; the message says where.
    """
    try:
        return model.model_validate(value)
    except ValidationError as exc:
        error = exc.errors(include_url=False)[0]
        place = ".".join(map(str, error["loc"])) or "the whole"
        raise InvalidInput(f"{what} cannot be read ({place}: {error['msg']}); correct it.") from exc


def moment(written: str, formats: Sequence[str], what: str, example: str) -> datetime:
    """Reads a date; one that names no zone is UTC.

    Raises:
      InvalidInput: It has none of the formats, nor ISO 8601's.
    """
    text = re.sub(r"\s+", " ", written.strip())
    for each in formats:
        try:
            return datetime.strptime(text, each).replace(tzinfo=UTC)
        except ValueError:
            continue
    try:
        found = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidInput(
            f"The date {written!r} of {what} cannot be read; write it like {example!r}."
        ) from exc
    return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)


def word(value: object) -> str | None:
    """Returns an answer, which may be a number or a list, as text."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else str(value)
