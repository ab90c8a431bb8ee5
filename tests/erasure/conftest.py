"""A memory service with a toy embedder, a plain connection, and a person of whom much is kept."""

from tests.memory.conftest import connection, embedder, memory

__all__ = ["connection", "embedder", "memory"]
