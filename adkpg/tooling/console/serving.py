"""Serving: the console on a socket, until a signal ends it."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from adkpg.tooling.console.guard import Guard

_PATIENCE_S = 1


class QuietServer(uvicorn.Server):
    """A server that leaves signals to others."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to `serve`: uvicorn would raise them once more when it has ended."""
        yield


async def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Answers requests until SIGINT or SIGTERM; those that wait then have a second to end.

    Args:
      app: The console.
      listening: Accepts connections already, so that a reader of its address can connect.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_PATIENCE_S,
    )
    server = QuietServer(config)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if isinstance(app, Guard):
            app.closing = True
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    await server.serve(sockets=[listening])
