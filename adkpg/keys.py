"""Keys: which ids Postgres can hold, and how long they may be. Pure."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import TypedDict

from adkpg.errors import InvalidInput

APP_WIDE = "\x01app"
"""The user id under which an app's own knowledge is stored; no user may have it."""


class Users(Enum):
    """Whose rows a call is about, if it is not about one user's."""

    ALL = auto()
    """Those of every user, and what an app knows for all of them."""
    APP_WIDE = auto()
    """What an app knows for all its users."""


MAX_BYTES = 512
"""Longest id, as UTF-8."""

MAX_SCOPE_BYTES = 576
"""Longest app name and user id together, where something is remembered.

A B-tree entry holds 2,704 bytes, of which a vector or a word may take 2,056.
"""

MAX_SOURCE_BYTES = 2_000
"""Longest name of a document, which stands in an entry with the app and user alone."""

_MOST = {"source": MAX_SOURCE_BYTES}


class AppKey(TypedDict):
    """One app."""

    app_name: str


class ScopeKey(AppKey):
    """One user of one app."""

    user_id: str


class SessionKey(ScopeKey):
    """One session."""

    session_id: str


def storable(**ids: str | None) -> bool:
    """Whether Postgres can hold these ids in its keys, and none is reserved.

    Raises:
      InvalidInput: An id is not a text.
    """
    _require_texts(ids)
    return all(
        _storable(value) and _size(value) <= _MOST.get(name, MAX_BYTES)
        for name, value in ids.items()
        if value is not None
    )


def require_storable(**ids: str | None) -> None:
    """Refuses ids that no key holds, before anything is written.

    Raises:
      InvalidInput: An id is no text, is too long, holds NUL or a lone surrogate, or is reserved;
        the message names it.
    """
    _require_texts(ids)
    for name, value in ids.items():
        if value is None:
            continue
        if (size := _size(value)) > (most := _MOST.get(name, MAX_BYTES)):
            raise InvalidInput(
                f"{name}={value[:20]!r}... has {size:,} bytes, and a key of Postgres has room for "
                f"{most:,}; use a shorter one."
            )
        if value == APP_WIDE:
            raise InvalidInput(
                f"{name}={value!r} is reserved for an app's own knowledge; use another id."
            )
        if not _storable(value):
            raise InvalidInput(
                f"{name}={value!r} holds NUL or a lone surrogate, which Postgres cannot store in "
                "a key; use another id."
            )


def require_memorable(app_name: str, user_id: str) -> None:
    """Refuses an app and user for whose memories no key has room.

    Raises:
      InvalidInput: Their names are too long together.
    """
    if (size := _size(app_name) + _size(user_id)) > MAX_SCOPE_BYTES:
        raise InvalidInput(
            f"app_name and user_id have {size:,} bytes together, and the keys of memory have room "
            f"for {MAX_SCOPE_BYTES}; use shorter ones."
        )


def _require_texts(ids: Mapping[str, object]) -> None:
    for name, value in ids.items():
        if value is not None and not isinstance(value, str):
            raise InvalidInput(f"{name} is {type(value).__name__}; give a str.")


def _size(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))


def _storable(value: str) -> bool:
    if "\x00" in value or value == APP_WIDE:
        return False
    if value.isascii():
        return True
    return not any("\ud800" <= character <= "\udfff" for character in value)


def asked_user(user_id: str | Users) -> str | None:
    """Returns the stored user id that is asked for; None for all users.

    Raises:
      InvalidInput: The user id cannot be stored, or is neither a text nor of `Users`.
    """
    if isinstance(user_id, Users):
        return None if user_id is Users.ALL else APP_WIDE
    if not isinstance(user_id, str):
        raise InvalidInput(
            f"user_id is {type(user_id).__name__}; give a user's id, adkpg.Users.APP_WIDE or "
            "adkpg.Users.ALL."
        )
    require_storable(user_id=user_id)
    return user_id


def scope_user(user_id: str | None) -> str:
    """Returns the user id that a scope is stored under; None is the app-wide scope.

    Raises:
      InvalidInput: The user id cannot be stored.
    """
    require_storable(user_id=user_id)
    return APP_WIDE if user_id is None else user_id
