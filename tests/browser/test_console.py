"""The console in a real browser: no script of anybody else's runs, and people can use it."""

import re
import webbrowser
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from urllib.request import url2pathname

import asyncpg
import pytest
from playwright.async_api import Browser, Page, expect

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.cli.console.command import opening
from adkpg.tooling.console import create_console
from adkpg.tooling.console.guard import Guard
from adkpg.tooling.testing import said
from tests.browser.chromium import chromium, served
from tests.fakes import hostile
from tests.fakes.conversation import entry
from tests.fakes.proxy import Proxy

pytestmark = pytest.mark.browser


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as opened:
        yield opened


@pytest.fixture
async def address(database: Database, memory: PgVectorMemoryService) -> AsyncIterator[str]:
    async with served(create_console(database, memory=memory)) as found:
        yield found


@pytest.fixture
async def hostile_rows(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await hostile.store(database, memory, connection)


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    context = await browser.new_context()
    yield await context.new_page()
    await context.close()


@pytest.mark.usefixtures("hostile_rows")
async def test_no_script_that_people_wrote_runs_anywhere(
    page: Page, address: str, database: Database
) -> None:
    asked: list[str] = []
    dialogs: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    async def dismiss(dialog: object) -> None:
        dialogs.append(str(dialog))

    page.on("dialog", dismiss)
    for path, query in hostile.PAGES:
        if path == "/session/live":
            continue  # is asked for by the script of the session's page
        await page.goto(f"{address}{path}?{urlencode(query)}", wait_until="load")
        for each in await page.locator("details").all():
            await each.evaluate("each => { each.open = true; }")
        assert await page.evaluate("window.ran") is None, path
    place = {"app": hostile.APP, "user": hostile.USER, "session": hostile.SESSION}
    await page.goto(f"{address}/session?{urlencode(place)}")
    session = await DatabaseSessionService(database).get_session(
        **hostile.SCOPE, session_id=hostile.SESSION
    )
    assert session is not None
    await DatabaseSessionService(database).append_event(session, said(f"at last {hostile.ALL}"))
    await expect(page.locator("#event-3")).to_contain_text("at last")
    assert await page.evaluate("window.ran") is None
    assert dialogs == []
    assert all(url.startswith(address) for url in asked)


async def test_a_session_grows_while_it_is_watched(
    page: Page, address: str, sessions: DatabaseSessionService, memory: PgVectorMemoryService
) -> None:
    session = await sessions.create_session(app_name="app", user_id="ana", session_id="s")
    await sessions.append_event(session, said("my kitten is called Mimi"))
    await memory.add_session_to_memory(session)
    await page.goto(f"{address}/session?app=app&user=ana&session=s")
    await sessions.append_event(session, said("and what is hers?", state={"mood": "curious"}))
    new = page.locator("#event-2")
    await expect(new).to_contain_text("and what is hers?")
    await expect(new).to_contain_text("curious")
    await new.get_by_text("preload_memory", exact=True).click()
    await expect(new.locator(".preloaded")).to_contain_text("before this turn")
    again = said("no, start again")
    again.actions.rewind_before_invocation_id = "run"
    await sessions.append_event(session, said("wrong way", invocation_id="run"))
    await expect(page.locator("#event-3")).to_contain_text("wrong way")
    await sessions.append_event(session, again)
    await expect(page.locator("#event-3")).to_contain_text("taken back by a rewind")
    await expect(page.locator("#count")).to_have_text("4 events")
    await expect(page.locator(".step")).to_have_count(4)


@pytest.mark.parametrize(
    ("scripts", "shown", "footer"),
    [(True, "2026-02-01 05:30:00", "Asia/Tokyo"), (False, "2026-01-31 20:30:00", "times are UTC")],
)
async def test_times_are_the_readers_or_utc_without_a_script(
    browser: Browser,
    address: str,
    sessions: DatabaseSessionService,
    scripts: bool,
    shown: str,
    footer: str,
) -> None:
    when = datetime(2026, 1, 31, 20, 30, tzinfo=UTC).timestamp()
    session = await sessions.create_session(app_name="app", user_id="ana", session_id="s")
    await sessions.append_event(session, said("hello", timestamp=when))
    context = await browser.new_context(timezone_id="Asia/Tokyo", java_script_enabled=scripts)
    page = await context.new_page()
    await page.goto(f"{address}/app?app=app")
    for time in (page.locator("time").first, page.locator("time").last):  # the user's, a session's
        await expect(time).to_have_text(shown)
    await page.goto(f"{address}/session?app=app&user=ana&session=s")
    await expect(page.locator("#event-1 time")).to_have_text(shown)
    await expect(page.locator("#zone")).to_contain_text(footer)
    if scripts:
        said_at = page.locator("#event-1 time")
        await expect(said_at).to_have_attribute("title", "2026-01-31 20:30:00 UTC")
        await sessions.append_event(session, said("again", timestamp=when + 60))
        await expect(page.locator("#event-2 time")).to_have_text("2026-02-01 05:31:00")
        await expect(page.locator("#updated time")).to_have_text("2026-02-01 05:31:00")
    await context.close()


async def test_what_was_said_is_found_by_hand_and_seen_on_a_phone(
    browser: Browser, address: str, sessions: DatabaseSessionService
) -> None:
    session = await sessions.create_session(app_name="app", user_id="ana", session_id="s")
    await sessions.append_event(session, said("by train to Graz", state={"to": "Graz"}))
    for number in range(120):
        await sessions.append_event(session, said(f"turn {number}"))
    context = await browser.new_context(viewport={"width": 360, "height": 780})
    page = await context.new_page()
    await page.goto(address)
    await page.get_by_label("Find apps and people").fill("an")
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name="ana").click()
    await page.get_by_role("link", name="Sessions").click()
    await expect(page.get_by_text("by train to Graz")).to_be_visible()
    await page.get_by_label("Find what was said").fill("TRAIN graz")
    await page.get_by_role("button", name="Show").click()
    await page.get_by_role("link", name="by train to Graz").click()
    await expect(page.locator("#event-1")).to_be_focused()
    await expect(page.locator("#event-1 .text").first).to_be_in_viewport()
    pill = await page.locator("#event-1 .changes .tag").bounding_box()
    assert pill is not None
    assert pill["height"] < 30, "in one line"
    await page.get_by_label("Find in this session").fill("turn 77")
    await page.keyboard.press("Enter")
    await expect(page.locator(".memory")).to_have_count(1)
    await context.close()


