"""The audit: what people changed by hand, who and when, and nothing of those who were forgotten."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from adkpg import Database, Settings, Users
from adkpg.audit import Audit, acting_as
from adkpg.erasure import forget, tidy
from adkpg.errors import InvalidInput

ANA: dict[str, Any] = {"app_name": "app", "user_id": "ana"}


async def test_a_change_is_noted_before_it_is_made_and_with_its_outcome(database: Database) -> None:
    audit = Audit(database)
    async with audit.recording(**ANA, actor="Bea", action="delete_memory", subject="m1"):
        (begun,) = (await audit.entries(**ANA)).items
        assert begun.outcome == "begun"
    with pytest.raises(KeyError):
        async with audit.recording(**ANA, actor="Bea", action="update_memory"):
            raise KeyError("secret")
    second, first = (await audit.entries(**ANA)).items
    assert (first.actor, first.action, first.subject, first.outcome) == (
        "Bea",
        "delete_memory",
        "m1",
        "done",
    )
    assert (second.action, second.outcome) == ("update_memory", "KeyError")
    assert second.changed_at >= first.changed_at


async def test_forgetting_a_person_erases_their_entries(
    database: Database, connection: asyncpg.Connection
) -> None:
    audit = Audit(database)
    async with audit.recording(**ANA, actor="Bea", action="delete_memory"):
        pass
    with acting_as("Bea"):
        await forget(database, **ANA)
    (left,) = (await audit.entries()).items
    assert (left.user_id, left.action, left.outcome) == (None, "forget_person", "done")
    assert left.actor == "Bea"
    rows = await connection.fetchval("SELECT string_agg(audit::text, '') FROM audit")
    assert "ana" not in rows


async def test_old_entries_are_tidied_away(
    database: Database, connection: asyncpg.Connection, database_url: str
) -> None:
    audit = Audit(database)
    for action, days in (("old", 366), ("young", 364)):
        async with audit.recording(**ANA, actor="Bea", action=action):
            pass
        await connection.execute(
            "UPDATE audit SET changed_at = $1 WHERE action = $2",
            datetime.now(UTC) - timedelta(days=days),
            action,
        )
    assert (await tidy(database)).audit == 1
    assert [each.action for each in (await audit.entries()).items] == ["young"]
    async with Database(database_url, settings=Settings(audit_days=30)) as forgetful:
        assert (await tidy(forgetful)).audit == 1
    assert (await audit.entries()).items == []


async def test_pages_go_from_the_newest_to_the_oldest(database: Database) -> None:
    audit = Audit(database)
    for number in range(5):
        user = {"app_name": "app", "user_id": "ana" if number % 2 else "bob"}
        async with audit.recording(**user, actor="Bea", action=f"a{number}"):
            pass
    found: list[str] = []
    cursor = None
    while True:
        page = await audit.entries(limit=2, cursor=cursor)
        found += [entry.action for entry in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == ["a4", "a3", "a2", "a1", "a0"]
    assert [each.action for each in (await audit.entries(**ANA)).items] == ["a3", "a1"]
    assert (await audit.entries(app_name="app", user_id=Users.APP_WIDE)).items == []


async def test_pages_of_one_moment_leave_none_out_and_tell_none_twice(
    database: Database, connection: asyncpg.Connection
) -> None:
    audit = Audit(database)
    for number in range(9):
        async with audit.recording(**ANA, actor="Bea", action=f"a{number}"):
            pass
    await connection.execute("UPDATE audit SET changed_at = now()")
    found: list[str] = []
    cursor = None
    while True:
        page = await audit.entries(limit=2, cursor=cursor)
        found += [entry.action for entry in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert sorted(found) == [f"a{number}" for number in range(9)]


async def test_what_cannot_be_noted_is_not_done(database: Database) -> None:
    audit = Audit(database)
    done = False
    with pytest.raises(InvalidInput):
        async with audit.recording(app_name="a\x00", user_id="u", actor="x", action="y"):
            done = True
    assert not done
    for cursor in ("nonsense", "WyIyMDI2LTAxLTAxVDAwOjAwOjAwKzAwOjAwIiwgIm5vIl0"):
        with pytest.raises(InvalidInput):
            await audit.entries(cursor=cursor)


async def test_any_name_can_be_noted(database: Database) -> None:
    audit = Audit(database)
    async with audit.recording(**ANA, actor="\x00" * 300, action="\ud800", subject="\x00"):
        pass
    (entry,) = (await audit.entries(**ANA)).items
    assert len(entry.actor) == 200
