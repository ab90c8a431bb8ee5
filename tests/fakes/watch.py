"""What a test reaches outside of this process, held to the markers that it has."""

import sys
from collections.abc import Generator
from typing import Any

import pytest

from tests.fakes.pgbouncer import place_of

COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""All tests that a run has found, before it leaves any out."""

_PROGRAM_STARTS = {
    *("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"),
}
_OF_PLATFORM = ["uname", "-p"]
"""What Python's own `platform` runs, once in a process: OpenAI's client asks it."""


class Watch:
    """A plugin of pytest: a test that starts a program, or asks the server, is marked so.

    Python's audit events tell it, whichever library is used. What a started program does in turn
    is not seen, nor what ends after the test.
    """

    def __init__(self) -> None:
        self._server: tuple[str, str] | None = None
        self._needed: set[str] | None = None
        sys.addaudithook(self._hear)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        """Starting the run's server is no program of the test that asks first."""
        if fixturedef.argname != "adkpg_server":
            return (yield)
        needed, self._needed = self._needed, None
        try:
            server = yield
        finally:
            self._needed = needed
        self._server = place_of(server.url)
        return server

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, None, None]:
        self._needed = set()
        yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        try:
            yield
        finally:
            needed, self._needed = self._needed or set(), None
        missing = sorted(name for name in needed if not item.get_closest_marker(name))
        if missing:
            pytest.fail(
                f"This test has no marker {' and '.join(missing)}, and needs it: "
                "see STARTS_PROGRAMS in tests/conftest.py"
            )

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._needed is None:
            return
        if event in _PROGRAM_STARTS and arguments[1:2] != (_OF_PLATFORM,):
            self._needed.add("program")
        elif event == "socket.connect" and self._is_server(arguments[1]):
            self._needed.add("server")

    def _is_server(self, address: object) -> bool:
        if self._server is None:
            return False
        host, port = self._server
        if isinstance(address, str):
            return address.startswith(f"{host}/")
        return isinstance(address, tuple) and [str(part) for part in address[:2]] == [host, port]