async def test_the_file_that_is_opened_lets_in_and_steps_from_elsewhere_stay_in(
    page: Page,
    database: Database,
    memory: PgVectorMemoryService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    console = create_console(database, memory=memory, token="of a console that asks")
    assert isinstance(console, Guard)
    async with served(console) as address:
        with opening(console, f"{address}/"):
            folder = Path(url2pathname(urlsplit(opened[0]).path)).parent
            await page.goto(opened[0])
            await expect(page).to_have_title(re.compile("Overview"))
            assert page.url.rstrip("/?") == address
            assert list(folder.iterdir()) == []
        elsewhere = tmp_path / "elsewhere.html"
        elsewhere.write_text(
            f'<a href="{address}/audit?app=a">in</a>'
            f'<form action="{address}/forget/now" method="post"><button>send</button></form>'
        )
        await page.goto(elsewhere.as_uri())
        await page.get_by_text("in", exact=True).click()
        await expect(page).to_have_title(re.compile("Audit"))
        await page.goto(elsewhere.as_uri())
        await page.get_by_text("send").click()
        await expect(page.locator("body")).to_contain_text("Another site sent the form")
        await page.goto(f"{address}/")
        await expect(page).to_have_title(re.compile("Overview"))


async def test_keys_lead_through_the_pages(
    page: Page, address: str, memory: PgVectorMemoryService
) -> None:
    notes = [entry("likes tea", "n1"), entry("likes trains", "n2")]
    await memory.add_memory(app_name="app", user_id="ana", memories=notes)
    await page.goto(f"{address}/person?app=app&user=ana")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/memory?**")
    assert await page.evaluate("document.activeElement.tagName") == "BODY"
    await page.locator("textarea").fill("likes oolong")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".panel").first).to_contain_text("likes oolong")
    await page.goto(f"{address}/lab?app=app&user=ana&q=x")
    await page.keyboard.press("/")
    await page.keyboard.press("Control+a")
    await page.keyboard.type("oolong")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**q=oolong**")  # the page before may have the hit too
    await expect(page.locator(".hit").first).to_contain_text("likes oolong")
    await page.keyboard.press("g")
    await expect(page.locator("h1")).to_have_text("Overview")


TABBABLE = """[...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary")]
  .filter(each => each.checkVisibility() && each.getClientRects().length)
  .map((each, number) => each.dataset.stop = String(number)).length"""
"""Numbers what the keyboard must reach."""
FOCUSED = """() => {
  const here = document.activeElement;
  const box = here.getClientRects()[0];
  const at = document.elementFromPoint(box.x + Math.min(box.width / 2, 8), box.y + box.height / 2);
  const style = getComputedStyle(here);
  return {
    stop: here.dataset.stop ?? here.tagName,
    body: here === document.body,
    // A button that the browser puts into a field has an outline of the browser's.
    outlined: !here.matches(":focus")
      || style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    seen: at !== null && (here.contains(at) || at.contains(here)) && at !== document.body,
    what: here.outerHTML.slice(0, 150),
  };
}"""
"""Where the keyboard is, and whether that is seen."""

FROM_THE_START = """() => {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
  scrollTo(0, 0);
}"""
"""As if the page had no field that takes the keyboard by itself."""


