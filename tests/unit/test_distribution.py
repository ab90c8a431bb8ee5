"""What is read of a cluster's catalogs, and what its nodes answer."""

from types import SimpleNamespace
from typing import Any

import pytest

from adkpg.database.cluster import distribution
from adkpg.database.cluster.node import GROUP, find
from adkpg.errors import DatabaseUnavailable


class Catalogs:
    """Answers as a connection to a node whose tables are kept in some ways."""

    def __init__(self, citus: str | None, kinds: dict[str, str]) -> None:
        self._citus = citus
        self._kinds = kinds

    def scalar(self, statement: object) -> str | int | None:
        return 0 if statement is GROUP else self._citus

    def execute(self, *_: object) -> list[Any]:
        return [
            SimpleNamespace(relname=name, partmethod=kind) for name, kind in self._kinds.items()
        ]


@pytest.mark.parametrize(
    ("citus", "kinds", "on"),
    [
        (None, {}, False),
        ("14.0-1", {}, False),
        ("14.0-1", {"adkpg_version": "n"}, True),
        ("14.0-1", {"app_states": "n", "memories": "h"}, True),
    ],
)
def test_one_table_of_ours_says_that_they_are_distributed(
    citus: str | None, kinds: dict[str, str], on: bool
) -> None:
    connection: Any = Catalogs(citus, kinds)
    cluster = find(connection, "adkpg")
    assert (cluster is not None and cluster.is_distributed) is on


class Answers:
    """Answers to a step as a coordinator does, with what nodes refused."""

    def __init__(self, *refused: str) -> None:
        self._refused = refused
        self.committed = False

    def exec_driver_sql(self, _: str) -> Any:
        first = next(iter(self._refused), None)
        return SimpleNamespace(scalars=lambda: SimpleNamespace(first=lambda: first))

    def commit(self) -> None:
        self.committed = True


ASKING = distribution.Step("set n_distinct", "SELECT", asks=True)


def test_what_a_node_did_not_do_is_not_said_to_be_done() -> None:
    connection: Any = Answers("failed to connect to worker2:5432", "and more")
    with pytest.raises(DatabaseUnavailable) as refused:
        distribution._apply(ASKING, connection)
    assert str(refused.value) == (
        "A node of the cluster did not set n_distinct (failed to connect to worker2:5432); check "
        "that all of its nodes run, then run: adkpg db distribute"
    )
    assert not connection.committed


@pytest.mark.parametrize("step", [ASKING, distribution.Step("copy it", "SELECT")])
def test_what_all_nodes_did_is_committed(step: distribution.Step) -> None:
    connection: Any = Answers()
    distribution._apply(step, connection)
    assert connection.committed
