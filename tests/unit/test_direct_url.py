"""Whether ADKPG_DIRECT_URL leads to the database of the database URL, or of its cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from adkpg.database.cluster.node import GROUP
from adkpg.database.migrating import migrations
from adkpg.errors import ConfigurationError, DatabaseUnavailable


@dataclass(frozen=True)
class Node:
    """Answers as an engine of a node: of a server, its database, and what Citus knows there."""

    system: int
    oid: int = 1
    name: str = "agents"
    group: int | None = None
    coordinator: int | str = "connection refused"

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Node"]:
        yield self

    async def execute(self, statement: object) -> Any:
        row: tuple[object, ...] = (self.system, self.oid, self.name, self.group is not None)
        if statement is migrations._COORDINATOR:
            row = (isinstance(self.coordinator, int), str(self.coordinator))
        return SimpleNamespace(one=lambda: row)

    async def scalar(self, statement: object) -> int | None:
        assert statement is GROUP
        return self.group


async def is_same(served: Any, direct: Any) -> bool:
    await migrations.require_same_database(served, direct)
    return True


@pytest.mark.parametrize(
    ("served", "direct"),
    [
        (Node(7), Node(7)),
        (Node(8, group=1), Node(8, group=1)),  # none asks a coordinator, which may be away
        (Node(8, oid=2, group=1, coordinator=7), Node(7, group=0)),
        (Node(8, group=1, coordinator=7), Node(9, group=2, coordinator=7)),
        (Node(7, group=0), Node(9, group=2, coordinator=7)),
    ],
)
async def test_one_server_or_one_cluster_is_accepted(served: Node, direct: Node) -> None:
    assert await is_same(served, direct)


@pytest.mark.parametrize(
    ("served", "direct"),
    [
        (Node(7), Node(8)),
        (Node(7), Node(7, oid=2, name="others")),
        (Node(7), Node(8, group=1, coordinator=7)),
        (Node(7, group=0), Node(17, group=0)),
        (Node(8, group=1, coordinator=7), Node(17, group=0)),
        (Node(8, group=1, coordinator=7), Node(7, name="others", group=0)),
        (Node(7, group=0), Node(7, oid=2, name="others", group=0)),
    ],
)
async def test_another_database_or_cluster_is_refused(served: Node, direct: Node) -> None:
    with pytest.raises(ConfigurationError, match="leads to another database"):
        await is_same(served, direct)


async def test_without_the_coordinator_nobody_knows_whose_a_worker_is() -> None:
    with pytest.raises(DatabaseUnavailable, match="cannot be asked"):
        await is_same(Node(8, group=1), Node(7, group=0))
