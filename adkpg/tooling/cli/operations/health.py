"""Health: a worker answers ``/livez`` and ``/readyz`` on a port of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import click

import adkpg


@asynccontextmanager
async def answering(database: adkpg.Database, host: str, port: int) -> AsyncIterator[None]:
    """Answers probes while the context lasts, and prints on standard error where.

    Args:
      database: Which is asked whether it is ready.
      host: Where to listen.
      port: Its port; 0 chooses a free one.

    Raises:
      ClickException: The port is taken, or the host is none of this machine's.
    """
    import uvicorn
    from starlette.applications import Starlette

    from adkpg.adk.probes import Probes

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leaves signals to the worker."""
            yield

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as exc:
        raise click.ClickException(
            f"Nothing can listen at {host} port {port} ({exc.strerror or exc}); give another "
            "--health-port or --health-host."
        ) from exc
    with listening:
        app = Probes(Starlette(), databases=[database])
        config = uvicorn.Config(app, log_level="warning", lifespan="off", access_log=False)
        server = Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"Probes: http://{shown}:{listening.getsockname()[1]}/readyz", err=True)
        try:
            yield
        finally:
            server.should_exit = True
            await serving