@pytest.mark.usefixtures("hostile_rows")
async def test_the_keyboard_alone_reaches_everything_and_is_seen_where_it_is(
    page: Page, address: str
) -> None:
    """On every page: each link, field and fold once in turn, none of it hidden, and out again."""
    await page.emulate_media(reduced_motion="reduce")  # so that nothing is still on its way
    for path, query in hostile.PAGES:
        if path == "/session/live":
            continue
        await page.goto(f"{address}{path}?{urlencode(query)}")
        await page.evaluate(FROM_THE_START)
        wanted = [str(number) for number in range(await page.evaluate(TABBABLE))]
        reached: list[str] = []
        for _ in range(12 * len(wanted)):  # a field of a date is some stops
            await page.keyboard.press("Tab")
            here = await page.evaluate(FOCUSED)
            if here["body"] or (reached and here["stop"] == "0"):
                break
            assert here["outlined"], (path, here["what"])
            assert here["seen"], (path, here["what"])
            if reached[-1:] != [here["stop"]]:
                reached.append(here["stop"])
        else:
            pytest.fail(f"{path} does not let go of the keyboard: {reached[-5:]}")
        assert [stop for stop in reached if stop.isdecimal()] == wanted, path
        if here["body"]:
            await page.keyboard.press("Tab")
        await expect(page.get_by_text("Skip to the content")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("main")).to_be_focused()
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.closest('header') === null"), path


async def test_two_settings_are_compared_by_hand(
    page: Page, address: str, memory: PgVectorMemoryService
) -> None:
    notes = [entry("the kitten sleeps", "n1"), entry("a cat on the sofa", "n2")]
    await memory.add_memory(app_name="app", user_id="ana", memories=notes)
    await page.goto(f"{address}/lab?app=app&user=ana")
    await page.get_by_label("Question").fill("where is the kitten?")
    await expect(page.locator("select[name=b_mode]")).to_be_hidden()
    await page.get_by_label("two settings side by side").check()
    await page.locator("select[name=b_mode]").select_option("text")
    await page.get_by_role("button", name="Search").click()
    await expect(page.locator(".answers section")).to_have_count(2)
    found = await memory.search(
        app_name="app", user_id="ana", query="where is the kitten?", mode="text"
    )
    await expect(page.locator(".answers section").nth(1).locator(".hit")).to_have_count(len(found))


@pytest.fixture
async def reading(database: Database, memory: PgVectorMemoryService) -> AsyncIterator[str]:
    async with served(create_console(database, memory=memory, read_only=True)) as found:
        yield found


@pytest.mark.parametrize(
    ("scheme", "stored", "only_reads"),
    [
        ("light", True, False),
        ("dark", True, False),
        ("light", True, True),
        ("dark", False, True),
    ],
)
async def test_pages_fit_a_phone_in_light_and_dark(
    browser: Browser,
    address: str,
    reading: str,
    database: Database,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
    scheme: str,
    stored: bool,
    only_reads: bool,
) -> None:
    if stored:
        await hostile.store(database, memory, connection)
    context = await browser.new_context(
        viewport={"width": 360, "height": 780},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = await context.new_page()
    for path, query in hostile.PAGES:
        if path == "/session/live":
            continue
        await page.goto(f"{reading if only_reads else address}{path}?{urlencode(query)}")
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, path
        assert not only_reads or await page.locator("form[method=post]").count() == 0, path
        for cure in await page.locator(".findings pre").all():
            box = await cure.bounding_box()
            assert box is not None
            assert box["width"] >= 200, "a command is read in lines, not in letters"
        for pill in await page.locator(".changes .tag").all():
            box = await pill.bounding_box()
            assert box is not None
            assert box["height"] < 25, "the word new is in one line"
    back = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    lightness = sum(map(int, back.removeprefix("rgb(").removesuffix(")").split(",")))
    assert (lightness < 300) == (scheme == "dark")
    await context.close()


async def test_a_page_says_that_the_database_is_away_and_comes_back(
    page: Page, proxy: Proxy, impatient: None
) -> None:
    async with Database(proxy.url) as database:
        memory = PgVectorMemoryService(database, mode="text")
        await DatabaseSessionService(database).create_session(app_name="a", user_id="u")
        async with served(create_console(database, memory=memory)) as address:
            await proxy.leave()
            await page.goto(address)
            await expect(page.get_by_role("alert")).to_contain_text("The database does not answer")
            await proxy.come_back()
            await expect(page.locator("h1")).to_have_text("Overview", timeout=20_000)


async def test_the_login_lets_in_who_knows_the_token(
    page: Page, database: Database, memory: PgVectorMemoryService
) -> None:
    token = "a-token-of-some-length"
    async with served(create_console(database, memory=memory, token=token)) as address:
        await page.goto(f"{address}/operations")
        await page.get_by_label("Token").fill(token)
        await page.get_by_label("Your name").fill("Bea")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.locator("h1")).to_have_text("Overview")
