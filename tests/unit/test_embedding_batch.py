import pytest

from adkpg.embedding.calls import batches
from adkpg.embedding.embedder import well_formed


@pytest.mark.parametrize(
    ("text", "max_bytes", "expected"),
    [
        ("hello", None, "hello"),
        ("hello", 4, "hell"),
        ("aé", 2, "a"),
        ("\U0001f600", 3, ""),
        ("\ud83d", 5, "?"),
        ("a\x00b", None, "a\x00b"),
        ("", 5, ""),
    ],
)
def test_well_formed_cuts_between_characters(
    text: str, max_bytes: int | None, expected: str
) -> None:
    assert well_formed(text, max_bytes) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], []),
        (["a"], [["a"]]),
        (["a", "b", "c", "d"], [["a", "b", "c"], ["d"]]),
        (["aaaa", "bbbbbb", "c"], [["aaaa", "bbbbbb"], ["c"]]),
        (["ééé", "éé", "é"], [["ééé", "éé"], ["é"]]),
        (["a", "x" * 99, "b"], [["a"], ["x" * 99], ["b"]]),
        (["", "", "", ""], [["", "", ""], [""]]),
    ],
)
def test_batches_keep_order_and_both_limits(texts: list[str], expected: list[list[str]]) -> None:
    assert list(batches(texts, max_texts=3, max_bytes=10)) == expected
