"""Odd requests: whatever an address or a form says, the answer is a page or one sentence."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx
import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.console import create_console
from adkpg.tooling.console.application import _ACTIONS, _PAGES
from tests.fakes.browser import Browser
from tests.fakes.conversation import entry, said

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}
SENSIBLE = {
    "app": "app",
    "user": "ana",
    "session": "s",
    "memory": "n",
    "q": "tea",
    "work": "embed",
    "known": "0",
    "question": "none",
    "again": "another",
    "find": "an",
}
FILTERS = ("kinds", "authors", "topics", "sessions", "after", "before")
SETTING = ("mode", "model", "top_k", "min_relevance", "half_life", "max_tokens", "neighbours")
SCOPE = ("app", "user")
READ: dict[str, tuple[str, ...]] = {
    "/": ("count", "find", "users"),
    "/app": ("app", "part", "users", "sessions", "days"),
    "/session": (*SCOPE, "session", "page", "event", "preload"),
    "/session/live": (*SCOPE, "session", "known", "first"),
    "/session/preload": (*SCOPE, "session", "number"),
    "/person": (*SCOPE, "view", "by", "cursor", "dead", *FILTERS),
    "/memory": (*SCOPE, "memory"),
    "/export": SCOPE,
    "/forget": SCOPE,
    "/lab": (*SCOPE, "q", "compare", "evaluate", *FILTERS, *(f"a_{each}" for each in SETTING)),
    "/lab/questions.json": SCOPE,
    "/operations": ("embed_cursor", "extract_cursor", "examine"),
    "/audit": ("app", "cursor"),
}
"""Which fields a page reads."""
SENT: dict[str, tuple[str, ...]] = {
    "/memory/update": (*SCOPE, "memory", "text", "topics", "importance", "expires_at"),
    "/memory/delete": (*SCOPE, "memory"),
    "/forget/now": (*SCOPE, "again"),
    "/lab/save": (*SCOPE, "q", "evidence-1", "more"),
    "/lab/delete": (*SCOPE, "question"),
    "/operations/retry": ("work", *SCOPE, "memory"),
    "/operations/retry-all": ("work", "app"),
}
"""Which fields an action reads."""
ODD = (
    *("", "-1", "0", "9" * 18, "9" * 30, "nan", "a\0b", "\ud800", "%", "٣", "x" * 5_000),
    *("0001-01-01T00:00:00+23:59", "1e300d", "W10", "bnVsbA"),
)


@pytest.fixture(autouse=True)
async def stored(sessions: DatabaseSessionService, memory: PgVectorMemoryService) -> None:
    session = await sessions.create_session(**ANA, session_id="s")
    await sessions.append_event(session, said("hello"))
    await memory.add_memory(**ANA, memories=[entry("tea", "n")])


@pytest.fixture(params=[False, True], ids=["", "read-only"])
def console(
    request: pytest.FixtureRequest,
    database: Database,
    memory: PgVectorMemoryService,
    browse: Callable[..., Browser],
) -> Browser:
    return browse(create_console(database, memory=memory, read_only=request.param))


def oddly(names: tuple[str, ...], **more: str) -> list[bytes]:
    """Every field once without and once with each odd value, and fields that are none."""
    asked = []
    for name in names:
        for value in (None, *ODD):
            fields: dict[str, str | None] = {**SENSIBLE, **more, name: value}
            asked.append(
                "&".join(
                    f"{key}={quote(each.encode(errors='surrogatepass'))}"
                    for key, each in fields.items()
                    if each is not None
                ).encode()
            )
    return [*asked, b"", b"&&", b"%", b"app=%ff", b"app=%zz&user=%00", b"a=1&" * 1_200]


def is_said(answer: httpx.Response) -> bool:
    """Whether an answer is a page, or a refusal of one sentence."""
    if answer.status_code < 400:
        return True
    one_line = len(answer.text.splitlines()) == 1
    return answer.status_code < 500 and ('role="alert"' in answer.text or one_line)


def test_no_page_and_no_action_is_left_out() -> None:
    assert (set(READ), set(SENT)) == (set(_PAGES), set(_ACTIONS))


@pytest.mark.parametrize(
    ("path", "names", "more"),
    [
        *((path, names, {}) for path, names in READ.items()),
        ("/person", ("q", "session", "after", "before", "cursor"), {"view": "sessions"}),
        ("/person", ("after", "before", "cursor"), {"view": "sessions", "q": ""}),
    ],
)
async def test_no_address_is_too_odd(
    console: Browser,
    path: str,
    names: tuple[str, ...],
    more: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for query in oddly(names, **more):
        answer = await console.client.get(f"{path}?{query.decode()}")
        assert is_said(answer), (query[:200], answer.status_code, answer.text[:500])
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "NONE"):
        answer = await console.client.request(method, path, params=SENSIBLE)
        assert answer.status_code in (403, 405), method
        assert len(answer.text.splitlines()) == 1
    assert not [each for each in caplog.records if each.name.startswith("adkpg.tooling.console")]


@pytest.mark.parametrize("path", SENT)
async def test_no_form_is_too_odd(
    console: Browser, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = await console.token("/login")
    for body in oddly(SENT[path], form_token=token):
        answer = await console.client.post(path, content=body)
        assert is_said(answer), (body[:200], answer.status_code, answer.text[:500])
    assert not [each for each in caplog.records if each.name.startswith("adkpg.tooling.console")]


@pytest.mark.parametrize("path", SENT)
async def test_of_a_console_that_only_reads_no_action_does_anything(
    database: Database,
    memory: PgVectorMemoryService,
    browse: Callable[..., Browser],
    connection: asyncpg.Connection,
    path: str,
) -> None:
    reading = browse(create_console(database, memory=memory, read_only=True))
    token = await reading.token("/login")
    answer = await reading.post(path, **{**SENSIBLE, "again": "ana", "form_token": token})
    assert (answer.status_code, answer.text) == (
        403,
        "The console is read-only; nothing was changed.\n",
    )
    assert await connection.fetchval("SELECT count(*) FROM audit") == 0
    assert await memory.get_memory(**ANA, memory_id="n")
