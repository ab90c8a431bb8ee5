"""How a document is cut: at the borders of what it says."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkpg.documents.chunking import BLOCK_TOKENS, CHUNK_TOKENS, chunks
from adkpg.embedding.local import LocalEmbedder
from adkpg.memory.vectors.passages import tokens

SENTENCE = "The quick brown fox jumps over the lazy dog near the river bank today. "
GUIDE = """\
---
title: Guide
---
Before any heading.

# Guide

Welcome.

## Install ##

Run this:

```sh
# not a heading
pip install it

done
```

Usage
-----

| command | effect |
|---------|--------|
| add     | adds   |

***

### Empty
# Second
#hashtag is text
"""


def markdown(text: str, max_tokens: int = CHUNK_TOKENS) -> list[str]:
    return chunks(text, as_markdown=True, max_tokens=max_tokens)


def plain(text: str, max_tokens: int = CHUNK_TOKENS) -> list[str]:
    return chunks(text, as_markdown=False, max_tokens=max_tokens)


def test_each_section_is_a_piece_under_its_headings() -> None:
    assert markdown(GUIDE) == [
        "title: Guide\n\nBefore any heading.",
        "Guide\n\nWelcome.",
        "Guide > Install\n\nRun this:\n\n```sh\n# not a heading\npip install it\n\ndone\n```",
        "Guide > Usage\n\n| command | effect |\n|---------|--------|\n| add     | adds   |",
        "Guide > Usage > Empty",
        "Second\n\n#hashtag is text",
    ]


def test_headings_are_those_of_commonmark_outside_code_quotations_and_comments() -> None:
    text = "Two\nlines\n===\n\n> # quoted\n\n<!--\n# hidden\n-->\n\n[a]: https://a.example\n\n"
    code = "1. Run:\n\n   ```sh\n   # not a heading\n\n   run\n   ```"
    assert markdown(text + code) == [
        "Two lines\n\n> # quoted\n\n<!--\n# hidden\n-->\n\n[a]: https://a.example\n\n" + code
    ]


@pytest.mark.parametrize("text", ["", " \n\t\n", "\r\n\r\n"])
def test_a_blank_document_has_no_pieces(text: str) -> None:
    assert markdown(text) == plain(text) == []


def test_line_ends_are_alike() -> None:
    assert markdown(GUIDE.replace("\n", "\r\n")) == markdown(GUIDE)


def test_paragraphs_are_cut_at_sentences() -> None:
    pieces = plain(SENTENCE * 40)
    assert len(pieces) == 4
    assert all(piece.startswith("The quick") and piece.endswith("today.") for piece in pieces)
    assert all(CHUNK_TOKENS / 2 < tokens(piece) <= CHUNK_TOKENS for piece in pieces[:-1])


def test_sentences_of_scripts_without_blanks_are_found() -> None:
    pieces = plain("私は昨日東京へ行きました。とても楽しかったです。" * 20)
    assert all(piece.endswith("。") and tokens(piece) <= CHUNK_TOKENS for piece in pieces)


def test_lists_are_cut_at_their_items() -> None:
    text = "\n".join(f"- item number {number} has no full stop" for number in range(60))
    pieces = markdown(text)
    assert all(line.startswith("- item") for piece in pieces for line in piece.split("\n"))
    assert "\n".join(pieces) == text


def test_short_paragraphs_share_a_piece() -> None:
    assert plain("One.\n\nTwo.\n \nThree.") == ["One.\n\nTwo.\n\nThree."]


def test_code_and_tables_are_not_torn() -> None:
    code = "```py\n" + "\n\n".join(f"value_{n} = compute({n})" for n in range(40)) + "\n```"
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | thing {n} |" for n in range(40))
    assert CHUNK_TOKENS < tokens(code) < BLOCK_TOKENS
    pieces = markdown(f"# Title\n\nText.\n\n{code}\n\n{table}\n\nMore.")
    assert pieces == ["Title\n\nText.", f"Title\n\n{code}", f"Title\n\n{table}", "Title\n\nMore."]


def test_very_long_code_is_cut_at_lines_and_fenced_again() -> None:
    lines = [f"    value_{n} = compute({n})" for n in range(300)]
    pieces = markdown("~~~~py\n" + "\n".join(lines) + "\n~~~~")
    assert len(pieces) > 1
    assert all(piece.startswith("~~~~py\n    ") and piece.endswith("\n~~~~") for piece in pieces)
    assert [line for piece in pieces for line in piece.split("\n")[1:-1]] == lines
    assert all(tokens(piece) <= CHUNK_TOKENS for piece in pieces)


def test_very_long_tables_repeat_their_head() -> None:
    head = ["| name | value |", "|:-----|------:|"]
    rows = [f"| name {n} | value {n} |" for n in range(300)]
    pieces = markdown("\n".join(head + rows))
    assert len(pieces) > 1
    assert all(piece.split("\n")[:2] == head for piece in pieces)
    assert [line for piece in pieces for line in piece.split("\n")[2:]] == rows


def test_an_open_fence_reaches_to_the_end() -> None:
    assert markdown("```\n# no heading\n\ntext") == ["```\n# no heading\n\ntext"]


def test_a_change_leaves_the_other_sections_alone() -> None:
    text = "\n\n".join(f"# Part {n}\n\n{SENTENCE * 20}" for n in range(10))
    before, after = markdown(text), markdown(text.replace("# Part 4\n\n", "# Part 4\n\nNew. "))
    assert {piece.split("\n")[0] for piece in set(after) ^ set(before)} == {"Part 4"}


def test_marks_stay_on_their_letter() -> None:
    assert plain("e\u0301" * 300, 50)[0].endswith("e\u0301")


def bare(text: str) -> str:
    return re.sub(r"\s", "", text)


MARKS = ("word", "Ends.", "\n", "\n\n", " ", "# ", "```", "| a |", "|-|", "---", "- ", "文。")
PIECES = st.sampled_from([*MARKS, "x" * 90]) | st.text(max_size=6)
PROSE = st.lists(PIECES, max_size=60).map("".join)


@given(PROSE, st.integers(2, 40))
def test_nothing_of_a_plain_text_is_lost(text: str, max_tokens: int) -> None:
    pieces = plain(text, max_tokens)
    assert bare("".join(pieces)) == bare(text)
    assert all(piece.strip() for piece in pieces)


@given(PROSE, st.integers(2, 40))
def test_every_word_of_a_markdown_text_is_in_a_piece(text: str, max_tokens: int) -> None:
    pieces = markdown(text, max_tokens)
    assert all(piece.strip() for piece in pieces)
    letters = {c for c in bare(text) if c.isalnum()}
    assert letters <= set("".join(pieces))
    # The same without headings' joints and repeated fences: each letter as often, at least.
    for letter in letters:
        assert sum(piece.count(letter) for piece in pieces) >= text.count(letter)


@given(st.text(alphabet="ab. \n", max_size=2_000), st.integers(5, 60))
def test_pieces_of_plain_prose_keep_to_the_size(text: str, max_tokens: int) -> None:
    assert all(tokens(piece) <= max_tokens for piece in plain(text, max_tokens))


async def test_the_offline_embedder_reads_such_pieces_whole() -> None:
    """What stands behind a piece's words would change nothing of its vector if it was not read."""
    pieces = plain(SENTENCE * 14)
    embedder = LocalEmbedder(threads=1)
    whole, more = await embedder.embed_documents([pieces[0], pieces[0] + " Volcano eruption."])
    assert sum(a * b for a, b in zip(whole, more, strict=True)) < 0.999
