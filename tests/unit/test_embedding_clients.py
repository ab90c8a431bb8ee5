import asyncio
from collections.abc import AsyncGenerator

from adkpg.embedding.clients import LoopClients


class Connector:
    """Makes clients that are just numbers, and keeps those made and closed."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.closed: list[int] = []

    async def connect(self) -> AsyncGenerator[int, None]:
        number = len(self.made)
        self.made.append(number)
        try:
            yield number
        finally:
            await asyncio.sleep(0)
            self.closed.append(number)


def test_tasks_of_a_loop_share_one_client() -> None:
    connector = Connector()
    clients = LoopClients(connector.connect)

    async def ask() -> list[int]:
        return await asyncio.gather(*(clients.get() for _ in range(20)))

    assert asyncio.run(ask()) == [0] * 20
    assert connector.made == [0]


def test_each_loop_has_its_own_client_closed_with_the_loop() -> None:
    connector = Connector()
    clients = LoopClients(connector.connect)
    assert [asyncio.run(clients.get()) for _ in range(3)] == [0, 1, 2]
    assert connector.closed == [0, 1, 2]


async def test_loops_of_several_threads_do_not_share() -> None:
    connector = Connector()
    clients = LoopClients(connector.connect)
    mine = await clients.get()
    others = await asyncio.gather(
        *(asyncio.to_thread(lambda: asyncio.run(clients.get())) for _ in range(4))
    )
    assert len({mine, *others}) == 5
    assert sorted(connector.closed) == sorted(others)
    assert await clients.get() == mine


async def test_close_closes_this_loops_client_only() -> None:
    connector = Connector()
    clients = LoopClients(connector.connect)
    await clients.close()
    assert await clients.get() == 0
    await clients.close()
    assert connector.closed == [0]
    assert await clients.get() == 1
