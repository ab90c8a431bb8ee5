"""Scopes: whose rows the statements of one request may touch under row-level security.

The scope is the context's (a ``ContextVar``), set by the code that knows who is asking: tasks that
are started within take it along, threads do not. No statement's own arguments ever set it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from adkpg.errors import PermissionDenied, ScopeMissing
from adkpg.keys import APP_WIDE, require_storable, scope_user


@dataclass(frozen=True)
class Scope:
    """Whose rows there are.

    Attributes:
      app_name: One app; None is all.
      user_id: One user, or the reserved id of what the app knows; None is all.
    """

    app_name: str | None
    user_id: str | None

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the server is told on entering it."""
        if self.app_name is None or self.user_id is None:
            return ()
        return self.app_name, self.user_id


_EVERY = Scope(None, None)
_CURRENT: ContextVar[Scope | None] = ContextVar("adkpg_scope", default=None)


@contextmanager
def scope(*, app_name: str, user_id: str | None) -> Iterator[None]:
    """Limits what runs inside to one user of one app, by ``ADKPG_ROW_LEVEL_SECURITY``.

    A web application enters it for each request, with the user that it has authenticated. Without
    row-level security it changes nothing.

    Args:
      app_name: The app.
      user_id: The user; None is what the app knows for all its users, which users read.

    Raises:
      InvalidInput: An id cannot be stored.
    """
    require_storable(app_name=app_name)
    with _entered(Scope(app_name, scope_user(user_id))):
        yield


@contextmanager
def narrowed(app_name: str, user_id: str) -> Iterator[None]:
    """Enters one user's scope from that of all, and from no other: for work done user by user.

    Args:
      app_name: The app.
      user_id: The user, or the reserved id of what the app knows.
    """
    if _CURRENT.get() is not _EVERY:
        yield
        return
    with _entered(Scope(app_name, user_id)):
        yield


@contextmanager
def every_scope() -> Iterator[None]:
    """Lets the code inside touch all users' rows; only the roles of a worker or owner may.

    For operators: what names no user, such as listing the sessions of an app, and workers.
    """
    with _entered(_EVERY):
        yield


@contextmanager
def _entered(entered: Scope) -> Iterator[None]:
    before = _CURRENT.get()
    _CURRENT.set(entered)
    try:
        yield
    finally:
        # Not by its token: a generator may end in another context than it began in.
        _CURRENT.set(before)


def require_every() -> None:
    """Refuses what is about all users in the scope of one, where it would do a part of it.

    Raises:
      ScopeMissing: The context's scope is not that of all users.
    """
    if _CURRENT.get() is not _EVERY:
        raise ScopeMissing(
            "This call reads or writes rows of all users, and row-level security is on; name "
            "one, or call it within adkpg.every_scope(), in the role of an owner or worker."
        )


def require_app_wide(app_name: str) -> None:
    """Refuses to write what an app knows for all its users in the scope of one of them.

    Raises:
      PermissionDenied: The scope is a user's, who may only read it.
      ScopeMissing: There is none.
    """
    if current() not in (_EVERY, Scope(app_name, APP_WIDE)):
        raise PermissionDenied(
            "A user's scope reads the memories that an app shares with all its users, but does "
            "not write them; write them within adkpg.scope(app_name=..., user_id=None)."
        )


def current() -> Scope:
    """Returns the context's scope.

    Raises:
      ScopeMissing: There is none.
    """
    found = _CURRENT.get()
    if found is None:
        raise ScopeMissing(
            "Row-level security is on, but no scope was entered for this request; call it within "
            "adkpg.scope(app_name=..., user_id=...), or, in a role for work, adkpg.every_scope()."
        )
    return found
