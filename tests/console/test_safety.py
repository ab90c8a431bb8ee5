"""Nothing that people wrote runs; nobody gets in who may not; nothing changes by an address."""

import logging
import re
from collections.abc import Callable
from typing import Any

import asyncpg
import httpx
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.errors import ConfigurationError
from adkpg.tooling.console import create_console
from adkpg.tooling.console.application import _ACTIONS, _PAGES
from adkpg.tooling.console.guard import Guard
from tests.browser.chromium import served
from tests.fakes import hostile
from tests.fakes.browser import Browser
from tests.fakes.conversation import entry
from tests.fakes.proxy import Proxy

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize(("path", "query"), hostile.PAGES, ids=lambda each: str(each)[:20])
async def test_no_page_runs_what_people_wrote(
    browser: Browser,
    database: Database,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    path: str,
    query: dict[str, Any],
) -> None:
    await hostile.store(database, memory, connection)
    answer = await browser.get(path, **query)
    assert answer.status_code in (200, 400, 404)
    assert hostile.running(answer.text) == []
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


async def test_files_have_the_policy_too(browser: Browser) -> None:
    for name in ("console.css", "console.js", "icon.svg"):
        answer = await browser.get(f"/static/{name}")
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    for path in ("/static/../page.py", "/static/%2e%2e/page.py", "/static//etc/passwd"):
        assert (await browser.get(path)).status_code == 404


async def test_a_token_is_asked_for_once(
    database: Database, memory: PgVectorMemoryService, browse: Callable[..., Browser]
) -> None:
    browser = browse(create_console(database, memory=memory, token=TOKEN))
    away = await browser.get("/app", app="a")
    assert away.status_code == 303
    assert away.headers["location"] == "/login"
    assert (await browser.get("/", token="wrong")).status_code == 403
    assert (await browser.get("/static/console.css")).status_code == 200
    shown = await browser.get("/", token=TOKEN)
    assert shown.status_code == 303
    assert TOKEN not in shown.headers["location"]
    assert "HttpOnly" in shown.headers["set-cookie"]
    assert (await browser.get("/")).status_code == 200


async def test_an_invitation_lets_in_one_browser_once_and_not_for_ever(
    database: Database, memory: PgVectorMemoryService, browse: Callable[..., Browser]
) -> None:
    console = create_console(database, memory=memory, token=TOKEN)
    assert isinstance(console, Guard)
    shown: list[str] = []
    once = console.invite(used=lambda: shown.append("used"))
    assert (await browse(console).client.head("/", params={"token": once})).status_code == 403
    assert shown == []
    first = browse(console)
    answer = await first.get("/app", app="a", token=once)
    assert (answer.status_code, answer.headers["location"]) == (303, "/app")
    assert "HttpOnly; SameSite=Strict" in answer.headers["set-cookie"]
    assert (await first.get("/")).status_code == 200
    assert (await browse(console).get("/", token=once)).status_code == 403
    assert shown == ["used"]
    late = browse(console)
    assert (await late.get("/", token=console.invite(lasts_s=0))).status_code == 403
    assert (await late.get("/")).status_code == 303


async def test_a_step_from_another_site_reads_nothing_and_logs_nobody_out(
    database: Database, memory: PgVectorMemoryService, browse: Callable[..., Browser]
) -> None:
    """A browser sends a strict cookie with the console's own steps alone."""
    console = create_console(database, memory=memory, token=TOKEN)
    assert isinstance(console, Guard)
    browser = browse(console)
    for site in ("cross-site", "same-site"):
        foreign = {"Sec-Fetch-Site": site}
        for path in _PAGES:
            query = {"app": '"><script>', "token2": "//evil.example"}
            answer = await browser.client.get(path, params=query, headers=foreign)
            assert answer.status_code == 200
            assert re.fullmatch(
                r'<meta http-equiv="refresh" content="0;url=\?[^"<>]*">', answer.text
            )
            assert "set-cookie" not in answer.headers
        answer = await browser.client.get("//evil.example/x", headers=foreign)
        assert answer.text == '<meta http-equiv="refresh" content="0;url=?">'
        refused = await browser.client.post("/forget/now", headers=foreign)
        assert refused.status_code == 403
        assert "set-cookie" not in refused.headers
        shown = await browser.client.get("/", params={"token": console.invite()}, headers=foreign)
        assert "SameSite=Strict" in shown.headers["set-cookie"], "from the file that is opened"
        browser.client.cookies.clear()


async def test_the_login_takes_token_and_name(
    database: Database, memory: PgVectorMemoryService, browse: Callable[..., Browser]
) -> None:
    browser = browse(create_console(database, memory=memory, token=TOKEN))
    form = await browser.token("/login")
    wrong = await browser.post("/login", form_token=form, token="x", name="Ana")
    assert wrong.status_code == 403
    assert (await browser.get("/")).status_code == 303
    right = await browser.post("/login", form_token=form, token=TOKEN, name="Ana é")
    assert right.status_code == 303
    assert (await browser.get("/")).status_code == 200


