"""Keys: which ids Postgres can hold."""

from adkpg.errors import InvalidInput


def storable(**ids: str | None) -> bool:
    """Whether Postgres can hold these ids in a text column at all."""
    return all(_storable(value) for value in ids.values() if value is not None)


def require_storable(**ids: str | None) -> None:
    """Refuses ids that no text column holds, before anything is written.

    Raises:
      InvalidInput: An id holds NUL or a lone surrogate; the message names it.
    """
    for name, value in ids.items():
        if value is not None and not _storable(value):
            raise InvalidInput(
                f"{name}={value!r} holds NUL or a lone surrogate, which Postgres cannot store in "
                "a key; use another id."
            )


def _storable(value: str) -> bool:
    if "\x00" in value:
        return False
    if value.isascii():
        return True
    return not any("\ud800" <= character <= "\udfff" for character in value)
