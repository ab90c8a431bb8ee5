"""What a model is shown of turns and facts."""

import json

from hypothesis import given
from hypothesis import strategies as st

from adkpg.facts import prompts
from tests.fakes.fact_stories import fact, turn
from tests.fakes.facts_llm import lines


def test_a_prompt_has_labels_for_ids_and_times() -> None:
    prompt = prompts.extract_prompt(
        [turn(2, "I moved to Paris."), turn(1, "Hi", author=None, read=True)],
        [fact(1, "Ana lives in Berlin.")],
        100,
    )
    assert lines(prompt, "known_facts") == [
        {
            "id": "f1",
            "time": "2026-03-02T12:00+00:00",
            "fact": "Ana lives in Berlin.",
            "topics": ["home"],
        }
    ]
    assert lines(prompt, "turns") == [
        {
            "id": "t1",
            "time": "2026-03-03T12:00+00:00",
            "author": "user",
            "text": "I moved to Paris.",
        },
        {
            "id": "t2",
            "time": "2026-03-02T12:00+00:00",
            "context": True,
            "author": None,
            "text": "Hi",
        },
    ]
    assert "m1" not in prompt


def test_a_long_turn_is_cut() -> None:
    (line,) = lines(prompts.turns_prompt([turn(1, "abcdef")], 3), "turns")
    assert line["text"] == "abc […]"


@given(st.lists(st.text(), min_size=1), st.integers(1, 30))
def test_parts_have_all_that_was_said_in_its_order(texts: list[str], most: int) -> None:
    turns = [turn(number, text) for number, text in enumerate(texts)]
    parts = prompts.parted(turns, most)
    assert "".join(each.text for part in parts for each in part) == "".join(texts)
    assert {each.memory_id for part in parts for each in part} == {each.memory_id for each in turns}
    assert all(sum(len(each.text) for each in part) <= most for part in parts)
    assert all(parts)


@given(st.text(), st.text())
def test_no_text_leaves_its_line(text: str, author: str) -> None:
    prompt = prompts.extract_prompt([turn(1, text, author=author)], [fact(1, text)], 1_000)
    rows = prompt.split("\n")
    assert len(rows) == 6
    for row in (rows[1], rows[4]):
        assert row.isprintable()
        assert not set(row) & set("<>&")
        assert row.encode().decode() == row
    assert json.loads(rows[4])["text"] == text
    assert json.loads(rows[1])["fact"] == text


def test_invisible_characters_are_seen() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey") + "\u202e\u200b"
    row = prompts.turns_prompt([turn(1, f"Hello{hidden}")], 100).split("\n")[1]
    assert row.isascii()
    assert "\\u202e\\u200b" in row
