"""Operations: what waits, dead letters, models, sizes, health, and the audit."""

import html
from typing import Any

import asyncpg

from adkpg import Database, PgVectorMemoryService
from adkpg.audit import Audit
from adkpg.tooling.operations import table_sizes
from tests.fakes.browser import Browser
from tests.fakes.conversation import entry

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}


async def dead(connection: asyncpg.Connection) -> list[str]:
    rows = await connection.fetch(
        "SELECT memory_id FROM memory_jobs JOIN memories USING (app_name, user_id, position)"
        " WHERE dead ORDER BY memory_id"
    )
    return [row["memory_id"] for row in rows]


async def test_dead_letters_have_their_error_and_are_retried(
    browser: Browser,
    database: Database,
    memory: PgVectorMemoryService,
    connection: asyncpg.Connection,
) -> None:
    await memory.add_memory(**ANA, memories=[entry(text, text) for text in ("one", "two", "three")])
    await memory.add_memory(app_name="app", user_id=None, memories=[entry("four", "four")])
    await connection.execute(
        "INSERT INTO memory_jobs (app_name, user_id, position, work, dead, attempts, error)"
        " SELECT app_name, user_id, position, 'embed', true, 5, 'the model is out' FROM memories"
    )
    page = await browser.text("/operations")
    assert page.count("the model is out") == 4
    assert "<strong>4</strong><span>dead letters (embed)</span>" in page
    form = await browser.token("/operations")
    place = {"app": "app", "user": "ana", "work": "embed"}
    answer = await browser.post("/operations/retry", form_token=form, **place, memory="two")
    assert answer.status_code == 303
    assert await dead(connection) == ["four", "one", "three"]
    await browser.post("/operations/retry", form_token=form, app="app", work="embed", memory="four")
    assert await dead(connection) == ["one", "three"]
    await browser.post("/operations/retry-all", form_token=form, app="app", work="embed")
    assert await dead(connection) == []
    assert "No dead letters." in await browser.text("/operations")
    actions = [each.action for each in (await Audit(database).entries()).items]
    assert actions == ["retry_all", "retry", "retry"]
    wrong = await browser.post("/operations/retry", form_token=form, app="a", work="x", memory="m")
    assert wrong.status_code == 400


async def test_sizes_are_shown_and_models_and_health_if_that_is_asked_for(
    browser: Browser, database: Database, memory: PgVectorMemoryService
) -> None:
    await memory.add_memory(**ANA, memories=[entry("my kitten", "one")])
    page = html.unescape(await browser.text("/operations"))
    assert "memory_<wbr>lexemes" in page
    assert "memory_<wbr>provenance" not in page, "it is empty"
    shown = page.split('<table class="sizes">')[1].count('<th scope="row">')
    assert f"{len(await table_sizes(database)) - shown} more tables are empty." in page
    assert "Examine now" in page
    examined = await browser.text("/operations", examine=1)
    assert memory.embedder is not None
    assert memory.embedder.model in examined
    assert "1 of 1" in examined
    assert "pgvector" in examined
    assert 'class="status ok"' in examined


async def test_the_audit_is_shown_page_by_page(browser: Browser, database: Database) -> None:
    audit = Audit(database)
    for number in range(102):
        async with audit.recording(**ANA, actor="Bea", action=f"action-{number}."):
            pass
    page = await browser.text("/audit")
    assert "action-101." in page
    assert "action-1." not in page
    assert "Bea" in page
    assert "cursor=" in page
    assert "Nothing was changed" in await browser.text("/audit", app="other")
