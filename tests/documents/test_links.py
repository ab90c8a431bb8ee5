"""A folder of documents is what is in it, not what a link in it leads to."""

import logging
import os
from pathlib import Path

import pytest

from adkpg.documents.files import files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a document, a link within it, and links out of it."""
    monkeypatch.chdir(tmp_path)
    for name in ("docs/deep", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "docs" / "a.md").write_text("Ours.")
    (tmp_path / "elsewhere" / "secret.md").write_text("Theirs.")
    (tmp_path / "docs" / "deep" / "same.md").symlink_to("../a.md")
    (tmp_path / "docs" / "file.md").symlink_to("../elsewhere/secret.md")
    (tmp_path / "docs" / "absolute.md").symlink_to(tmp_path / "elsewhere" / "secret.md")
    (tmp_path / "docs" / "linked").symlink_to("../elsewhere", target_is_directory=True)
    return tmp_path


@pytest.mark.parametrize("name", ["docs", "docs/", "docs/**/*.md", "{}/docs", "./docs/**"])
def test_links_out_of_it_are_left_out_with_a_warning(
    folder: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = files([name.format(folder)])
    assert {os.path.realpath(each.path) for each in found} == {
        os.path.realpath(folder / "docs" / "a.md")
    }
    assert "is a link out of" in caplog.text


def test_a_folder_that_is_itself_a_link_and_a_file_that_is_named_are_taken(folder: Path) -> None:
    (folder / "here").symlink_to("docs", target_is_directory=True)
    assert "here/a.md" in {each.source for each in files(["here"])}
    assert [each.source for each in files(["docs/file.md"])] == ["docs/file.md"]
