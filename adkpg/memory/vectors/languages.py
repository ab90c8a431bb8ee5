"""Which script a text is in, as far as it tells that a model cannot know the language. Pure.

Languages that share letters share words, too: no list of words tells a sentence in Dutch from one
in English about Rio de Janeiro.
"""

import unicodedata
from collections import Counter
from collections.abc import Collection

_SAMPLE = 400  # characters that tell

# By the first word of their letters' names in Unicode; all models know Latin letters.
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


def foreign_language(text: str, languages: Collection[str]) -> str | None:
    """Returns a language of a text's script if a model knows none of that script, else None.

    Args:
      text: Any; its beginning tells.
      languages: Codes of those that the model knows, as in ISO 639-1.

    Returns:
      The English name of the script's most written language, such as Russian for Cyrillic.
    """
    text = text[:_SAMPLE]
    if text.isascii():
        return None
    scripts: Counter[str] = Counter(
        unicodedata.name(char, "?").partition(" ")[0] for char in text if char.isalpha()
    )
    if not scripts:
        return None
    # Any kana is Japanese, which has Han characters besides.
    if any(scripts[kana] for kana in ("HIRAGANA", "KATAKANA")):
        scripts["HIRAGANA"] += scripts.pop("CJK", 0) + scripts.pop("KATAKANA", 0)
    ((script, letters),) = scripts.most_common(1)
    if script not in _SCRIPTS or 2 * letters < scripts.total():
        return None
    name, codes = _SCRIPTS[script]
    return None if set(codes.split()) & set(languages) else name
