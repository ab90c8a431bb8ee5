"""``adkpg db`` against a real server."""

import asyncio
import json
from pathlib import Path

import pytest

from adkpg import PgVectorMemoryService
from adkpg.database.migrating import migrations
from tests.fakes.commands import Adkpg
from tests.fakes.conversation import entry


@pytest.fixture
def empty(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty database, named by the environment."""
    monkeypatch.setenv("ADKPG_DATABASE_URL", empty_database_url)
    return empty_database_url


@pytest.mark.usefixtures("empty")
def test_up_and_down_again(adkpg: Adkpg) -> None:
    assert adkpg("db", "current").out == "none\n"
    for _ in range(2):
        upgraded = adkpg("db", "upgrade")
        assert upgraded.code == 0
        assert f"at revision {migrations.expected()}" in upgraded.out
    assert adkpg("db", "current").out == f"{migrations.expected()}\n"
    assert adkpg("db", "check").code == 0
    assert adkpg("db", "downgrade", "base", "--yes").out.endswith("Removed.\n")
    assert adkpg("db", "current").out == "none\n"
    assert adkpg("db", "downgrade", "base").out == "There are no tables of adkpg.\n"


@pytest.mark.usefixtures("empty")
def test_downgrade_shows_what_goes_and_asks(adkpg: Adkpg) -> None:
    adkpg("db", "upgrade")
    before = adkpg("db", "current", "--json").out
    shown = adkpg("db", "downgrade", "base", "--dry-run")
    assert shown.out.split()[:3] == ["DATABASE", "FROM", "TO"]
    assert shown.out.endswith("Nothing was removed.\n")
    for outcome in (adkpg("db", "downgrade", "base"), adkpg("db", "downgrade", "base", answer="n")):
        assert outcome.code == 1
    assert adkpg("db", "current", "--json").out == before
    down = json.loads(adkpg("db", "downgrade", "base", "--json", answer="y").out)
    assert down["downgrade"]["from"] == json.loads(before)["revision"]
    assert json.loads(adkpg("db", "current", "--json").out) == {"revision": None}


@pytest.mark.usefixtures("empty")
def test_revisions_as_json(adkpg: Adkpg) -> None:
    revision = {"revision": migrations.expected()}
    upgraded = json.loads(adkpg("db", "upgrade", "--json").out)
    assert upgraded["revision"] == revision["revision"]
    for command in ("current", "check"):
        assert json.loads(adkpg("db", command, "--json").out) == revision
    assert "url" in json.loads(adkpg("db", "url", "--json").out)


@pytest.mark.usefixtures("empty")
def test_check_says_what_to_type_next(adkpg: Adkpg) -> None:
    outcome = adkpg("db", "check")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.endswith("run: adkpg db upgrade\n")
    assert outcome.err.count("\n") == 1


def test_tidy_erases_and_counts(
    adkpg: Adkpg, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)

    async def remember() -> None:
        async with PgVectorMemoryService(database_url, mode="text") as memory:
            short: dict[str, object] = {"ttl": 1e-3}
            await memory.add_memory(
                app_name="app", user_id="ana", memories=[entry("tea")], custom_metadata=short
            )

    asyncio.run(remember())
    tidied = json.loads(adkpg("db", "tidy", "--json").out)
    assert tidied == {
        "memories": 1,
        "tombstones": 0,
        "results": 0,
        "sessions": 0,
        "audit": 0,
        "tasks": 0,
        "objects": 0,
    }
    nothing = (
        "Erased: 0 expired sessions, 0 expired memories, 0 marks of deleted ones, "
        "0 expired results, 0 old entries of the audit, 0 old tasks.\n"
    )
    assert adkpg("db", "tidy").out == nothing


def test_the_option_wins_over_the_environment(
    adkpg: Adkpg, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert adkpg("db", "check", "--database-url", database_url).code == 0


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("command", ["upgrade", "downgrade", "sql"])
@pytest.mark.parametrize(("revision", "said"), [("nosuch", "nosuch"), ("", "is empty")])
def test_an_unknown_revision_is_a_sentence(
    adkpg: Adkpg, command: str, revision: str, said: str
) -> None:
    outcome = adkpg("db", command, revision)
    assert (outcome.code, outcome.out) == (1, "")
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


def test_downgrade_needs_a_revision(adkpg: Adkpg) -> None:
    outcome = adkpg("db", "downgrade")
    assert outcome.code == 2
    assert "REV" in outcome.err


def test_sql_needs_no_database(adkpg: Adkpg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setenv("ADKPG_DATABASE_SCHEMA", "elsewhere")
    outcome = adkpg("db", "sql")
    assert outcome.code == 0
    assert "CREATE TABLE elsewhere.sessions" in outcome.out
    assert outcome.err == ""


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://me:hidden@db.example/agents", "postgresql://me:***@db.example/agents"),
        ("postgresql://me@db.example/agents?password=hidden", "postgresql://me@db.example/agents"),
        ("postgresql+asyncpg://db.example/agents", "postgresql://db.example/agents"),
    ],
)
def test_url_hides_the_password(adkpg: Adkpg, url: str, shown: str) -> None:
    outcome = adkpg("db", "url", "--database-url", url)
    assert outcome.code == 0
    assert shown in outcome.out
    assert "hidden" not in outcome.out


def test_url_of_the_embedded_server_starts_nothing(
    adkpg: Adkpg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_EMBEDDED_DIR", str(tmp_path / "server"))
    outcome = adkpg("db", "url", "--database-url", "embedded")
    assert outcome.out.startswith("postgresql://postgres@/adkpg?host=/")
    assert list(tmp_path.iterdir()) == []


def test_no_database_is_a_sentence(adkpg: Adkpg) -> None:
    outcome = adkpg("db", "current")
    assert (outcome.code, outcome.out) == (1, "")
    assert "set ADKPG_DATABASE_URL or give --database-url" in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_server_out_of_reach_is_a_sentence_without_the_password(adkpg: Adkpg) -> None:
    outcome = adkpg("db", "current", "--database-url", "postgresql://me:hidden@127.0.0.1:1/none")
    assert (outcome.code, outcome.out) == (1, "")
    assert "cannot be reached" in outcome.err
    assert "hidden" not in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_wrong_setting_is_a_sentence_without_its_value(
    adkpg: Adkpg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_POOL_SIZE", "hidden")
    outcome = adkpg("db", "url", "--database-url", "postgresql://db.example/agents")
    assert (outcome.code, outcome.out) == (1, "")
    assert "ADKPG_POOL_SIZE" in outcome.err
    assert "hidden" not in outcome.err
    assert outcome.err.count("\n") == 1
