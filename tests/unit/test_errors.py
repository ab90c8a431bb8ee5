"""Errors that ADK has a type for are caught by code that was written for ADK."""

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError

from adkpg import errors


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (errors.SessionExists, AlreadyExistsError),
        (errors.EventConflict, AlreadyExistsError),
        (errors.SessionNotFound, SessionNotFoundError),
        (errors.StaleSession, StaleSessionError),
        (errors.InvalidInput, ValueError),
        (errors.ConfigurationError, ValueError),
    ],
)
def test_code_written_for_adk_catches_ours(ours: type, theirs: type) -> None:
    assert issubclass(ours, theirs)
