"""Rows of ADK's old schema: a column of SQLite holds any type, whatever its table says."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkpg.tooling.transfer.records import EventRecord, Unread
from adkpg.tooling.transfer.sources.adk_database import _state
from adkpg.tooling.transfer.sources.clock import Clock
from adkpg.tooling.transfer.sources.events import FIELDS, read_legacy

_columns = ("invocation_id", "timestamp", *FIELDS)
_values = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9)
    | st.sampled_from(["[", "{}", "[1]", "1", "null", '"x"'])
)


def _row(**columns: Any) -> Any:
    fields: dict[str, Any] = {
        "app_name": "a",
        "user_id": "u",
        "session_id": "s",
        "id": "e",
        "invocation_id": "i",
        "timestamp": "2025-01-01 00:00:00",
        "author": "user",
        **columns,
    }
    return SimpleNamespace(**fields, _mapping=fields)


@pytest.mark.parametrize("column", _columns)
@given(value=_values)
def test_any_value_of_a_column_is_read_or_listed(column: str, value: Any) -> None:
    found, missed = read_legacy(_row(**{column: value}), Clock(None))
    assert isinstance(found, EventRecord | Unread)
    assert missed is None or not missed.lost


@pytest.mark.parametrize("actions", [10**12, -1, 1.5])
def test_a_number_is_no_actions(actions: float) -> None:
    found, missed = read_legacy(_row(actions=actions), Clock(None))
    assert isinstance(found, EventRecord)
    assert missed is not None
    assert "neither a pickle nor JSON, but" in missed.reason


@given(_values)
def test_any_value_of_a_state_is_read_or_listed(value: Any) -> None:
    state, _ = _state(value, "a", "u", "s")
    assert isinstance(state, dict)
