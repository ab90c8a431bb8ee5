"""Refused: what was asked cannot be, and ADK's server says so to its client."""

from starlette.exceptions import HTTPException

from adkpg.errors import InvalidInput


class Refused(InvalidInput, HTTPException):
    """An `InvalidInput` that a route lets through is answered 400, with its sentence.

    FastAPI answers any other error with a bare 500.

    Args:
      message: The sentence.
    """

    def __init__(self, message: str) -> None:
        InvalidInput.__init__(self, message)
        HTTPException.__init__(self, 400, message)

    def __str__(self) -> str:
        return self.detail
