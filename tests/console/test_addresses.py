"""Addresses: whatever ids hold, under a prefix, and with two consoles in one application."""

import html
import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.console import create_console
from tests.fakes.conversation import entry, said

APP = "a/../b"
IDS = ("a/b", "a%2Fb", "..", "../../etc", "x?y=1&z", "#h", "%2F", "\U0001f600 \u202eabc", "سلام")
TOKEN = "a-token-of-some-length"
_LINKS = re.compile(r'href="(/two/[^"]+)"')


@pytest.fixture
async def stored(sessions: DatabaseSessionService, memory: PgVectorMemoryService) -> None:
    for user_id in IDS:
        scope: dict[str, Any] = {"app_name": APP, "user_id": user_id}
        session = await sessions.create_session(**scope, session_id=f"s/{user_id}")
        await sessions.append_event(session, said(f"<turn of {user_id}>"))
        await memory.add_memory(**scope, memories=[entry(f"<of {user_id}>", f"m/{user_id}")])


def links(page: str, name: str) -> list[str]:
    """The addresses of a page's links to pages of a name, each once."""
    found = dict.fromkeys(map(html.unescape, _LINKS.findall(page)))
    return [each for each in found if each.startswith(f"/two/{name}?")]


@pytest.mark.usefixtures("stored")
async def test_each_id_leads_to_its_own_persons_pages_alone(
    database: Database, memory: PgVectorMemoryService
) -> None:
    application = FastAPI()
    application.mount("/two", create_console(database, memory=memory))
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:

        async def text(address: str) -> str:
            answer = await client.get(address)
            assert answer.status_code == 200, address
            return answer.text

        app = await text(links(await text("/two/"), "app")[0])
        seen = set()
        for address in links(app, "person"):
            person = await text(address)
            for memory_page in links(person, "memory"):
                shown = html.unescape(await text(memory_page))
                (whose,) = [user_id for user_id in IDS if f"<of {user_id}>" in shown]
                assert f"m/{whose}" in shown
                seen.add(whose)
            for name in ("forget", "lab", "export"):
                for further in links(person, name):
                    await text(further)
        assert seen == set(IDS)
        told = {
            user_id
            for address in links(app, "session")
            for user_id in IDS
            if f"<turn of {user_id}>" in html.unescape(await text(address))
        }
        assert told == set(IDS)
        foreign = {"app": APP, "user": "..", "memory": "m/a/b"}
        assert (await client.get("/two/memory", params=foreign)).status_code == 400


@pytest.mark.usefixtures("stored")
async def test_two_consoles_of_one_application_keep_apart(
    database: Database, memory: PgVectorMemoryService
) -> None:
    application = FastAPI()
    application.mount("/tools/console", create_console(database, memory=memory, token=TOKEN))
    application.mount("/two", create_console(database, memory=memory))
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        asked = await client.get("/tools/console/")
        assert asked.headers["location"] == "/tools/console/login"
        shown = await client.get("/tools/console/", params={"token": TOKEN})
        assert shown.headers["location"] == "/tools/console/"
        assert (await client.get("/two/")).status_code == 200
        place = {"app": APP, "user": "a/b", "memory": "m/a/b"}
        page = await client.get("/tools/console/memory", params=place)
        assert page.status_code == 200, "the other one's cookie replaced no cookie of this one"
        token = re.search(r'name="form_token" value="([0-9a-f]+)"', page.text)
        assert token is not None
        form = {**place, "form_token": token[1]}
        assert (await client.post("/two/memory/delete", data=form)).status_code == 403
        assert (await client.post("/tools/console/memory/delete", data=form)).status_code == 200
        assert (await client.get("/two/memory", params=place)).status_code == 400
