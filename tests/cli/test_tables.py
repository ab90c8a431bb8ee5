"""Tables are cut to a terminal, and whole lines in a pipe."""

import re

import pytest

from adkpg.tooling.terminal import cell, show

ID = "3f2a9b1c-0000-1111-2222-333344445555"
TEXT = "She moved to Lisbon\nin spring, and has a dog that is called Rex, and a cat. " * 3
COLUMNS = ("ID", "TIME", "FROM", "MEMORY")
ROWS = [(ID, "2026-03-01 10:00:00", "alice", TEXT), ("short", "", "日本", cell("[b]x\x1b", "dim"))]


def printed(capsys: pytest.CaptureFixture[str], *, full: bool = False) -> list[str]:
    show(COLUMNS, ROWS, full=full)
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()


@pytest.mark.parametrize("full", [False, True])
def test_in_a_pipe_each_row_is_one_whole_line(
    capsys: pytest.CaptureFixture[str], full: bool
) -> None:
    heading, first, second = printed(capsys, full=full)
    assert heading.split() == list(COLUMNS)
    assert first.endswith(" ".join(TEXT.split()))
    assert first.index("alice") == second.index("日本")
    assert second.endswith("[b]x\\x1b")


def test_a_terminal_of_80_columns_has_whole_ids_and_cut_texts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(capsys)
    assert len(lines) == 6
    assert all(len(line) <= 80 for line in lines)
    assert lines[2].startswith(ID)
    assert lines[3].startswith("  She moved to Lisbon in spring, ")
    assert lines[3].endswith("…")


def test_a_text_is_whole_on_a_terminal_if_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "110")
    lines = printed(capsys, full=True)
    assert all(len(line) <= 110 for line in lines)
    place = lines[0].index("MEMORY")
    assert lines[1][place:] == "She moved to Lisbon"
    said = " ".join(line[place:] for line in lines[1:-1])
    assert said.split() == TEXT.split()
