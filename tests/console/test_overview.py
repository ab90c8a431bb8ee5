"""The overview: apps, users and growth."""

import asyncpg
import pytest

from adkpg import DatabaseSessionService, PgVectorMemoryService
from adkpg.testing import said
from tests.fakes.browser import Browser
from tests.fakes.conversation import entry


async def test_an_empty_database_has_a_page(browser: Browser) -> None:
    assert "Nothing is stored yet" in await browser.text("/")


async def test_apps_are_counted_with_plots_and_links(
    browser: Browser, sessions: DatabaseSessionService, memory: PgVectorMemoryService
) -> None:
    for user_id in ("ana", "bob", ""):
        session = await sessions.create_session(app_name="travel", user_id=user_id)
        await sessions.append_event(session, said("by train"))
        await memory.add_session_to_memory(session)
    await memory.add_memory(app_name="other", user_id="cy", memories=[entry("a note", "n")])
    page = await browser.text("/")
    assert page.count("<svg") > 2
    assert "/app?app=travel" in page
    assert "/app?app=other" in page
    assert "<strong>4</strong><span>users</span>" in page
    assert "<strong>4</strong><span>memories</span>" in page
    app = await browser.text("/app", app="travel")
    assert "user=ana" in app
    assert "(empty id)" in app
    found = await browser.text("/app", app="travel", part="bo")
    assert "person?app=travel&amp;user=bob" in found
    users = found.partition("Newest sessions")[0]
    assert "user=ana" not in users


async def test_estimates_are_called_about(
    browser: Browser,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await memory.add_memory(app_name="app", user_id="ana", memories=[entry("a note", "n")])
    await connection.execute(
        "INSERT INTO memories (app_name, user_id, position, memory_id, kind, content, body, length,"
        " digest, timestamp, session_id, author)"
        " SELECT app_name, user_id, n, n::text, kind, content, body, length,"
        " n::text, timestamp, session_id, author"
        " FROM memories, generate_series(1, 1233) n"
    )
    monkeypatch.setattr("adkpg.operations.figures.percent", lambda _: 100.0)
    monkeypatch.setattr("adkpg.operations.figures.few_of", lambda _: 10)
    monkeypatch.setattr("adkpg.models.service.percent", lambda _: 400.0)
    monkeypatch.setattr("adkpg.models.service.few_of", lambda _: 10)
    page = await browser.text("/")
    assert "<strong>about 1,230</strong><span>memories</span>" in page
    assert "<strong>1</strong><span>users</span>" in page
    assert "<code>adkpg stats --exact</code> counts" in page
    assert "1 of about 1,230" in await browser.text("/operations")


async def test_users_come_page_by_page(browser: Browser, sessions: DatabaseSessionService) -> None:
    for number in range(27):
        await sessions.create_session(app_name="a", user_id=f"user-{number:02}")
    first = await browser.text("/app", app="a")
    assert "user-24</bdi></a></th>" in first
    assert "user-26</bdi></a></th>" not in first.partition("Newest sessions")[0]
    assert "More users" in first


async def test_an_app_that_is_unknown_is_empty(browser: Browser) -> None:
    assert "No user yet" in await browser.text("/app", app="nothing")


async def test_a_wrong_address_is_one_sentence(browser: Browser) -> None:
    for path, query in (
        ("/app", {}),
        ("/", {"days": "many"}),
        ("/", {"days": "0"}),
        ("/", {"days": "9" * 30}),
        ("/app", {"app": "a", "users": "nonsense"}),
        ("/session", {"app": "a", "user": "b", "session": "c", "page": "-1"}),
        ("/session", {"app": "a" * 2000, "user": "b", "session": "c"}),
    ):
        answer = await browser.get(path, **query)
        assert answer.status_code in (400, 404), (path, query)
        assert 'role="alert"' in answer.text
        assert "Traceback" not in answer.text
    missing = await browser.get("/nowhere")
    assert missing.status_code == 404
    assert "no such page" in missing.text
