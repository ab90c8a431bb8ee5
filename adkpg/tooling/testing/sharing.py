"""One server for the processes of a run: lent by the one that started it."""

import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adkpg.tooling.testing.server import Server


class Shared:
    """One server for several processes, started for the first that asks for it.

    The process that makes this object starts the server and stops it, so that neither depends on
    the life of those who use it.

    Attributes:
      address: Where other processes ask; see `borrowed`.
    """

    def __init__(self, start: "Callable[[], Server]") -> None:
        self._start = start
        self._mutex = threading.Lock()
        self._server: Server | None = None
        self._failure: Exception | None = None
        self._listener = Listener(backlog=64)  # a socket in a directory that is this user's alone
        self.address = str(self._listener.address)
        self._answering = threading.Thread(target=self._answer, name="server of the run")
        self._answering.start()

    def get(self) -> "Server":
        """Returns the server; the first call starts it, and what fails once is not tried again."""
        with self._mutex:
            if self._failure is not None:
                raise self._failure
            if self._server is None:
                try:
                    self._server = self._start()
                except Exception as exc:
                    self._failure = exc
                    raise
            return self._server

    def close(self) -> None:
        """Stops the server if one was started; waits for one that is being started."""
        with Client(self.address) as connection:
            connection.send("end")
        self._answering.join()
        self._listener.close()
        if self._server is not None:
            self._server.close()

    def _answer(self) -> None:
        while True:
            with self._listener.accept() as connection, suppress(EOFError, OSError):
                if connection.recv() == "end":
                    return
                self._lend(connection)

    def _lend(self, connection: Connection) -> None:
        try:
            server = self.get()
        except Exception as exc:  # noqa: BLE001 - each worker's tests tell it
            from adkpg.errors import AdkpgError

            said = str(exc) if isinstance(exc, AdkpgError) else f"{type(exc).__name__}: {exc}"
            connection.send((False, said))
        else:
            connection.send((True, (server.kind, server.url, server.run)))


def borrowed(address: str) -> "Server":
    """Returns the server that another process shares; closing it is for that process to do.

    Raises:
      AdkpgError: It did not start; the message says why.
    """
    from adkpg.errors import AdkpgError
    from adkpg.tooling.testing.server import Server

    with Client(address) as connection:
        connection.send("borrow")
        there, answer = connection.recv()
    if not there:
        raise AdkpgError(f"The server of the run did not start: {answer}")
    kind, url, run = answer
    return Server(kind, url, run=run)
