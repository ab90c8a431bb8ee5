"""The page of a session: what was said, what the state was, and what memory would have said."""

import asyncio
import html
import re
from collections.abc import Callable
from typing import Any

import asyncpg
from google.adk.agents import LlmAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.runners import Runner
from google.adk.sessions.session import Session
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.console import create_console
from adkpg.tooling.testing import ScriptedLlm, said
from adkpg.tools import preload_memory
from tests.fakes.browser import Browser

PLACE: dict[str, Any] = {"app": "app", "user": "ana", "session": "s"}


async def begun(sessions: DatabaseSessionService, **state: Any) -> Session:
    return await sessions.create_session(app_name="app", user_id="ana", session_id="s", state=state)


def parts(*given: types.Part, author: str = "guide", **fields: Any) -> Event:
    return Event(author=author, content=types.Content(role="model", parts=list(given)), **fields)


async def test_a_transcript_has_calls_thoughts_files_and_branches(
    browser: Browser, sessions: DatabaseSessionService
) -> None:
    session = await begun(sessions)
    await sessions.append_event(session, said("what does it cost?"))
    await sessions.append_event(
        session,
        parts(
            types.Part(text="let me think", thought=True),
            types.Part.from_function_call(name="price_of", args={"what": "train"}),
            branch="guide.helper",
            actions=EventActions(artifact_delta={"offer.pdf": 2}),
        ),
    )
    await sessions.append_event(
        session, parts(types.Part.from_function_response(name="price_of", response={"eur": 40}))
    )
    page = await browser.text("/session", **PLACE)
    assert "what does it cost?" in page
    assert "<summary>Thought</summary>" in page
    assert "calls <code>price_of</code>" in page
    assert "<code>price_of</code> answers" in page
    assert "guide.helper" in page
    assert "offer.pdf" in page
    assert "&#34;eur&#34;: 40" in page


async def test_the_state_is_shown_at_each_event_with_what_it_changed(
    browser: Browser, sessions: DatabaseSessionService
) -> None:
    session = await begun(sessions, seats=1)
    await sessions.append_event(session, said("two of us", state={"seats": 2, "user:name": "Ana"}))
    await sessions.append_event(session, said("no, three", state={"seats": 3}))
    page = await browser.text("/session", **PLACE)
    first, second = re.findall(r'<li class="step.*?</li>', page, re.DOTALL)
    assert "<del><code>1</code></del>" in first
    assert "<ins><code>2</code></ins>" in first
    assert "user:name" in first
    assert "<del><code>2</code></del>" in second
    assert "<ins><code>3</code></ins>" in second
    (here,) = re.findall(r'<table class="state">.*?</table>', first, re.DOTALL)
    assert "<code>2</code>" in here


async def test_rewinds_and_compactions_are_marked(
    browser: Browser, sessions: DatabaseSessionService
) -> None:
    session = await begun(sessions)
    await sessions.append_event(session, said("one", invocation_id="i1", timestamp=1000))
    await sessions.append_event(session, said("two", invocation_id="i2", timestamp=2000))
    await sessions.append_event(
        session,
        Event(
            author="user",
            invocation_id="i3",
            actions=EventActions(rewind_before_invocation_id="i2"),
        ),
    )
    summary = types.Content(role="model", parts=[types.Part(text="one was said")])
    await sessions.append_event(
        session,
        Event(
            author="user",
            invocation_id="i4",
            actions=EventActions(
                compaction=EventCompaction(
                    start_timestamp=1000, end_timestamp=1000, compacted_content=summary
                )
            ),
        ),
    )
    page = await browser.text("/session", **PLACE)
    one, two, rewind, compaction = re.findall(r'<li class="step.*?</li>', page, re.DOTALL)
    assert "in a compaction" in one
    assert "taken back" not in one
    assert "taken back by a rewind" in two
    assert "<strong>Rewind</strong>" in rewind
    assert "one was said" in compaction


async def test_credentials_are_masked_as_adks_server_masks_them(
    browser: Browser, sessions: DatabaseSessionService
) -> None:
    credential = {"authType": "apiKey", "apiKey": "s3cr3t-of-the-state", "note": "kept"}
    session = await begun(sessions, login=credential)
    ask = types.Part.from_function_call(
        name="adk_request_credential",
        args={
            "authConfig": {
                "rawAuthCredential": {
                    "authType": "oauth2",
                    "oauth2": {"clientId": "id", "clientSecret": "s3cr3t-of-the-call"},
                }
            }
        },
    )
    await sessions.append_event(session, parts(ask))
    await sessions.append_event(session, said("done", state={"other": credential}))
    page = html.unescape(await browser.text("/session", **PLACE))
    assert "s3cr3t" not in page
    assert '"note": "kept"' in page


