"""docs/words.py, which `make check` runs: what it finds, and what it leaves alone."""

import importlib.util
from types import ModuleType

import pytest

from tests.fakes.checkout import CHECKOUT


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_words", CHECKOUT / "docs" / "words.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


words = _load()
_LONG = " ".join(["word"] * 41)


@pytest.mark.parametrize(
    ("sentence", "advice"),
    [
        ("Whoever writes memories waits.", "name the actor"),
        ("It lapses, and nobody renews it.", "name the actor"),
        ("Of several hosts the first is taken.", "begin with the subject"),
        ("It is read once. Of each text 8,000 bytes are sent.", "begin with the subject"),
        ("Callers notice nothing but the pause.", "say 'only'"),
        (f"A {_LONG} is long.", "44 words, split the sentence"),
        (f"A {_LONG}; so it is cut: here.", "47 words, split the sentence"),
    ],
)
def test_a_sentence_that_has_to_be_read_twice_is_found(sentence: str, advice: str) -> None:
    (finding,) = words.findings(sentence)
    assert finding.startswith(advice)
    assert [*words.page(f"# A page\n\n{sentence}\n")] == [(3, finding)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Writers of memories wait.",
        "With several hosts, each connection uses the first one that accepts writes.",
        "The server runs as ``nobody``, or as the account `nobody`.",
        "Of Citus it needs version 12 or later.",
        "It does nothing, but it says so.",
        " ".join(["word"] * 40) + ".",
        f"{' '.join(['word'] * 30)}. {' '.join(['Word'] * 30)}. `code` {' '.join(['word'] * 30)}.",
        f"{' '.join(['word'] * 30)}. adkpg {' '.join(['word'] * 30)}. 2 {' '.join(['word'] * 30)}.",
        f"It says [a word]({'https://example.com/' * 50}).",
    ],
)
def test_a_plain_sentence_is_left_alone(sentence: str) -> None:
    assert not [*words.findings(sentence)]


@pytest.mark.parametrize(
    "block",
    [
        f"```text\n{_LONG}\n\nnobody\n```",
        f"| nobody | {_LONG} |\n|---|---|",
        f"> {_LONG}",
        f"## {_LONG}",
        f"<!-- nobody\n{_LONG} -->",
        f"    {_LONG}",
    ],
)
def test_code_tables_quotes_headings_and_comments_are_left_out(block: str) -> None:
    assert not [*words.page(f"A sentence.\n\n{block}\n\nAnother one.\n")]


def test_entries_of_a_list_and_of_arguments_are_sentences_of_their_own() -> None:
    thirty = " ".join(["word"] * 30)
    assert not [*words.page(f"* {thirty}\n* {thirty}\n1. {thirty}\n")]
    assert not [*words.page(f"Does it.\n\nArgs:\n  one: {thirty}\n  two (str): {thirty}\n")]
    (found,) = words.page(
        "Does it.\n\nArgs:\n  name: What it is called.\n  schema: Of the table.\n"
    )
    assert found[0] == 5


def test_docstrings_and_texts_of_a_module_are_read_but_names_and_comments_are_not() -> None:
    source = (
        '"""Does it, whoever asks."""\n'
        "NAME = 'nobody'\n"
        "column('x', comment='NULL if nobody has it.')\n"
        "# nobody\n"
        f"TEXT = f'Nobody has {{NAME}} here.{_LONG}'\n"
    )
    assert [line for line, _ in words.module(source)] == [1, 5]


def test_pages_and_code_are_held_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert words.main([]) == 0, capsys.readouterr().out
