"""``adkpg doctor`` in the terminal: a line for each check, its cure, an exit code for CI."""

import asyncio
import json

import asyncpg
import pytest

from tests.fakes.commands import Adkpg


def _run(url: str, sql: str) -> None:
    async def send() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    asyncio.run(send())


def test_each_check_is_one_line_and_a_failure_ends_with_1(adkpg: Adkpg, database_url: str) -> None:
    _run(database_url, "DROP INDEX adkpg.memories_kind_idx")
    outcome = adkpg("doctor", "--database-url", database_url)
    assert outcome.code == 1
    # The server of the tests keeps nothing through a crash, either.
    assert outcome.err == (
        "Error: Not all is well with settings, indexes; run the commands that the report names.\n"
    )
    lines = outcome.out.splitlines()
    said = [line.split()[:2] for line in lines if not line.startswith(" ")]
    assert len(said) == 10
    assert {status for status, _ in said} == {"ok", "warning", "failure"}
    assert "Remembering is off" in lines[-1]
    at = said_at(lines, "indexes")
    assert lines[at].startswith("failure  indexes     memories_kind_idx is missing")
    assert lines[at + 1].strip().startswith("CREATE INDEX memories_kind_idx ON adkpg.memories")


def said_at(lines: list[str], check: str) -> int:
    return next(n for n, line in enumerate(lines) if line.split()[1:2] == [check])


def test_json_has_every_finding(adkpg: Adkpg, database_url: str) -> None:
    outcome = adkpg("doctor", "--json", "--database-url", database_url)
    found = json.loads(outcome.out)
    assert (outcome.code, found["status"]) == (1, "failure")  # the tests' server keeps nothing
    assert found["findings"][0].keys() == {"check", "status", "detail", "cure"}
    assert all((each["cure"] is None) == (each["status"] == "ok") for each in found["findings"])


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_away_is_one_sentence(adkpg: Adkpg) -> None:
    url = "postgresql://nobody@127.0.0.1:1/nothing"
    outcome = adkpg("doctor", "--database-url", url)
    assert (outcome.code, outcome.out) == (1, "")
    assert len(outcome.err.strip().splitlines()) == 1
    assert "Traceback" not in outcome.err
