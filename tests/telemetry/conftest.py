"""What the tests of this folder see of adkpg's spans and metrics."""

from collections.abc import Iterator

import pytest

from tests.fakes.telemetry import Watched, keep_in_memory


@pytest.fixture
def watched() -> Iterator[Watched]:
    """Spans go to memory while the test lasts."""
    keep_in_memory()
    found = Watched()
    found.clear()
    yield found
    found.clear()
