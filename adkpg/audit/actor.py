"""Actor: who makes the changes, as the audit says it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CURRENT: ContextVar[str] = ContextVar("adkpg_actor", default="library")


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    """Names who makes the changes inside; tasks that are started there take the name along.

    A web application enters it for each request, with the user that it has authenticated. The
    console and the command line do so. Without it, the audit says ``library``.

    Args:
      actor: Their name; of a longer one the first 200 characters are noted.
    """
    before = _CURRENT.get()
    _CURRENT.set(actor)
    try:
        yield
    finally:
        # Not by its token: a generator may end in another context than it began in.
        _CURRENT.set(before)


def current() -> str:
    """Returns who makes the changes in this context."""
    return _CURRENT.get()
