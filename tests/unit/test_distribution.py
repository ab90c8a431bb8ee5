"""What is read of a cluster's catalogs."""

from types import SimpleNamespace
from typing import Any

import pytest

from adkpg.database import distribution


class Catalogs:
    """Answers as a connection to a node whose tables are kept in some ways."""

    def __init__(self, citus: str | None, kinds: dict[str, str]) -> None:
        self._citus = citus
        self._kinds = kinds

    def scalar(self, *_: object) -> str | None:
        return self._citus

    def execute(self, *_: object) -> list[Any]:
        return [
            SimpleNamespace(relname=name, partmethod=kind) for name, kind in self._kinds.items()
        ]


@pytest.mark.parametrize(
    ("citus", "kinds", "on"),
    [
        (None, {}, False),
        ("14.0-1", {}, False),
        ("14.0-1", {"another": "h"}, False),
        ("14.0-1", {"alembic_version": "n"}, True),
        ("14.0-1", {"app_states": "n", "memories": "h"}, True),
    ],
)
def test_one_table_of_ours_says_that_they_are_distributed(
    citus: str | None, kinds: dict[str, str], on: bool
) -> None:
    connection: Any = Catalogs(citus, kinds)
    assert distribution._is_on(connection, "adkpg") is on
