"""Any bytes for a file, any text for a document: stored and found by its words, or refused."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adkpg import PgVectorMemoryService
from adkpg.documents import Documents
from adkpg.documents.files import files, read
from adkpg.errors import InvalidInput
from tests.fakes.strategies import any_text

_markdown = st.lists(
    st.sampled_from(
        ["# ", "## ", "```\n", "| a | b |\n|---|\n", "- ", "> ", "<!--", "-->", "<script>", "&#0;"]
    )
    | st.sampled_from(
        ["[x](", "![", "\n\n", "\t", "\r", "tea ", "word " * 300, "    code\n", "---\n", "\x0c"]
    )
    | any_text,
    max_size=15,
).map("".join)


@given(st.binary(max_size=200), st.sampled_from([".txt", ".md", ".pdf", ".HTML", ""]))
def test_any_file_is_text_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("files") / f"file{suffix}"
    path.write_bytes(content)
    said = None
    try:
        text = read(path)
    except InvalidInput as exc:
        said = str(exc)
    if said is None:
        assert text.encode() == content.removeprefix(b"\xef\xbb\xbf")
    else:
        assert str(path) in said


@given(st.lists(st.text(min_size=1, max_size=20) | st.sampled_from(["**", "[", "~", "\x00"])))
def test_any_names_lead_to_files_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    place = tmp_path_factory.mktemp("names")
    (place / "one.md").write_text("tea")
    said, found = "", []
    try:
        found = files([f"{place}/{name}" for name in names])
    except InvalidInput as exc:
        said = str(exc)
    assert found or "leads to no file" in said or not names


def test_any_document_is_stored(database_url: str) -> None:
    with asyncio.Runner() as runner:
        memory = PgVectorMemoryService(database_url, mode="text")
        documents = Documents(memory, chunk_tokens=40)

        @settings(max_examples=25)
        @given(_markdown, any_text, st.booleans())
        def run(text: str, source: str, markdown: bool) -> None:
            try:
                report = runner.run(
                    documents.add(app_name="app", source=source, text=text, markdown=markdown)
                )
            except InvalidInput:
                return
            again = runner.run(
                documents.add(app_name="app", source=source, text=text, markdown=markdown)
            )
            assert (again.added, again.removed) == (0, 0)
            pieces = report.added + report.unchanged
            assert runner.run(documents.delete(app_name="app", source=source)) == pieces

        run()
        runner.run(memory.close())
