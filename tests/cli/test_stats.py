"""``adkpg stats`` in the terminal."""

import asyncio
import json

import pytest

from adkpg import DatabaseSessionService
from tests.fakes.commands import Adkpg
from tests.fakes.conversation import said


def _live(url: str) -> None:
    async def live() -> None:
        async with DatabaseSessionService(url) as sessions:
            session = await sessions.create_session(app_name="travel", user_id="ada")
            await sessions.append_event(session, said("hello"))

    asyncio.run(live())


def test_the_tables_name_apps_users_and_tables(adkpg: Adkpg, database_url: str) -> None:
    _live(database_url)
    outcome = adkpg("stats", "--database-url", database_url)
    assert (outcome.code, outcome.err) == (0, "")
    assert max(map(len, outcome.out.splitlines())) < 80
    lines = [line.split() for line in outcome.out.splitlines() if line]
    assert lines[0][:4] == ["APP", "USERS", "SESSIONS", "NEW"]
    assert lines[1][:6] == ["travel", "1", "1", "1", "1", "1"]
    assert ["travel", "1", "1", "ada"] in [[*line[:3], line[-1]] for line in lines]
    assert "alembic_version" in {line[0] for line in lines}


def test_json_has_the_same(adkpg: Adkpg, database_url: str) -> None:
    _live(database_url)
    found = json.loads(
        adkpg("stats", "--since", "2d", "--json", "--database-url", database_url).out
    )
    assert (found["span_s"], found["apps"][0]["events"]) == (172_800, 1)
    assert found["users"][0]["user_id"] == "ada"
    assert {each["name"] for each in found["tables"]} >= {"events"}


def test_estimates_have_their_sign(
    adkpg: Adkpg, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _live(database_url)
    monkeypatch.setattr("adkpg.operations.figures.percent", lambda _: 100.0)
    monkeypatch.setattr("adkpg.operations.figures.few_of", lambda _: 1)
    outcome = adkpg("stats", "--database-url", database_url)
    assert outcome.out.splitlines()[1].split()[:4] == ["travel", "~1", "~1", "~1"]
    assert "~ is estimated from samples of large tables; --exact counts." in outcome.out
    assert "~" not in adkpg("stats", "--exact", "--database-url", database_url).out


def test_nothing_and_bad_input_are_a_sentence(adkpg: Adkpg, database_url: str) -> None:
    assert adkpg("stats", "--database-url", database_url).out.startswith("There is nothing yet.")
    refused = adkpg("stats", "--users", "99999999", "--database-url", database_url)
    assert refused.code == 2
    assert "Traceback" not in refused.err
    assert adkpg("stats", "--since", "never", "--database-url", database_url).code == 2
