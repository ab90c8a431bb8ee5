"""Keepers: what keeps personal data in this process hears what is erased."""

import weakref
from typing import Protocol


class Keeper(Protocol):
    """Keeps personal data in this process."""

    def erased(self, app_name: str, user_id: str, session_id: str | None) -> None:
        """Drops what it keeps of a person, or of one session."""


class Keepers:
    """The keepers of one `Database`, held weakly."""

    def __init__(self) -> None:
        self._held: weakref.WeakSet[Keeper] = weakref.WeakSet()

    def add(self, keeper: Keeper) -> None:
        """Tells a keeper from now on what is erased."""
        self._held.add(keeper)

    def erased(self, *, app_name: str, user_id: str, session_id: str | None = None) -> None:
        """Tells all keepers that a person's rows were erased, or those of one session."""
        for keeper in list(self._held):
            keeper.erased(app_name, user_id, session_id)
