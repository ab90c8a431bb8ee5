"""ADK's own server with row-level security, and the middleware that docs/isolation.md gives."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes import adk_commands as commands
from tests.fakes.adk_commands import OwnServer
from tests.fakes.checkout import CHECKOUT
from tests.fakes.roles import Roles

PROGRAM = """
import uvicorn
from google.adk.cli.fast_api import get_fast_api_app
from adkpg.adk import register

{middleware}

register()
app = get_fast_api_app(agents_dir={agents!r}, session_service_uri="adkpg://", web=False)
app.add_middleware(
    Scopes,
    app_name="assistant",
    user_of=lambda scope: dict(scope["headers"])[b"x-user"].decode(),
)
uvicorn.run(app, port=0)
"""
HERS = "/apps/assistant/users/ada/sessions"


def middleware() -> str:
    """The block of the page that defines it."""
    page = (CHECKOUT / "docs" / "isolation.md").read_text(encoding="utf-8")
    (block,) = (each for each in page.split("```python\n") if "class Scopes" in each)
    return block.partition("```")[0]


@pytest.mark.program
async def test_a_request_reaches_what_is_its_users_whatever_it_names(
    roles: Roles, tmp_path: Path
) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    commands.write_agents(agents)
    env = commands.environment(
        ADKPG_DATABASE_URL=roles.url("serve"), ADKPG_ROW_LEVEL_SECURITY="true"
    )
    program = PROGRAM.format(agents=str(agents), middleware=middleware())
    asked: dict[str, Any] = {
        "appName": "assistant",
        "userId": "ada",
        "sessionId": "one",
        "newMessage": {"role": "user", "parts": [{"text": "the secret of ada"}]},
    }
    with OwnServer(program, env=env) as server:
        async with httpx.AsyncClient(base_url=server.client.base_url, timeout=60) as client:
            ada, bob = {"x-user": "ada"}, {"x-user": "bob"}
            made = await client.post(HERS, json={"session_id": "one"}, headers=ada)
            run = await client.post("/run", json=asked, headers=ada)
            own = await client.get(f"{HERS}/one", headers=ada)
            stolen = [
                await client.get(f"{HERS}/one", headers=bob),
                await client.get(HERS, headers=bob),
                await client.post("/run", json=asked, headers=bob),
                await client.delete(f"{HERS}/one", headers=bob),
            ]
            again = await client.get(f"{HERS}/one", headers=ada)
    assert (made.status_code, run.status_code, own.status_code) == (200, 200, 200)
    assert "the secret of ada" in own.text
    assert [answer.status_code for answer in stolen[:3]] == [404, 200, 404]
    assert stolen[1].json() == []
    assert not any("secret" in answer.text for answer in stolen)
    assert again.json() == own.json()