async def test_a_cookie_that_was_changed_or_is_of_another_token_admits_nobody(
    database: Database, memory: PgVectorMemoryService, browse: Callable[..., Browser]
) -> None:
    first = browse(create_console(database, memory=memory, token=TOKEN, secret="s"))
    await first.get("/", token=TOKEN)
    ((name, value),) = first.client.cookies.items()
    second = browse(create_console(database, memory=memory, token=TOKEN, secret="s"))
    second.client.cookies.set(name, value)
    assert (await second.get("/")).status_code == 200, "the same secret, in another process"
    for console, cookie in (
        (create_console(database, memory=memory, token=TOKEN + "2", secret="s"), value),
        (create_console(database, memory=memory, token=TOKEN, secret="t"), value),
        (create_console(database, memory=memory, token=TOKEN, secret="s"), value[:-1] + "x"),
        (create_console(database, memory=memory, token=TOKEN, secret="s"), "..."),
        (create_console(database, memory=memory, token=TOKEN, secret="s"), '"\\'),
    ):
        third = browse(console)
        third.client.cookies.set(name, cookie)
        assert (await third.get("/")).status_code == 303


async def test_cookies_of_others_on_the_same_host_keep_nobody_out(
    database: Database, memory: PgVectorMemoryService, browse: Callable[..., Browser]
) -> None:
    """Cookies know no ports: what any other server of this machine has set comes along."""
    browser = browse(create_console(database, memory=memory, token=TOKEN))
    await browser.get("/", token=TOKEN)
    ((name, value),) = browser.client.cookies.items()
    for others in ('prefs={"theme":"dark"}', "[x]=1", "a b=1", 'q="', "=;;", "\xe9=\xff"):
        for sent in (f"{others}; {name}={value}", f"{name}={value}; {others}"):
            browser.client.cookies.clear()
            answer = await browser.client.get("/", headers=[(b"cookie", sent.encode("latin-1"))])
            assert answer.status_code == 200, sent
            assert "set-cookie" not in answer.headers


def test_a_short_token_is_refused(database: Database, memory: PgVectorMemoryService) -> None:
    with pytest.raises(ConfigurationError, match="at least 16"):
        create_console(database, memory=memory, token="short")


async def test_another_name_than_the_allowed_ones_is_refused(
    database: Database, memory: PgVectorMemoryService, browse: Callable[..., Browser]
) -> None:
    console = create_console(database, memory=memory, allowed_hosts=["127.0.0.1", "::1"])
    assert (await browse(console).get("/")).status_code == 200
    assert (await browse(console, "http://[::1]:8765").get("/")).status_code == 200
    assert (await browse(console, "http://evil.example:8765").get("/")).status_code == 421
    for odd in ("[::1", "", "a b", "127.0.0.1@evil", "::1", "[]", "]["):
        answer = await browse(console).client.get("/", headers={"Host": odd})
        assert answer.status_code == 421, odd


