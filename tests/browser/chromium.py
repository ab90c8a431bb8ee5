"""A console on a socket, and Chromium that looks at it."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from playwright.async_api import Browser, async_playwright
from starlette.types import ASGIApp

from adkpg.tooling.console.guard import Guard
from adkpg.tooling.console.serving import QuietServer

# Kept, since each test sees an environment without adkpg's settings.
PROGRAM = os.environ.get("ADKPG_TEST_CHROMIUM", "chromium")


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """Serves a console on this machine; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=5)
        server = QuietServer(config)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            if isinstance(app, Guard):
                app.closing = True
            server.should_exit = True
            await running


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Starts Chromium, without its sandbox if this is root, who may not have one."""
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=PROGRAM, args=[*options, "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            await browser.close()
