"""A browser of few words: asks a console without a network, keeps cookies, sends its forms."""

import re
from typing import Any

import httpx
from starlette.types import ASGIApp

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
