"""Agents that are served by A2A in this process, each with the sdk's own client."""

import asyncio
import json
import shutil
import socket
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from google.adk.cli.fast_api import get_fast_api_app
from starlette.applications import Starlette

import adkpg.a2a
from adkpg.adk import QueuedRuns, SessionService, register
from tests.fakes import gated, gates

AGENTS = ("gated", "other")


def card(name: str) -> dict[str, Any]:
    """An agent.json."""
    return {
        "name": name,
        "description": "Waits.",
        "version": "1",
        "supportedInterfaces": [
            {
                "url": f"http://test/a2a/{name}",
                "protocolBinding": "JSONRPC",
                "protocolVersion": "1.0",
            }
        ],
        "capabilities": {"streaming": True, "pushNotifications": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "w", "name": "waits", "description": "Waits.", "tags": ["wait"]}],
    }


@dataclass
class Served:
    """A server, as another process would be one, and what speaks to it.

    Attributes:
      url: Where it is.
      http: Speaks to it.
      prefix: Where an agent is.
      server: In this process.
      serving: Runs it.
    """

    url: str
    http: httpx.AsyncClient
    prefix: str = "/a2a/{agent}"
    server: uvicorn.Server | None = None
    serving: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Ends it, as a deployment does."""
        assert self.server is not None
        assert self.serving is not None
        self.server.should_exit = True
        await self.serving

    async def client(self, agent: str = "gated", *, streaming: bool = True) -> Client:
        """Returns the sdk's client of an agent."""
        at = self.url + self.prefix.format(agent=agent)
        found = await A2ACardResolver(self.http, at).get_agent_card()
        found.supported_interfaces[0].url = at
        return ClientFactory(ClientConfig(httpx_client=self.http, streaming=streaming)).create(
            found
        )


ByA2a = Callable[..., Awaitable[Served]]


@asynccontextmanager
async def listening(app: Starlette, *, prefix: str = "/a2a/{agent}") -> AsyncIterator[Served]:
    """Serves an app on a free port, in this event loop."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=5))
    with socket.create_server(("127.0.0.1", 0)) as place:
        serving = asyncio.create_task(server.serve([place]))
        while not server.started:
            await asyncio.sleep(0.01)
        url = f"http://127.0.0.1:{place.getsockname()[1]}"
        async with httpx.AsyncClient(timeout=30) as http:
            served = Served(url, http, prefix, server, serving)
            yield served
        await served.stop()


@pytest.fixture
async def by_a2a(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ByA2a]:
    """Serves the gated agent twice, under two names, by ADK's app."""
    for name in AGENTS:
        agent = tmp_path / "agents" / name
        agent.mkdir(parents=True)
        (agent / "__init__.py").write_text("from . import agent\n")
        shutil.copy(Path(gated.__file__), agent / "agent.py")
        (agent / "agent.json").write_text(json.dumps(card(name)))
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    monkeypatch.setenv("ADKPG_INVOCATION_LEASE_S", "3")  # who runs asks every second
    monkeypatch.chdir(tmp_path)
    gates.reset()
    register()
    async with AsyncExitStack() as stack:

        async def served(*, by_lifespan: bool = True, queued: bool = True) -> Served:
            """Begins a server, with or without what adkpg adds to ADK's."""
            with warnings.catch_warnings():  # of what is experimental in ADK
                warnings.simplefilter("ignore")
                app = get_fast_api_app(
                    agents_dir="agents",
                    session_service_uri="adkpg://",
                    task_store_uri="adkpg://",
                    a2a=True,
                    web=False,
                    lifespan=adkpg.a2a.lifespan if by_lifespan else None,
                )
            if queued:
                app.add_middleware(QueuedRuns)
            return await stack.enter_async_context(listening(app))

        yield served
    await SessionService("adkpg://").database.close()
