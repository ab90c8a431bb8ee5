"""``adkpg import`` and ``adkpg export``: what they print, and what they refuse."""

import json
import stat
from pathlib import Path

import pytest

from tests.fakes.commands import Adkpg
from tests.fakes.story import FIXTURES

FILE = str(FIXTURES / "v1-adk-2.6.0-Europe-Vienna.db")


@pytest.fixture(autouse=True)
def _url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKPG_DATABASE_URL", database_url)


def test_in_and_out_and_in(adkpg: Adkpg, tmp_path: Path) -> None:
    dry = adkpg("import", FILE, "--dry-run")
    assert dry.code == 0
    assert "sessions would be created   4\n" in dry.out
    assert "Nothing was written." in dry.out
    report = json.loads(adkpg("import", FILE, "--json").out)
    assert (report["created"], report["events_written"], report["verified"]) == (4, 8, 4)
    assert report["complete"]

    path = tmp_path / "travel.jsonl"
    assert adkpg("export", "--app", "travel", "--output", str(path)).code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    printed = adkpg("export", "--app", "travel", "--user", "ana")
    assert {json.loads(line)["type"] for line in printed.out.splitlines()} >= {"session", "end"}
    again = json.loads(adkpg("import", str(path), "--json").out)
    assert (again["unchanged"], again["events_written"]) == (3, 0)

    left = adkpg("export", "--app", "travel", "--to", f"sqlite:///{tmp_path}/left.db")
    assert left.code == 0
    assert "3 new sessions, 7 new events" in left.out


def test_an_export_of_nothing_says_so_and_where_the_user_is(adkpg: Adkpg, tmp_path: Path) -> None:
    adkpg("import", FILE)
    path = tmp_path / "none.jsonl"
    ways: tuple[list[str], ...] = (
        [],
        ["--output", str(path)],
        ["--to", f"sqlite:///{tmp_path}/none.db"],
    )
    for way in ways:
        ended = adkpg("export", "--app", "elsewhere", "--user", "ana", *way)
        assert ended.code == 1
        assert "Nothing is kept of user 'ana' in app 'elsewhere'; the user is kept in" in ended.err
        assert "'travel'" in ended.err
        ended = adkpg("export", "--app", "travel", "--user", "nobody", *way)
        assert ended.code == 1
        assert "Nothing is kept of user 'nobody' in app 'travel'." in ended.err
        ended = adkpg("export", "--app", "travel", "--user", "ana", "--session", "none", *way)
        assert "Nothing is kept of session 'none' of user 'ana'" in ended.err
        assert "Nothing is kept of app 'none'." in adkpg("export", "--app", "none", *way).err
    assert not path.exists()


def test_what_could_not_be_read_ends_with_one(adkpg: Adkpg, tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    adkpg("import", FILE)
    adkpg("export", "--app", "travel", "--output", str(path))
    path.write_text(path.read_text().replace('"event":{', '"event":[', 1))
    ended = adkpg("import", str(path))
    assert ended.code == 1
    assert "Could not be read: " in ended.out
    assert ended.err.startswith("Error: 1 of the source's records")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["import", "nowhere.db"], 1, "There is no file"),
        (["import", "mysql://u:hunter2@h:x/d"], 1, "%XX"),
        (["import", "postgresql://u:hunter2@127.0.0.1:1/d"], 1, "cannot be reached"),
        (["import", FILE, "--source-timezone", "Nowhere"], 1, "no time zone"),
        (["import", FILE, "--since", "soon"], 2, "ISO 8601"),
        (["import", __file__], 2, "neither a database nor an export"),
        (["export", "--app", "a", "--session", "s"], 2, "needs --user"),
        (["export", "--app", "a", "--output", "/nowhere/f"], 1, "no folder"),
        (["export", "--app", "a", "--to", "sqlite:////nowhere/f.db"], 1, "no file"),
        (["export", "--app", "a", "--to", "oracle://u:hunter2@h/d"], 1, "asyncpg"),
    ],
)
def test_bad_input_is_one_sentence(
    adkpg: Adkpg, impatient: None, arguments: list[str], code: int, words: str
) -> None:
    ended = adkpg(*arguments)
    assert ended.code == code
    assert words in ended.err
    assert "Traceback" not in ended.err
    assert "hunter2" not in ended.out + ended.err
