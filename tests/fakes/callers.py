"""Callers of A2A, as a server knows them."""

from a2a.auth.user import User


class Named(User):
    """A user whom the server has authenticated, or who only says a name."""

    def __init__(self, name: str, *, authenticated: bool = True) -> None:
        self._name, self._authenticated = name, authenticated

    @property
    def is_authenticated(self) -> bool:
        return self._authenticated

    @property
    def user_name(self) -> str:
        return self._name
