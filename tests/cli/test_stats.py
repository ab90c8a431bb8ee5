"""``adkpg stats`` in the terminal."""

import asyncio
import json

from adkpg import DatabaseSessionService
from tests.fakes.commands import Adkpg, Outcome
from tests.fakes.conversation import said


def _live(url: str) -> None:
    async def live() -> None:
        async with DatabaseSessionService(url) as sessions:
            session = await sessions.create_session(app_name="travel", user_id="ada")
            await sessions.append_event(session, said("hello"))

    asyncio.run(live())


def test_what_waits_and_how_large_tables_are_is_shown(adkpg: Adkpg, database_url: str) -> None:
    _live(database_url)
    outcome = adkpg("stats", "--database-url", database_url)
    assert (outcome.code, outcome.err) == (0, "")
    lines = [line.split() for line in outcome.out.splitlines() if line]
    assert lines[:3] == [
        ["WORK", "WAITING", "FAILED", "DEAD", "LETTERS"],
        ["embed", "0", "0", "0"],
        ["extract", "0", "0", "0"],
    ]
    assert lines[3] == ["TABLE", "ROWS", "SIZE", "INDEXES"]
    *tables, (empty, *words) = lines[4:]
    assert {"events", "sessions", "adkpg_version"} <= {line[0] for line in tables}
    assert "memories" not in {line[0] for line in tables}
    assert words == ["more", "tables", "are", "empty."]
    known = json.loads(adkpg("stats", "--json", "--database-url", database_url).out)["tables"]
    assert len(known) == len(tables) + int(empty)
    assert {each["name"] for each in known if not each["rows"]} >= {"memories"}


def test_what_is_counted_names_apps_and_users(adkpg: Adkpg, database_url: str) -> None:
    _live(database_url)
    outcome = adkpg("stats", "--exact", "--database-url", database_url)
    assert (outcome.code, outcome.err) == (0, "")
    assert max(map(len, outcome.out.splitlines())) < 80
    lines = [line.split() for line in outcome.out.splitlines() if line]
    assert lines[0][:4] == ["APP", "USERS", "SESSIONS", "NEW"]
    assert lines[1][:6] == ["travel", "1", "1", "1", "1", "1"]
    assert ["travel", "1", "1", "ada"] in [[*line[:3], line[-1]] for line in lines]
    assert "adkpg_version" in {line[0] for line in lines}


def test_json_has_the_same(adkpg: Adkpg, database_url: str) -> None:
    _live(database_url)
    known = json.loads(adkpg("stats", "--json", "--database-url", database_url).out)
    assert [each["work"] for each in known["jobs"]] == ["embed", "extract"]
    assert {each["name"] for each in known["tables"]} >= {"events"}
    found = json.loads(
        adkpg("stats", "--exact", "--since", "2d", "--json", "--database-url", database_url).out
    )
    assert found.keys() - known.keys() == {"span_s", "apps", "users"}
    assert (found["span_s"], found["apps"][0]["events"]) == (172_800, 1)
    assert found["users"][0]["user_id"] == "ada"


def test_nothing_and_bad_input_are_a_sentence(adkpg: Adkpg, database_url: str) -> None:
    def stats(*options: str) -> Outcome:
        return adkpg("stats", *options, "--database-url", database_url)

    assert stats("--exact").out.startswith("There is nothing yet.")
    for wrong in (
        ("--exact", "--users", "99999999"),
        ("--exact", "--since", "never"),
        ("--app", "travel"),
        ("--since", "7d"),
        ("--users", "3"),
    ):
        refused = stats(*wrong)
        assert (refused.code, refused.out) == (2, ""), wrong
        assert "Traceback" not in refused.err
