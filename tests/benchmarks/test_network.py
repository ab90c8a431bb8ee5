"""The network between a benchmark and its server."""

from typing import Any

import asyncpg
import pytest

from benchmarks.network import Network


@pytest.mark.program
async def test_it_hands_on_in_order_and_counts(database_url: str) -> None:
    text = "".join(f"{place:06}" for place in range(50_000))
    for delay_ms in (0, 0.5):
        async with Network(database_url, delay_ms) as network:
            connection: Any = await asyncpg.connect(network.url)
            assert await connection.fetchval("select $1::text", text) == text
            before = await network.traffic()
            for number in range(3):
                assert await connection.fetchval("select $1::text || 'x'", text) == text + "x"
                assert await connection.fetchval("select $1::int", number) == number
            passed = await network.traffic() - before
            await connection.close()
            assert passed.sent > 3 * len(text)
            assert passed.received > 3 * len(text)
            assert passed.round_trips == 8, "each text is prepared once, in a round trip of its own"
