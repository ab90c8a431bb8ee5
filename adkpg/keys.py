"""Keys: which ids Postgres can hold."""

from adkpg.errors import InvalidInput

APP_WIDE = "\x01app"
"""The user id under which an app's own knowledge is stored; no user may have it."""


def storable(**ids: str | None) -> bool:
    """Whether Postgres can hold these ids in a text column, and none is reserved."""
    return all(_storable(value) for value in ids.values() if value is not None)


def require_storable(**ids: str | None) -> None:
    """Refuses ids that no text column holds, before anything is written.

    Raises:
      InvalidInput: An id holds NUL or a lone surrogate, or is reserved; the message names it.
    """
    for name, value in ids.items():
        if value == APP_WIDE:
            raise InvalidInput(
                f"{name}={value!r} is reserved for an app's own knowledge; use another id."
            )
        if value is not None and not _storable(value):
            raise InvalidInput(
                f"{name}={value!r} holds NUL or a lone surrogate, which Postgres cannot store in "
                "a key; use another id."
            )


def _storable(value: str) -> bool:
    if "\x00" in value or value == APP_WIDE:
        return False
    if value.isascii():
        return True
    return not any("\ud800" <= character <= "\udfff" for character in value)


def scope_user(user_id: str | None) -> str:
    """Returns the user id that a scope is stored under; None is the app-wide scope.

    Raises:
      InvalidInput: The user id cannot be stored.
    """
    require_storable(user_id=user_id)
    return APP_WIDE if user_id is None else user_id
