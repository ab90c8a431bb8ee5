"""Cues: whose words are asked for, and how many words a script has."""

from datetime import UTC, datetime

import pytest

from adkpg.memory.search.cues import cues_of

NOW = datetime(2023, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "speaker"),
    [
        ("Which book did I read?", "user"),
        ("What is my sister's name?", "user"),
        ("我最喜欢的电影是什么?", "user"),
        ("Can you tell me where Ana lives?", None),
        ("Which painters did you recommend to me?", "others"),
        ("What have you told me about Rust?", "others"),
        ("What was your advice?", "others"),
        ("你给我推荐过哪些画家?", "others"),
        ("Can you recommend a book?", None),
        ("Where does Ana live?", None),
        ("谁住在里斯本?", None),
        ("你能告诉我安娜住在哪里吗?", None),
        ("你能告诉我我住在哪里吗?", "user"),
        ("你可以推荐一本书吗?", None),
        ("Could you tell us where Ana lives?", None),
        # There are no questions to measure it with.
        ("Wie heißt meine Schwester?", None),
        ("¿Qué libro me recomendaste?", None),
    ],
)
def test_whose_words_are_asked_for(question: str, speaker: str | None) -> None:
    assert cues_of(question, NOW).speaker == speaker


def test_scripts_without_spaces_have_more_words() -> None:
    assert cues_of("Where does Ana live?", NOW).wordiness == 1
    assert cues_of("安娜住在哪里", NOW).wordiness == 3
    assert 1 < cues_of("Ana 住在哪里", NOW).wordiness < 3
