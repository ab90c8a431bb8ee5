"""``adkpg memory add|config|jobs`` against a real server and the offline embedder."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import asyncpg
import pytest

from tests.fakes.commands import Adkpg

APP = ("--app", "chat")
GUIDE = "# Cats\n\nA kitten sleeps all day.\n\n# Cars\n\nThe car stands in the garage.\n"


@pytest.fixture(autouse=True)
def folder(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with documents, and a database named by the environment."""
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text(GUIDE, encoding="utf-8")
    (tmp_path / "docs" / "note.txt").write_text("Die Häuser stehen am Fluss.", encoding="utf-8")
    return tmp_path


def execute(database_url: str, sql: str) -> None:
    async def go() -> None:
        connection = await asyncpg.connect(database_url)
        await connection.execute(sql)
        await connection.close()

    asyncio.run(go())


def test_add_replace_list_and_remove(adkpg: Adkpg, folder: Path) -> None:
    added = json.loads(adkpg("memory", "add", "docs", *APP, "--topic", "home", "--json").out)
    assert added == {
        "documents": [
            {"source": "docs/guide.md", "added": 2, "unchanged": 0, "removed": 0},
            {"source": "docs/note.txt", "added": 1, "unchanged": 0, "removed": 0},
        ],
        "waiting": 0,
        "failed": [],
    }
    question = ("memory", "search", "Where is my automobile?", "--app", "chat", "--user", "ann")
    found = adkpg(*question, "--kind", "document", "--topic", "home", "--mode", "vector")
    assert "The car stands" in found.out
    assert "docs/guide.md" in found.out

    changed = GUIDE.replace("garage", "street") + "\n# Dogs\n\nThey bark.\n"
    (folder / "docs" / "guide.md").write_text(changed, encoding="utf-8")
    again = adkpg("memory", "add", "docs/*.md", *APP, "--topic", "home")
    assert again.code == 0
    assert again.out.split()[-4:] == ["2", "1", "1", "docs/guide.md"]

    listed = json.loads(adkpg("memory", "list", *APP, "--json").out)["memories"]
    assert Counter(each["source"] for each in listed) == {"docs/guide.md": 3, "docs/note.txt": 1}
    gone = adkpg(
        "memory", "delete", *APP, "--app-wide", "--source", "docs/guide.md", "--yes", "--json"
    )
    assert len(json.loads(gone.out)["deleted"]) == 3
    assert len(json.loads(adkpg("memory", "list", *APP, "--json").out)["memories"]) == 1


def test_search_explains(adkpg: Adkpg) -> None:
    adkpg("memory", "add", "docs/guide.md", *APP)
    options = ("--mode", "text", "--limit", "1")
    outcome = adkpg("memory", "search", "sleeping kitten", *APP, *options, "--explain")
    shown = " ".join(outcome.out.split())
    for part in ("= kitten, sleep;", "importance 1.000"):
        assert part in shown
    (hit,) = json.loads(adkpg("memory", "search", "kitten", *APP, *options, "--json").out)["hits"]
    assert hit["reason"]["lexemes"] == ["kitten"]


def test_a_users_own_documents_are_the_users(adkpg: Adkpg) -> None:
    adkpg("memory", "add", "docs/note.txt", *APP, "--user", "ann")
    of_app = adkpg("memory", "list", *APP, "--json")
    of_ann = adkpg("memory", "list", *APP, "--user", "ann", "--json")
    assert json.loads(of_app.out)["memories"] == []
    assert len(json.loads(of_ann.out)["memories"]) == 1


def test_what_is_no_text_is_said_and_the_rest_is_added(adkpg: Adkpg, folder: Path) -> None:
    (folder / "docs" / "broken.md").write_bytes(b"\xff\x00")
    outcome = adkpg("memory", "add", "docs", *APP)
    assert outcome.code == 1
    assert "broken.md is not text" in outcome.err
    assert "docs/guide.md" in outcome.out
    missing = adkpg("memory", "add", "nothing.md", *APP)
    assert (missing.code, missing.out) == (2, "")
    assert "leads to no file" in missing.err


def test_without_an_embedder_pieces_wait(adkpg: Adkpg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")
    outcome = adkpg("memory", "add", "docs/guide.md", *APP, "--json")
    assert json.loads(outcome.out)["waiting"] == 2
    assert "garage" in adkpg("memory", "search", "garage", *APP, "--mode", "text").out


def test_another_active_model_is_a_warning(adkpg: Adkpg, database_url: str) -> None:
    adkpg("memory", "add", "docs/note.txt", *APP)
    execute(database_url, "UPDATE adkpg.embedding_models SET name = 'another'")
    outcome = adkpg("memory", "add", "docs/guide.md", *APP, "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["waiting"] == 2
    assert "'another'" in outcome.err


def test_the_language_of_an_app(adkpg: Adkpg) -> None:
    adkpg("memory", "add", "docs/note.txt", *APP)
    question = ("memory", "search", "Haus", *APP, "--mode", "text")
    assert adkpg("memory", "config", *APP).out == "by script\n"
    assert adkpg(*question).out.startswith("Nothing")
    done = adkpg("memory", "config", "german", *APP)
    assert (done.code, done.out) == (0, "german\nMemories with new words: 1.\n")
    assert "Häuser" in adkpg(*question).out
    told = json.loads(adkpg("memory", "config", *APP, "--json").out)
    assert told == {"config": "german", "written": None}
    back = json.loads(adkpg("memory", "config", "--by-script", *APP, "--json").out)
    assert back == {"config": None, "written": 1}
    assert adkpg(*question).out.startswith("Nothing")
    unknown = adkpg("memory", "config", "klingon", *APP)
    assert unknown.code == 1
    assert "german" in unknown.err
    assert adkpg("memory", "config", "german", "--by-script", *APP).code == 2


def test_jobs_are_counted_and_revived(
    adkpg: Adkpg, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKPG_EMBEDDER", "none")
    adkpg("memory", "add", "docs/guide.md", *APP, "--user", "ann")
    adkpg("memory", "add", "docs/note.txt", *APP, "--user", "bob")
    kill = "UPDATE adkpg.memory_jobs SET dead = true, error = 'Refused.' WHERE user_id = 'ann'"
    execute(database_url, kill)
    table = adkpg("memory", "jobs").out
    assert table.splitlines()[1].split() == ["embed", "1", "0", "2", "Refused."]
    assert table.splitlines()[2].split() == ["extract", "0", "0", "0"]
    other = json.loads(adkpg("memory", "jobs", *APP, "--user", "bob", "--revive", "--json").out)
    assert other["revived"] == 0
    assert other["jobs"][0] == {
        "work": "embed",
        "waiting": 1,
        "failed": 0,
        "dead": 0,
        "error": None,
    }
    revived = adkpg("memory", "jobs", "--revive")
    assert revived.out.startswith("Revived: 2.\n")
    assert json.loads(adkpg("memory", "jobs", "--json").out)["jobs"][0]["waiting"] == 3
    of_app = json.loads(adkpg("memory", "jobs", *APP, "--json").out)["jobs"]
    assert [job["waiting"] for job in of_app] == [3, 0]
    of_other = json.loads(adkpg("memory", "jobs", "--app", "other", "--json").out)["jobs"]
    assert [job["waiting"] for job in of_other] == [0, 0]
    assert adkpg("memory", "jobs", "--user", "ann").code == 2
