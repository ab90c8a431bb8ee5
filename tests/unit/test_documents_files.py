"""Which files a name leads to, and what is not a text."""

from pathlib import Path

import pytest

from adkpg.documents.files import files, read
from adkpg.errors import InvalidInput


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("docs/b.md", "docs/a.TXT", "docs/deep/c.rst", "docs/code.py", "docs/.git/d.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    (tmp_path / "docs" / ".hidden.md").write_text("x", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("names", "sources"),
    [
        (["docs"], ["docs/a.TXT", "docs/b.md", "docs/deep/c.rst"]),
        (["./docs/"], ["docs/a.TXT", "docs/b.md", "docs/deep/c.rst"]),
        (["docs/code.py"], ["docs/code.py"]),
        (["docs/b.md", "docs/../docs/b.md", "docs/*.md"], ["docs/b.md"]),
        (["docs/**/*.rst"], ["docs/deep/c.rst"]),
    ],
)
def test_names_lead_to_files(folder: Path, names: list[str], sources: list[str]) -> None:
    found = files(names)
    assert [file.source for file in found] == sources
    assert all((folder / file.path).is_file() for file in found)


def test_an_absolute_path_is_its_own_name(folder: Path) -> None:
    path = folder / "docs" / "b.md"
    assert [file.source for file in files([str(path)])] == [path.as_posix()]


@pytest.mark.parametrize("name", ["nothing.md", "docs/.git/*.txt", "docs/nothing*", "empty"])
def test_a_name_that_leads_nowhere_is_said(folder: Path, name: str) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(InvalidInput, match="leads to no file"):
        files([name])


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.pdf", b"%PDF-1.7", "PDF"),
        ("a.HTML", b"<p>text</p>", "HTML"),
        ("a.md", b"\xff\xfea\x00", "UTF-8"),
        ("a.bin", b"a\x00b", "NUL"),
        ("gone.md", None, "cannot be read"),
    ],
)
def test_what_is_no_text_is_said(
    tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=sentence):
        read(path)


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_bytes("\ufeff# Tée".encode())
    assert read(path) == "# Tée"