async def test_forms_without_their_token_or_from_elsewhere_change_nothing(
    browser: Browser,
) -> None:
    form = await browser.token("/login")
    assert (await browser.post("/login", name="x")).status_code == 403
    assert (await browser.post("/login", form_token="0" * 64)).status_code == 403
    answer = await browser.client.post(
        "/login", data={"form_token": form}, headers={"Origin": "http://evil.example"}
    )
    assert answer.status_code == 403
    answer = await browser.client.post(
        "/login", data={"form_token": form}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert answer.status_code == 403
    answer = await browser.client.post(
        "/login", data={"form_token": form}, headers={"Origin": "http://[::1"}
    )
    assert answer.status_code == 403
    behind_a_proxy = {"Origin": "https://public.example", "Sec-Fetch-Site": "same-origin"}
    answer = await browser.client.post("/login", data={"form_token": form}, headers=behind_a_proxy)
    assert answer.status_code not in (403, 303)
    assert (await browser.client.put("/login")).status_code == 405
    assert (await browser.client.delete("/login")).status_code == 405
    assert (await browser.post("/login", form_token=form, more="x" * 1_100_000)).status_code == 413
    assert (await browser.client.post("/login", content=b"\xff=1")).status_code == 400


async def test_no_address_alone_changes_anything(browser: Browser) -> None:
    for path in _ACTIONS:
        assert (await browser.get(path)).status_code in (404, 405), path


async def test_a_database_that_goes_away_is_said_and_comes_back(
    proxy: Proxy, impatient: None, browse: Callable[..., Browser]
) -> None:
    async with Database(proxy.url) as database:
        memory = PgVectorMemoryService(database, mode="text")
        await DatabaseSessionService(database).create_session(app_name="a", user_id="u")
        browser = browse(create_console(database, memory=memory))
        assert "/app?app=a" in await browser.text("/")
        await proxy.leave()
        gone = await browser.get("/")
        assert gone.status_code == 503
        assert 'http-equiv="refresh"' in gone.text
        assert "Traceback" not in gone.text
        await proxy.come_back()
        assert "/app?app=a" in await browser.text("/")


async def test_every_page_and_action_says_that_the_database_is_away_and_comes_back(
    proxy: Proxy, impatient: None, browse: Callable[..., Browser]
) -> None:
    asked = {"app": "a", "user": "u", "session": "s", "memory": "m", "q": "tea"}
    sent = {**asked, "work": "embed", "question": "x", "again": "u"}
    async with Database(proxy.url) as database:
        memory = PgVectorMemoryService(database, mode="text")
        sessions = DatabaseSessionService(database)
        await sessions.create_session(app_name="a", user_id="u", session_id="s")
        await memory.add_memory(app_name="a", user_id="u", memories=[entry("tea", "m")])
        browser = browse(create_console(database, memory=memory))
        token = await browser.token("/login")
        pages = [path for path in _PAGES if path not in ("/session/live", "/session/preload")]
        for path in pages:
            assert (await browser.get(path, **asked)).status_code == 200, path
        await proxy.leave()
        for path in _PAGES:
            gone = await browser.get(path, **asked)
            assert gone.status_code == 503, path
            assert "The database does not answer as it should" in gone.text
            assert 'http-equiv="refresh"' in gone.text
        for path in _ACTIONS:
            gone = await browser.post(path, **sent, form_token=token)
            assert gone.status_code == 503, path
            assert 'http-equiv="refresh"' not in gone.text, (
                "nothing is sent a second time by itself"
            )
        script = await browser.client.get(
            "/session/live", params={**asked, "known": 1}, headers={"X-Console": "1"}
        )
        assert (script.status_code, len(script.text.splitlines())) == (503, 1)
        await proxy.come_back()
        for path in pages:
            assert (await browser.get(path, **asked)).status_code == 200, path


@pytest.mark.prepared
async def test_a_download_that_the_database_leaves_breaks_off_and_is_one_sentence(
    proxy: Proxy, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    ana: dict[str, Any] = {"app_name": "a", "user_id": "ana"}
    async with Database(proxy.url) as database:
        sessions = DatabaseSessionService(database)
        await sessions.create_session(**ana, session_id="s", state={"user:name": "Ana"})
        memory = PgVectorMemoryService(database, mode="text")
        async with (
            served(create_console(database, memory=memory)) as address,
            httpx.AsyncClient(base_url=address) as client,
        ):
            query = {"app": "a", "user": "ana"}
            assert (await client.get("/export", params=query)).text.count("\n") > 2
            proxy.hold(2, "answer")
            async with client.stream("GET", "/export", params=query) as download:
                lines = download.aiter_lines()
                assert '"type":"export"' in await anext(lines)
                assert '"Ana"' in await anext(lines)
                await proxy.held.wait()
                await proxy.leave()
                proxy.release()
                with pytest.raises(httpx.RemoteProtocolError):
                    async for _ in lines:
                        pass
            gone = await client.get("/export", params=query)
            assert gone.status_code == 503, "and not the first line of a file"
    (said,) = [each for each in caplog.records if each.name == "adkpg.tooling.console.people"]
    assert said.message.startswith("A download broke off: ")
    assert all(each.exc_info is None for each in caplog.records)


async def test_tables_that_are_missing_or_of_another_revision_are_one_sentence(
    empty_database_url: str, browse: Callable[..., Browser]
) -> None:
    for of_another in (False, True):
        async with Database(empty_database_url) as database:
            if of_another:
                await database.upgrade()
                async with (await database.engine()).begin() as connection:
                    await connection.exec_driver_sql(
                        "UPDATE adkpg.adkpg_version SET version_num = '9999'"
                    )
        async with Database(empty_database_url) as database:
            memory = PgVectorMemoryService(database, mode="text")
            browser = browse(create_console(database, memory=memory))
            for path in _PAGES:
                query = {"app": "a", "user": "u", "session": "s", "memory": "m", "q": "x"}
                answer = await browser.get(path, **query)
                assert answer.status_code == 503, path
                said = "upgrade the adkpg package" if of_another else "adkpg db upgrade"
                assert said in answer.text, path


async def test_a_defect_is_logged_and_shows_no_traceback(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("s3cr3t")

    monkeypatch.setattr("adkpg.tooling.operations.table_sizes", broken)
    with caplog.at_level(logging.ERROR):
        answer = await browser.get("/operations")
    assert answer.status_code == 500
    assert "s3cr3t" not in answer.text
    assert "s3cr3t" in caplog.text
