"""The overview: apps, and what they have if that is asked for."""

import html
import re

import pytest

from adkpg import DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.testing import said
from tests.fakes.browser import Browser
from tests.fakes.conversation import entry


async def test_an_empty_database_has_a_page(browser: Browser) -> None:
    assert "Nothing is stored yet" in await browser.text("/")


async def test_apps_are_named_and_counted_if_that_is_asked_for(
    browser: Browser, sessions: DatabaseSessionService, memory: PgVectorMemoryService
) -> None:
    for user_id in ("ana", "bob", ""):
        session = await sessions.create_session(app_name="travel", user_id=user_id)
        await sessions.append_event(session, said("by train"))
        await memory.add_session_to_memory(session)
    await memory.add_memory(app_name="other", user_id="cy", memories=[entry("a note", "n")])
    named, page = await browser.text("/"), await browser.text("/", count=1)
    for each in (named, page):
        assert "/app?app=travel" in each
        assert "/app?app=other" in each
        assert "<strong>2</strong><span>apps</span>" in each
        assert "<strong>0</strong><span>dead letters</span>" in each
    assert "Count now" in named
    assert "<span>users</span>" not in named
    assert "<strong>4</strong><span>users</span>" in page
    assert "<strong>4</strong><span>memories</span>" in page
    app = await browser.text("/app", app="travel")
    assert "user=ana" in app
    assert "(empty id)" in app
    found = await browser.text("/app", app="travel", part="bo")
    assert "person?app=travel&amp;user=bob" in found
    users = found.partition("Newest sessions")[0]
    assert "user=ana" not in users


async def test_apps_and_people_of_all_apps_are_found_by_a_part(
    browser: Browser,
    sessions: DatabaseSessionService,
    memory: PgVectorMemoryService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for app_name in ("travel", "tutor"):
        for user_id in ("hanna", "bob", "ana"):
            await sessions.create_session(app_name=app_name, user_id=user_id)
    await memory.add_memory(app_name="trAVel 2", user_id=None, memories=[entry("for all", "n")])

    async def found(page: str) -> tuple[list[str], list[str]]:
        people, _, apps = page.partition("<h2>Apps</h2>")
        rows = re.findall(r"person\?app=(\w+)&amp;user=(\w+)", people)
        return [" ".join(row) for row in rows], re.findall(r"<bdi>([^<]+)</bdi>", apps)

    people = [f"{app} {user}" for app in ("travel", "tutor") for user in ("ana", "hanna")]
    assert await found(await browser.text("/", find="an")) == (people, [])
    for count in ({}, {"count": 1}):
        nobody, apps = await found(await browser.text("/", find="av", **count))
        assert (nobody, sorted(apps)) == ([], ["trAVel 2", "travel"])
    nothing = await browser.text("/", find="x")
    assert "No user has “x” in the id" in nothing
    assert "No app has “x” in the name" in nothing
    monkeypatch.setattr("adkpg.tooling.console.overview._USERS", 1)
    monkeypatch.setattr("adkpg.tooling.operations.people._WALKED", 2)
    seen: list[str] = []
    further: str | None = "/?find=an"
    while further is not None:
        page = (await browser.client.get(further)).text
        seen += (await found(page))[0]
        link = re.search(r'rel="next" href="([^"]+)">Look further', page)
        further = None if link is None else html.unescape(link[1])
    assert seen == people


async def test_an_app_shows_how_its_sessions_began_and_leads_to_what_it_knows(
    browser: Browser, sessions: DatabaseSessionService
) -> None:
    for text in ("by train\nor not at all", "<b>" + "long " * 50):
        session = await sessions.create_session(app_name="travel", user_id="ana")
        await sessions.append_event(session, said(text))
        await sessions.append_event(session, said("and then"))
    await sessions.create_session(app_name="travel", user_id="bob")
    page = await browser.text("/app", app="travel")
    words = re.findall(r'data-label="First words">([^<]*)</td>', page)
    assert words == ["(no text)", f"&lt;b&gt;{'long ' * 50}"[:125] + "…", "by train\nor not at all"]
    assert page.index("What the app knows for all its users") < page.index("<h2>Users</h2>")


async def test_an_app_without_a_name_is_named(
    browser: Browser, sessions: DatabaseSessionService
) -> None:
    for app_name in ("", "travel"):
        await sessions.create_session(app_name=app_name, user_id="ana")
    page = await browser.text("/")
    assert "(empty name)" in page
    assert "<strong>2</strong><span>apps</span>" in page


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
