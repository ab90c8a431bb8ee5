"""A date is taken as the text of it is."""

from datetime import date, datetime

import pytest

from adkpg.errors import InvalidInput
from adkpg.memory.filters import SearchFilters
from adkpg.timestamps import moment


def test_a_date_is_its_text() -> None:
    assert moment("after", date(2026, 1, 31)) == moment("after", "2026-01-31")
    assert moment("after", date(2026, 1, 31)) == datetime(2026, 1, 31).astimezone()
    SearchFilters(after=date(2026, 1, 31), before=date(2026, 2, 1))


@pytest.mark.parametrize("value", [True, "yesterday", object()])
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="ISO 8601"):
        moment("after", value)  # type: ignore[arg-type] # what a caller may give
