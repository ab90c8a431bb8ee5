"""Cues: who is asked about, and whether a message asks or tells."""

from datetime import UTC, datetime

import pytest

from adkpg.memory.search.cues import cues_of, has_date_words

NOW = datetime(2023, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "speaker"),
    [
        ("Which book did I read?", "user"),
        ("What is my sister's name?", "user"),
        ("我最喜欢的电影是什么?", "user"),
        ("Wie heißt meine Schwester?", "user"),
        ("Which painters did you recommend to me?", "others"),
        ("What have you told me about Rust?", "others"),
        ("What was your advice?", "others"),
        ("你给我推荐过哪些画家?", "others"),
        ("¿Qué libro me recomendaste?", "others"),
        ("Where does Ana live?", None),
        ("谁住在里斯本?", None),
    ],
)
def test_whose_words_are_asked_for(question: str, speaker: str | None) -> None:
    assert cues_of(question, NOW).speaker == speaker


@pytest.mark.parametrize(
    ("message", "asks"),
    [
        ("Where does Ana live?", True),
        ("Ana lives where?", True),
        ("安娜住在哪里?", True),
        ("I am so happy about the party.", False),
        ("I did many exercises. How shall I celebrate?", False),
        ("我今天很高兴!", False),
        ("Hi! Where does Ana live?", True),
        ("", True),
    ],
)
def test_whether_a_message_asks(message: str, asks: bool) -> None:
    assert cues_of(message, NOW).asks is asks


def test_scripts_without_spaces_have_more_words() -> None:
    assert cues_of("Where does Ana live?", NOW).wordiness == 1
    assert cues_of("安娜住在哪里", NOW).wordiness == 3
    assert 1 < cues_of("Ana 住在哪里", NOW).wordiness < 3


@pytest.mark.parametrize(
    ("words", "may_be"),
    [
        ("What did I say on 7 May?", True),
        ("what happened in 2023", True),
        ("Who went MARCHING in mid-december?", True),
        ("2023 年 5 月", True),
        ("Where does Ana live?", False),
        ("Is a summary dismayed by decorum?", True),  # "decorum" begins as a month does
        ("Is a summary dismayed?", False),
        ("", False),
    ],
)
def test_words_that_a_date_may_have_are_numbers_and_what_begins_as_a_month(
    words: str, may_be: bool
) -> None:
    assert has_date_words(words) is may_be
