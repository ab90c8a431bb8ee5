"""A console on this test's own database, and a browser of few words that asks it."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from adkpg import Database, PgVectorMemoryService
from adkpg.console import create_console

_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]+)"')


class Browser:
    """Asks a console, keeps its cookies, and sends its forms with their token.

    Args:
      app: The console.
      base: Under which address.
    """

    def __init__(self, app: ASGIApp, base: str = "http://127.0.0.1:8765") -> None:
        transport = httpx.ASGITransport(app=app)
        self.client = httpx.AsyncClient(transport=transport, base_url=base)

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.client.get(path, params=query)

    async def text(self, path: str, **query: Any) -> str:
        """Returns a page that must be there."""
        answer = await self.get(path, **query)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def token(self, path: str, **query: Any) -> str:
        """Returns the token that the forms of a page carry."""
        found = _TOKEN.search((await self.get(path, **query)).text)
        assert found is not None
        return found[1]

    async def post(self, path: str, **fields: Any) -> httpx.Response:
        return await self.client.post(path, data=fields)


@pytest.fixture
async def browse() -> AsyncIterator[Callable[..., Browser]]:
    """Returns browsers of consoles; they are closed with the test."""
    async with AsyncExitStack() as stack:

        def opened(app: ASGIApp, base: str = "http://127.0.0.1:8765") -> Browser:
            browser = Browser(app, base)
            stack.push_async_callback(browser.client.aclose)
            return browser

        yield opened


@pytest.fixture
def browser(
    database: Database, memory: PgVectorMemoryService, browse: Callable[..., Browser]
) -> Browser:
    """The browser of a console that anybody may use."""
    return browse(create_console(database, memory=memory))
