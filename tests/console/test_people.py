"""A person's memories: seen, changed, downloaded, forgotten, and each change in the audit."""

import html
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from google.adk.events.event import Event
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService, Users
from adkpg.audit import Audit
from adkpg.facts import Add, Extraction, Facts, Supersede
from adkpg.memory.records import Memory
from adkpg.tooling.console import create_console
from tests.fakes.browser import Browser
from tests.fakes.conversation import entry, said
from tests.fakes.life import live_through, rows_of

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
PLACE: dict[str, Any] = {"app": "app", "user": "ana"}


@pytest.fixture
async def lived(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    await live_through(database, memory, connection, "ana")


@pytest.mark.usefixtures("lived")
async def test_memories_are_listed_filtered_and_grouped(browser: Browser) -> None:
    page = await browser.text("/person", **PLACE)
    assert "keeps an automobile" in page
    assert "my kitten sleeps" in page
    notes = await browser.text("/person", **PLACE, kinds="note")
    assert "keeps an automobile" in notes
    assert "my kitten sleeps" not in notes
    both = (await browser.client.get("/person?app=app&user=ana&kinds=note&kinds=turn")).text
    assert "keeps an automobile" in both
    assert "my kitten sleeps" in both
    assert re.findall(r'name="kinds" value="(\w+)" checked', both) == ["turn", "note"]
    for by in ("session", "kind", "topic", "author", "day", "importance"):
        grouped = await browser.text("/person", **PLACE, by=by)
        assert 'class="group"' in grouped
    assert 'class="timeline"' in await browser.text("/person", **PLACE, view="timeline")
    assert ">s2<" in await browser.text("/person", **PLACE, view="sessions")
    assert "has a cat" in await browser.text("/person", **PLACE, view="profile")
    for wrong in ({"view": "x"}, {"by": "x"}, {"kinds": "x"}, {"after": "x"}, {"cursor": "x"}):
        answer = await browser.get("/person", **PLACE, **wrong)
        assert answer.status_code == 400, wrong


@pytest.mark.parametrize("view", ["memories", "timeline"])
async def test_paging_to_the_end_lists_each_memory_once(
    browser: Browser, memory: PgVectorMemoryService, connection: asyncpg.Connection, view: str
) -> None:
    """Some are of the same moment, and only the first page counts them all."""
    await memory.add_memory(**ANA, memories=[entry("likes tea", "0")])
    await connection.execute(
        "INSERT INTO memories (app_name, user_id, position, memory_id, kind, content, body, length,"
        " digest, timestamp, session_id, author)"
        " SELECT app_name, user_id, position + n, n::text, kind, content, body, length,"
        " n::text, timestamp - n / 150 * interval '1 hour', session_id, author"
        " FROM memories, generate_series(1, 1233) n"
    )
    listed: list[str] = []
    counted = []
    address: str | None = f"/person?app=app&user=ana&view={view}"
    while address is not None:
        page = (await browser.client.get(address)).text
        listed += re.findall(r'data-item href="[^"]*memory=(\d+)"', page)
        counted.append("1,234 live memories" in page)
        older = re.search(r'rel="next" href="([^"]+)"', page)
        address = None if older is None else html.unescape(older[1])
    assert sorted(map(int, listed)) == [*range(1234)]
    assert counted == [True, *[False] * 12]


async def test_sessions_are_listed_by_their_first_words_and_by_date(
    browser: Browser, sessions: DatabaseSessionService
) -> None:
    for day in (1, 2, 3):
        session = await sessions.create_session(**ANA, session_id=f"s{day}")
        when = datetime(2026, 1, day, 12, tzinfo=UTC).timestamp()
        await sessions.append_event(session, said(f"of day {day}", f"e{day}", timestamp=when))

    async def listed(**dates: str) -> list[str]:
        page = await browser.text("/person", **PLACE, view="sessions", **dates)
        assert "From (UTC)" in page
        return re.findall(r'data-label="First words">of day (\d)</td>', page)

    assert await listed() == ["3", "2", "1"]
    assert await listed(after="2026-01-02") == ["3", "2"]
    assert await listed(before="2026-01-02") == ["1"]
    assert await listed(after="2026-01-02", before="2026-01-03") == ["2"]
    assert await listed(before="2026-01-02T12:00") == ["1"], "not of the moment itself"
    page = await browser.text("/person", **PLACE, view="sessions", after="2026-02-01")
    assert "No session was last updated then" in page


async def test_pages_of_sessions_keep_to_the_dates(
    browser: Browser, sessions: DatabaseSessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adkpg.tooling.console.listing._ROWS", 2)
    for day in range(1, 8):
        session = await sessions.create_session(**ANA, session_id=f"s{day}")
        when = datetime(2026, 1, day, tzinfo=UTC).timestamp()
        await sessions.append_event(session, said("tea", f"e{day}", timestamp=when))
    for query in ("", "&q=tea"):
        seen: list[str] = []
        dates = "after=2026-01-02&before=2026-01-07"
        further: str | None = f"/person?app=app&user=ana&view=sessions&{dates}{query}"
        while further is not None:
            page = (await browser.client.get(further)).text
            seen += re.findall(r'data-item href="[^"]*session=(s\d)', page)
            link = re.search(r'rel="next" href="([^"]+)"', page)
            further = None if link is None else html.unescape(link[1])
        assert seen == ["s6", "s5", "s4", "s3", "s2"]


async def test_what_was_said_is_found_and_leads_to_its_event(
    browser: Browser, sessions: DatabaseSessionService
) -> None:
    session = await sessions.create_session(**ANA, session_id="long")
    for number in range(103):
        await sessions.append_event(session, said(f"turn number {number}", f"e{number}"))
    other = await sessions.create_session(**ANA, session_id="other")
    call = types.Part.from_function_call(name="find_trains", args={"to": "Graz & Number 7"})
    await sessions.append_event(
        other, Event(id="call", author="guide", content=types.Content(role="model", parts=[call]))
    )
    bobs = await sessions.create_session(app_name="app", user_id="bob", session_id="b")
    await sessions.append_event(bobs, said("turn number 7 of bob", "b"))
    view: dict[str, Any] = {**PLACE, "view": "sessions"}
    page = await browser.text("/person", **view, q="NUMBER 7")
    found = re.findall(r"session=(\w+)&amp;event=(\w+)", page)
    assert found == [
        ("other", "call"),
        *(("long", f"e{number}") for number in range(102, 0, -1) if "7" in str(number)),
    ]
    assert "Graz &amp; Number 7" in page
    assert "bob" not in page
    page = await browser.text("/person", **view, q="number 7", session="other")
    assert re.findall(r"event=(\w+)", page) == ["call"]
    assert "Search all sessions" in page
    keys = await browser.text("/person", **view, q="parts role", session="other")
    assert "No event has these words" in keys, "that is how JSON names them"
    event = await browser.text("/session", **PLACE, session="long", event="e7")
    assert re.findall(r'id="event-(\d+)"[^>]* autofocus', event) == ["8"]
    last = await browser.text("/session", **PLACE, session="long", event="gone")
    assert "turn number 102" in last
    assert "autofocus" not in last


async def test_no_search_tells_what_a_masked_credential_is(
    browser: Browser, sessions: DatabaseSessionService
) -> None:
    session = await sessions.create_session(**ANA, session_id="s")
    given = {"authType": "apiKey", "apiKey": "s3cr3t", "note": "kept"}
    answer = types.Part.from_function_response(name="login", response={"given": given})
    await sessions.append_event(
        session, Event(author="guide", content=types.Content(role="user", parts=[answer]))
    )
    assert (await sessions.search_events(**ANA, query="s3cr3t")).items
    for query, known in (("s3", False), ("kept s3cr3t", False), ("login kept", True)):
        page = await browser.text("/person", **PLACE, view="sessions", q=query)
        assert ("event=" in page) == known
        assert "s3cr3t" not in page.replace(f"{query}", "")


class Extractor:
    """Draws a fact, and then one that replaces it."""

    async def extract(self, turns: Any, known: Any) -> Extraction:
        (turn,) = [each for each in turns if not each.read]
        if known:
            return Extraction(
                (Supersede(known[0].memory_id, Add("lives in Graz", (turn.memory_id,))),)
            )
        return Extraction((Add("lives in Rome", (turn.memory_id,)),))


async def test_facts_have_their_provenance_and_what_they_replaced(
    browser: Browser, memory: PgVectorMemoryService
) -> None:
    facts = Facts(memory, extractor=Extractor())
    await facts.enable("app")
    for number, text in enumerate(("I live in Rome", "I moved to Graz")):
        await memory.add_events_to_memory(
            **ANA, session_id=f"s{number}", events=[said(text, f"e{number}")]
        )
        report = await facts.extract(**ANA)
        assert not report.errors
    page = await browser.text("/person", **PLACE, view="facts")
    assert "drawn from 2 memories" in page
    assert page.index("lives in Graz") < page.index("<summary>replaced</summary>")
    assert page.index("<summary>replaced</summary>") < page.index("lives in Rome")
    assert "I moved to Graz" in page
    (fact,) = (await facts.profile(**ANA)).facts
    one = await browser.text("/memory", **PLACE, memory=fact.memory.id)
    assert "Drawn from" in one
    assert "lives in Rome" in one


async def test_a_memory_is_changed_and_what_is_left_stays(
    browser: Browser, memory: PgVectorMemoryService, database: Database
) -> None:
    note = Memory(id="n", content=entry("likes tea").content, topics=["drinks"], importance=0.7)
    await memory.add_memory(**ANA, memories=[note])
    form = await browser.token("/memory", **PLACE, memory="n")
    done = await browser.post(
        "/memory/update",
        form_token=form,
        **PLACE,
        memory="n",
        text="likes oolong",
        topics="drinks, tea",
        importance="0.9",
        expires_at="2999-01-02T03:04",
    )
    assert done.status_code == 303
    found = await memory.get_memory(**ANA, memory_id="n")
    assert found is not None
    assert found.content.parts is not None
    assert found.content.parts[0].text == "likes oolong"
    assert (found.topics, found.importance) == (["drinks", "tea"], 0.9)
    assert found.expires_at == "2999-01-02T03:04:00+00:00"
    page = await browser.text("/memory", **PLACE, memory="n")
    assert 'name="never_expires"' in page
    both = await browser.post(
        "/memory/update",
        form_token=form,
        **PLACE,
        memory="n",
        never_expires="1",
        expires_at="2999-01-02T03:04",
    )
    assert both.status_code == 400
    (refused_, entry_) = (await Audit(database).entries(**ANA)).items
    assert refused_.outcome == "InvalidInput"
    assert (entry_.action, entry_.subject, entry_.outcome) == ("update_memory", "n", "done")
    for wrong in ({"importance": "7"}, {"importance": "x"}, {"expires_at": "x"}):
        refused = await browser.post(
            "/memory/update", form_token=form, **PLACE, memory="n", **wrong
        )
        assert refused.status_code == 400, wrong
    await browser.post("/memory/update", form_token=form, **PLACE, memory="n", never_expires="1")
    found = await memory.get_memory(**ANA, memory_id="n")
    assert found is not None
    assert found.expires_at is None
    assert 'name="never_expires"' not in await browser.text("/memory", **PLACE, memory="n")
    missing = await browser.post("/memory/update", form_token=form, **PLACE, memory="none")
    assert missing.status_code == 400


async def test_what_says_the_same_is_shown_and_goes_along(
    browser: Browser, memory: PgVectorMemoryService
) -> None:
    texts = ("likes tea", "Likes tea.", "likes tea!", "likes tea?")
    await memory.add_memory(**ANA, memories=[*map(entry, texts, "nmop")])
    page = await browser.text("/memory", **PLACE, memory="m")
    assert "Said again, 2 times" in page
    assert "Said again" not in await browser.text("/memory", **PLACE, memory="p")
    form = await browser.token("/memory", **PLACE, memory="m")
    gone = await browser.post("/memory/delete", form_token=form, **PLACE, memory="m")
    assert "was deleted, with 2 repetitions of it." in gone.text
    assert [each.id for each in (await memory.list_memories(**ANA)).items] == ["p"]


async def test_a_memory_is_deleted(browser: Browser, memory: PgVectorMemoryService) -> None:
    await memory.add_memory(**ANA, memories=[entry("likes tea", "n")])
    await memory.add_memory(app_name="app", user_id=None, memories=[entry("of the app", "w")])
    form = await browser.token("/memory", **PLACE, memory="n")
    assert (await browser.post("/memory/delete", **PLACE, memory="n")).status_code == 403
    assert await memory.get_memory(**ANA, memory_id="n")
    gone = await browser.post("/memory/delete", form_token=form, **PLACE, memory="n")
    assert "<h1>Deleted</h1>" in gone.text
    assert "The memory <bdi>n</bdi> was deleted." in gone.text
    assert await memory.get_memory(**ANA, memory_id="n") is None
    again = await browser.post("/memory/delete", form_token=form, **PLACE, memory="n")
    assert "There was no memory <bdi>n</bdi> any more." in again.text
    assert (await browser.get("/memory", **PLACE, memory="n")).status_code == 400
    assert "of the app" in await browser.text("/person", app="app")
    await browser.post("/memory/delete", form_token=form, app="app", memory="w")
    assert "of the app" not in await browser.text("/person", app="app")


@pytest.mark.usefixtures("lived")
async def test_all_of_a_person_is_downloaded_as_an_export(browser: Browser) -> None:
    answer = await browser.get("/export", **PLACE)
    assert answer.status_code == 200
    assert "attachment" in answer.headers["content-disposition"]
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines[0]["type"] == "export"
    assert {"session", "event", "memory", "end"} <= {line["type"] for line in lines}
    assert (await browser.get("/export", app="app")).status_code == 400


@pytest.mark.usefixtures("lived")
async def test_forgetting_shows_what_would_go_and_then_erases_it(
    browser: Browser, connection: asyncpg.Connection, database: Database
) -> None:
    before = await rows_of(connection, "ana")
    page = html.unescape(await browser.text("/forget", **PLACE))
    for table, count in before.items():
        assert table in page
        assert str(count) in page
    assert await rows_of(connection, "ana") == before
    form = await browser.token("/forget", **PLACE)
    unsure = await browser.post("/forget/now", form_token=form, **PLACE, again="an")
    assert unsure.status_code == 400
    assert "This is not the person's id, so nothing was erased." in unsure.text
    assert 'name="again"' in unsure.text
    assert 'value="an" aria-invalid="true"' in unsure.text
    assert await rows_of(connection, "ana") == before
    done = await browser.post("/forget/now", form_token=form, **PLACE, again="ana")
    assert done.status_code == 200
    assert "This was erased" in done.text
    assert set((await rows_of(connection, "ana")).values()) == {0}
    (noted,) = (await Audit(database).entries(app_name="app", user_id=Users.APP_WIDE)).items
    assert (noted.action, noted.outcome, noted.subject) == ("forget_person", "done", None)
    rows = await connection.fetchval("SELECT string_agg(audit::text, '') FROM audit")
    assert "ana" not in rows


async def test_a_console_that_only_reads_changes_nothing(
    database: Database, memory: PgVectorMemoryService, browse: Callable[..., Browser]
) -> None:
    await memory.add_memory(**ANA, memories=[entry("likes tea", "n")])
    browser = browse(create_console(database, memory=memory, read_only=True))
    page = await browser.text("/memory", **PLACE, memory="n")
    assert "<form" not in page
    form = await browser.token("/login")
    for path, fields in (("/memory/delete", {"memory": "n"}), ("/forget/now", {"again": "ana"})):
        answer = await browser.post(path, form_token=form, **PLACE, **fields)
        assert answer.status_code == 403
        assert "read-only" in answer.text
    assert await memory.get_memory(**ANA, memory_id="n")


async def test_the_actor_is_whom_the_application_names(
    database: Database, memory: PgVectorMemoryService, browse: Callable[..., Browser]
) -> None:
    await memory.add_memory(**ANA, memories=[entry("likes tea", "n")])
    browser = browse(create_console(database, memory=memory, actor=lambda _: "Bea"))
    form = await browser.token("/memory", **PLACE, memory="n")
    await browser.post("/memory/delete", form_token=form, **PLACE, memory="n")
    (noted,) = (await Audit(database).entries(**ANA)).items
    assert noted.actor == "Bea"
