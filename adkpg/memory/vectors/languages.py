"""Which language a text is in, as far as a warning needs it. Pure.

A script tells most languages. Those of Latin letters are told by their most common words, only
where these are many: a text that is too short for that is in no language.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection

_SAMPLE = 400  # characters that tell

_SCRIPTS = {
    "ARABIC": ("Arabic", "ar fa ur"),
    "ARMENIAN": ("Armenian", "hy"),
    "BENGALI": ("Bengali", "bn as"),
    "CJK": ("Chinese", "zh ja yue"),
    "CYRILLIC": ("Russian", "ru uk bg sr mk be kk mn"),
    "DEVANAGARI": ("Hindi", "hi mr ne"),
    "ETHIOPIC": ("Amharic", "am ti"),
    "GEORGIAN": ("Georgian", "ka"),
    "GREEK": ("Greek", "el"),
    "GUJARATI": ("Gujarati", "gu"),
    "GURMUKHI": ("Punjabi", "pa"),
    "HANGUL": ("Korean", "ko"),
    "HEBREW": ("Hebrew", "he yi"),
    "HIRAGANA": ("Japanese", "ja"),
    "KANNADA": ("Kannada", "kn"),
    "KATAKANA": ("Japanese", "ja"),
    "KHMER": ("Khmer", "km"),
    "LAO": ("Lao", "lo"),
    "MALAYALAM": ("Malayalam", "ml"),
    "MYANMAR": ("Burmese", "my"),
    "SINHALA": ("Sinhala", "si"),
    "TAMIL": ("Tamil", "ta"),
    "TELUGU": ("Telugu", "te"),
    "THAI": ("Thai", "th"),
    "TIBETAN": ("Tibetan", "bo dz"),
}
_COMMON = {
    "en": (
        "the and is was were are to of that it i you he she we they have has had with for not this"
    ),
    "de": (
        "der die das und ist nicht ich du wir sie es ein eine mit auf für von den dem zu war "
        "habe hat"
    ),
    "es": "el la los las y es no yo un una con por para que de en mi me se lo está pero muy fue",
    "fr": (
        "le la les et est ne pas je tu nous vous un une avec pour que de des du dans mon ce il elle"
    ),
    "it": "il la gli e è non io un una con per che di del della mi si ma sono ho nel alla anche",
    "id": (
        "yang dan di ke dari ini itu saya aku kamu dia kami dengan untuk pada tidak ada akan sudah "
        "adalah sangat pergi"
    ),
    "nl": (
        "de het een en is niet ik je wij zij met voor van dat op te in was heb heeft mijn ook maar"
    ),
    "pl": (  # without "i", "to", "on" and the like, which English has
        "w na z że się jest nie ja ty ona za jak ale był była było mam mój moim moja bardzo "
        "wczoraj czy co mnie"
    ),
    "pt": ("o os e é não eu um uma com por para que de do da em meu minha mas foi está muito"),
    "sv": (
        "och att det som ett på är av för med till jag du han hon vi inte den har var min mitt så"
    ),
    "tr": (
        "ve bir bu da de için çok ben sen biz ile ne var yok ama gibi daha benim mi değil oldu "
        "gittim"
    ),
    "vi": (
        "và là của tôi có không được với cho một này trong đã anh em bạn người đi hôm rất ở những "
        "qua"
    ),
}
_NAMES = {
    "en": "English",
    "de": "German",
    "es": "Spanish",
    "fr": "French",
    "id": "Indonesian",
    "it": "Italian",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "sv": "Swedish",
    "tr": "Turkish",
    "vi": "Vietnamese",
}
_WORDS = {language: frozenset(words.split()) for language, words in _COMMON.items()}
_WORD = re.compile(r"[^\W\d_]+")
_LEAST_WORDS, _LEAST_DIFFERENT, _LEAST_SHARE = 5, 3, 0.25


def foreign_language(text: str, languages: Collection[str]) -> str | None:
    """Returns the English name of a text's language if a model does not know it, else None.

    Args:
      text: Any; its beginning tells.
      languages: Codes of those that the model knows, as in ISO 639-1.
    """
    text = text[:_SAMPLE]
    if text.isascii():
        return _latin(text, languages)
    scripts: Counter[str] = Counter(
        unicodedata.name(char, "?").partition(" ")[0] for char in text if char.isalpha()
    )
    if not scripts:
        return None
    # Any kana is Japanese, which has Han characters besides.
    if any(scripts[kana] for kana in ("HIRAGANA", "KATAKANA")):
        scripts["HIRAGANA"] += scripts.pop("CJK", 0) + scripts.pop("KATAKANA", 0)
    ((script, letters),) = scripts.most_common(1)
    if script == "LATIN":
        return _latin(text, languages)
    if script not in _SCRIPTS or 2 * letters < scripts.total():
        return None
    name, codes = _SCRIPTS[script]
    return None if set(codes.split()) & set(languages) else name


def _latin(text: str, languages: Collection[str]) -> str | None:
    words = _WORD.findall(text.casefold())
    if len(words) < _LEAST_WORDS:
        return None
    counts = {language: sum(word in own for word in words) for language, own in _WORDS.items()}
    best = max(counts, key=lambda language: (counts[language], language in languages))
    if best in languages or counts[best] < _LEAST_SHARE * len(words):
        return None
    if len(_WORDS[best].intersection(words)) < _LEAST_DIFFERENT:  # who stammers says one often
        return None
    return _NAMES[best]