async def test_what_preload_memory_puts_before_a_turn_is_what_the_tool_put(
    browser: Browser, sessions: DatabaseSessionService, memory: PgVectorMemoryService
) -> None:
    earlier = await sessions.create_session(app_name="app", user_id="ana", session_id="before")
    await sessions.append_event(earlier, said("my kitten is called Mimi"))
    await sessions.append_event(earlier, said("she eats fish"))
    await memory.add_session_to_memory(earlier)
    model = ScriptedLlm.answering("Mimi.")
    agent = LlmAgent(name="guide", model=model, tools=[preload_memory()])
    runner = Runner(app_name="app", agent=agent, session_service=sessions, memory_service=memory)
    await begun(sessions)
    message = types.Content(role="user", parts=[types.Part(text="what is my kitten called?")])
    async for _ in runner.run_async(user_id="ana", session_id="s", new_message=message):
        pass
    after = await sessions.create_session(app_name="app", user_id="ana", session_id="after")
    await sessions.append_event(after, said("my kitten is called Pim now"))
    await memory.add_session_to_memory(after)
    (request,) = model.requests
    given = [
        part["text"]
        for content in request["contents"]
        for part in content["parts"]
        if "recalled_memory" in part.get("text", "")
    ]
    page = html.unescape(await browser.text("/session", **PLACE, preload=1))
    assert given[0] in page
    assert "tokens:" in page
    alone = html.unescape(await browser.text("/session/preload", **PLACE, number=1))
    assert given[0] in alone
    refused = await browser.get("/session/preload", **PLACE, number=2)
    assert refused.status_code == 400


async def test_new_events_come_to_a_page_that_waits(
    browser: Browser, sessions: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    session = await begun(sessions)
    await sessions.append_event(session, said("first"))
    waiting = asyncio.create_task(browser.get("/session/live", **PLACE, known=1))
    while not await connection.fetchval("SELECT watched_until FROM sessions"):
        await asyncio.sleep(0)
    await sessions.append_event(session, said("second"))
    answer = await waiting
    assert answer.headers["x-known"] == "2"
    assert "second" in answer.text
    assert "first" not in answer.text
    at_once = await browser.get("/session/live", **PLACE, known=0)
    assert at_once.text.count("<li") == 2


async def test_a_console_that_changes_nothing_does_not_note_that_it_waits(
    database: Database,
    memory: PgVectorMemoryService,
    sessions: DatabaseSessionService,
    browse: Callable[..., Browser],
    connection: asyncpg.Connection,
) -> None:
    session = await begun(sessions)
    reading = browse(create_console(database, memory=memory, read_only=True))
    waiting = asyncio.create_task(reading.get("/session/live", **PLACE, known=0))
    await sessions.append_event(session, said("first"))
    assert "first" in (await waiting).text
    assert await connection.fetchval("SELECT watched_until FROM sessions") is None


async def test_an_event_that_takes_earlier_ones_back_marks_them_on_a_page_that_waits(
    browser: Browser, sessions: DatabaseSessionService
) -> None:
    session = await begun(sessions)
    for number in (1, 2, 3):
        await sessions.append_event(session, said(f"turn {number}", invocation_id=f"i{number}"))
    rewind = EventActions(rewind_before_invocation_id="i2")
    await sessions.append_event(session, Event(author="user", actions=rewind))
    await sessions.append_event(session, said("another", state={"mood": "calm"}))

    async def steps(**asked: int) -> list[tuple[str, str]]:
        page = await browser.text("/session/live", **PLACE, **asked)
        assert "5 events" in page
        assert "&#34;mood&#34;: &#34;calm&#34;" in page.partition("<li")[0], "the state now"
        found = re.finditer(r'<li class="([^"]*)" id="event-(\d)"', page)
        return [(each[1], each[2]) for each in found]

    rewound, new = "step said rewound", "step said"
    assert await steps(known=3) == [(rewound, "2"), (rewound, "3"), (new, "4"), (new, "5")]
    assert await steps(known=3, first=2) == [(rewound, "3"), (new, "4"), (new, "5")]
    assert await steps(known=4) == [(new, "5")], "these were marked when the page was made"


async def test_a_long_session_has_pages_and_the_last_is_shown(
    browser: Browser, sessions: DatabaseSessionService
) -> None:
    session = await begun(sessions)
    for number in range(103):
        state = {"first": "of page one"} if number == 0 else {"last": number}
        await sessions.append_event(session, said(f"turn number {number}", state=state))
    last = await browser.text("/session", **PLACE)
    here = last.partition('<table class="state">')[2].partition("</table>")[0]
    assert "of page one" in here
    assert "<del><code>99</code></del>" in last
    assert "turn number 102" in last
    assert "turn number 99<" not in last
    assert "data-live" in last
    first = await browser.text("/session", **PLACE, page=1)
    assert "turn number 99<" in first
    assert "data-live" not in first


async def test_a_session_that_is_not_there_is_not_found(browser: Browser) -> None:
    answer = await browser.get("/session", **PLACE)
    assert answer.status_code == 404
    assert "Session s not found" in answer.text
