"""What every test keeps to."""

import pytest

from tests.fakes.watch import COLLECTED


def test_each_test_that_needs_the_server_is_marked(pytestconfig: pytest.Config) -> None:
    """The marker selects what runs on other versions of Postgres and through PgBouncer.

    That no test reaches the server without asking for it is seen while each runs, by `Watch`.
    """
    found = pytestconfig.stash[COLLECTED]
    needing = [item for item in found if "adkpg_server" in getattr(item, "fixturenames", ())]
    assert [item.nodeid for item in needing if not item.get_closest_marker("server")] == []
    if len(found) > 5_000:  # the whole suite
        assert len(needing) > 2_800
