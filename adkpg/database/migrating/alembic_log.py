"""Keeps Alembic's notes on itself out of the log while adkpg uses it; its warnings pass.

Alembic says at INFO that it sets up its plugins, at import, and which dialect it talks to, at each
migration. An application's own use of Alembic logs as ever.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module

_ours = ContextVar("adkpg_uses_alembic", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Leaves out what Alembic says below WARNING in this context."""
    token = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(token)


def _passes(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or not _ours.get()


for _name in ("ddl.impl", "ddl.postgresql", "runtime.migration", "runtime.plugins"):
    logging.getLogger(f"alembic.{_name}").addFilter(_passes)
with quiet():
    import_module("alembic.command")
