"""Source: where a read gets its rows, be it the primary or a standby."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import asyncpg

from adkpg.sql import ParametersT, Statement

T = TypeVar("T")


class Source(Protocol):
    """What a `Database` does for whoever reads."""

    async def fetch(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
    ) -> list[asyncpg.Record]:
        """Runs one statement and returns its rows."""

    async def fetch_one(
        self,
        statement: Statement[ParametersT],
        parameters: ParametersT,
        *,
        timeout_s: float | None = None,
    ) -> asyncpg.Record | None:
        """Runs one statement and returns its first row, or None."""

    async def transact(self, work: Callable[[Any], Awaitable[T]], *, races: bool = True) -> T:
        """Does work in one transaction, which is given to it."""
