"""A text's words, for Postgres' text search parser to find. Pure, linear in the text's length.

The parser splits at whitespace, so a Chinese sentence is one word to it; it takes ``order-9981``
for the word *order* and the number -9981, and ``report.pdf`` for the name of a host. Memories and
questions both pass through `searchable`, so both have the same words.

Scripts that are written without spaces become overlapping pairs of characters, as Lucene's
CJKAnalyzer and pg_bigm do it. Ids, numbers, file names and addresses gain their parts as words of
their own, and Latin words with accents gain themselves without. All is in lower case, since
Postgres lowers by the locale of its database. Else prose in a script with spaces is left as it is.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from adkpg.text.normal_forms import nfc, nfkc

# Han, kana and bopomofo: one run may mix them, as Japanese does.
_EAST_ASIAN = (
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"
_THAI = "\u0e01-\u0e4e"
_LAO = "\u0e81-\u0edf"
_KHMER = "\u1780-\u17d3\u17d7\u17dc\u17dd"
_MYANMAR = "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"
_RUNS = re.compile(
    f"(?P<east_asian>[{_EAST_ASIAN}]+)|(?P<hangul>[{_HANGUL}]+)|[{_THAI}]+|[{_LAO}]+|[{_KHMER}]+|[{_MYANMAR}]+"
)
_MAY_RUN = re.compile("[\u0e01-\U0010ffff]")  # all that `_RUNS` has, found in a tenth of the time
_HAN = re.compile("[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# A written unit: a character with its vowel signs and tone marks, and what a virama stacks below.
_UNITS = re.compile(
    "(?:(?:[\u17d2\u1039].)|.)"
    "(?:[\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece"
    "\u17b4-\u17d1\u17d3\u17dd\u102b-\u1038\u103a-\u103e\u1056-\u1059\u105e-\u1060"
    "\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u3099\u309a]"
    "|[\u17d2\u1039].)*"
)

# What Postgres ships a Snowball stemmer for and Latin letters do not tell, since version 14.
_SCRIPTS = {
    "russian": "\u0400-\u052f",
    "arabic": "\u0620-\u064a\u066e-\u06d3\u06fa-\u06ff\u0750-\u077f",
    "hindi": "\u0904-\u0939\u0958-\u0961\u0972-\u097f",
    "greek": "\u0370-\u03ff\u1f00-\u1fff",
    "tamil": "\u0b83-\u0bb9",
    "armenian": "\u0531-\u0587",
}
_CONFIGS = [(config, re.compile(f"[{letters}]")) for config, letters in _SCRIPTS.items()]
_HAS_CONFIG = re.compile(f"[{''.join(_SCRIPTS.values())}]")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
# Of the letters that could have a configuration, the share that decides for the script's own.
_DOMINANT = 1 / 3

# Written alike, typed differently: (from, to) of the characters that a keyboard may not offer.
_ALIKE = str.maketrans(
    {
        "\u0640": "",  # tatweel
        "\u093c": "",  # nukta
        "\u0901": "\u0902",  # candrabindu, anusvara
        "\u0451": "\u0435",  # ё
        "\u0401": "\u0415",
        "\u0130": "I",  # which in lower case would be two characters
        "\u2010": "-",
        "\u2011": "-",
    }
)
# Words with letters that a keyboard may not offer, and what is typed for those that Unicode does
# not part into letter and mark. Marks of other scripts are vowels, or make other letters.
_ACCENTED = "\u00c0-\u024f\u1e00-\u1eff"
_ACCENTED_WORDS = re.compile(f"(?<![A-Za-z{_ACCENTED}])[A-Za-z]*+[{_ACCENTED}][A-Za-z{_ACCENTED}]*")
_TYPED = dict(zip("ßæœøłđðþ\u0131", ("ss", "ae", "oe", "o", "l", "d", "d", "th", "i"), strict=True))
_GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
# Vowel points that are left out as often as not (Hebrew, Arabic), accents that make no letter of
# their own (as of stress in Russian), and variation selectors.
_OPTIONAL_MARKS = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u06d6-\u06ed\ufe00-\ufe0f]"
)
_PRESENTATION_FORMS = re.compile("[\ufb00-\ufdff\ufe70-\ufefc\uff00-\uffef\u3300-\u33ff]")

# After `_unified`, all that is not ASCII is a letter, a mark or a numeral.
_LETTER = "A-Za-z0-9\u0080-\U0010ffff"
_ALPHABETIC = _LETTER.replace("0-9", "")
# A hyphen between words is left to Postgres, which keeps "year-old" besides its parts.
_TOKEN = re.compile(f"(?<![{_LETTER}])[-+]?([{_LETTER}]+(?:[-./@\\\\_?=&%~#,]+[{_LETTER}]+)*)")
_PIECES = re.compile(f"[{_ALPHABETIC}]+(?:-[{_ALPHABETIC}]+)+(?![{_LETTER}])|[{_LETTER}]+")
_PART = re.compile(f"[{_LETTER}]+")
_ADDRESSING = re.compile(f"[{_LETTER}][./@\\\\][{_LETTER}]")
_DIGITS = re.compile("[0-9]+")
_VERSION = re.compile(r"[vV]?([0-9]+(?:\.[0-9]+)+)")
_INITIALS = re.compile(r"[A-Z](?:\.[A-Z])+|[ap]\.m")
_STRETCHES = re.compile("[0-9]+|[^0-9]+")
_DAY_AND_HOUR = re.compile("[0-9]{2}T[0-9]{2}")
_ORDINALS = frozenset(("st", "nd", "rd", "th"))
_UPPER = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0410-\u042f"
_LOWER = "a-z\u00df-\u00f6\u00f8-\u00ff\u03b1-\u03c9\u0430-\u044f"
_HUMP = re.compile(f"(?<=[{_LOWER}])(?=[{_UPPER}])")
_NOTABLE = re.compile(f"[0-9]|[{_LETTER}][./@\\\\][{_LETTER}]|[{_LOWER}][{_UPPER}]")
# A number in groups: how people of some country write one that is counted, or an id of many digits.
_GROUPS = re.compile(
    rf"(?<![{_LETTER}])(?:[A-Za-z]{{1,2}})?[0-9]+(?:(?:[ ()/'-]{{1,3}}|[.,])[0-9]++(?!:))+"
)
_LOOSE = re.compile("[ ()']")  # which ends what `_TOKEN` takes for one
_COUNTED = re.compile(
    r"([0-9]{1,3}(?:[ ',.][0-9]{2,3})*[ ',.][0-9]{3}|[0-9]+(?=[.,]))(?:[.,]([0-9]+))?"
)
_AFTERNOON = re.compile(r"(?<![0-9.,:])(1[01]|0?[1-9])(?:[:.][0-5][0-9])? ?[pP]\.?[mM](?![A-Za-z])")
_HASH = re.compile("(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{8,}", re.IGNORECASE)
_SHORT_HASH = 7  # as git abbreviates, and more
# Typed as one word: a shorter "10-15" is a range, a longer text is an address.
_SHORTEST_NUMBER = 6
_LONGEST_ID = 40
# The last digits of a long number, which stay where country, trunk and bank are left out.
_LAST_DIGITS = 9
_LONG_NUMBER = re.compile(f"[0-9]{{{_LAST_DIGITS + 1},}}$")
# Postgres' parser reads a run without spaces anew from each of its words, so that takes n² steps.
_LONGEST_RUN = 256
_LONG_RUN = re.compile(rf"\S{{{_LONGEST_RUN}}}[{_LETTER}]*+")  # which ends within no word


def searchable(text: str) -> str:
    """Returns a text as Postgres' parser should see it.

    Prose in a script with spaces keeps its words and how often each occurs. Runs of Han, kana,
    Thai, Lao, Khmer and Myanmar become overlapping pairs of characters. An id, a number, a file
    name or an address gives its parts besides the whole: ``order-9981`` has the words *order*,
    *9981* and *order9981*. A Latin word with accents stands there without them, too: *josé*,
    *jose*. Forms that differ only in typing become one: upper and lower case, full and half
    width, digits of any script, vowel points, nukta.

    Args:
      text: Any text; NUL and lone surrogates count as spaces.

    Returns:
      Text that Postgres can store, at most a few times as long, the same for the same text.
    """
    text = text.replace("\x00", " ")
    if not text.isascii():
        text = _unified(text)
        text = " ".join([text, *map(_unaccented, _ACCENTED_WORDS.findall(text))])
        if _MAY_RUN.search(text) is not None:
            text = _RUNS.sub(_cut, text)
    if _NOTABLE.search(text) is not None:
        text = _AFTERNOON.sub(lambda clock: f"{clock[0]} {int(clock[1]) + 12}", text)
        text = _GROUPS.sub(_closed_up, text)
        text = _TOKEN.sub(_spelled_out, text)
    return _parsed_quickly(text.lower())


def _parsed_quickly(text: str) -> str:
    """The text without what takes Postgres' parser a time that grows faster than the text."""
    if len(text) <= _LONGEST_RUN:
        return text
    # From each beginning of a comment that has no end the parser looks for it in all that follows.
    text = text.replace("<!--", " ")
    if max(map(len, text.split()), default=0) <= _LONGEST_RUN:
        return text
    return _LONG_RUN.sub(r"\g<0> ", text)


def script_config(text: str) -> str | None:
    """Returns the text search configuration of a text's script.

    Every name is one that Postgres ships since version 14. A script stands for its most written
    language: Cyrillic for Russian, Devanagari for Hindi.

    Returns:
      The configuration of the script that has most letters, if it has at least a third of those
      in scripts with spaces; None for Latin, for scripts without a configuration, and for
      scripts that `searchable` cuts into pairs.
    """
    if text.isascii() or _HAS_CONFIG.search(text) is None:
        return None
    counts = [(len(letters.findall(text)), config) for config, letters in _CONFIGS]
    most, config = max(counts)
    letters = len(_LATIN.findall(text)) + sum(count for count, _ in counts)
    return config if most and most >= _DOMINANT * letters else None


def _unified(text: str) -> str:
    """The text in one spelling; punctuation and symbols beyond ASCII become spaces.

    Spaces, since a database with the locale C takes every character beyond ASCII for a letter.
    """
    text = nfc(text)
    plain = {c: _plain(c) for c in set(text) if c > "\x7f"}
    if all(c == other for c, other in plain.items()):
        return text
    # Not `str.translate`: it raises an error within for each character that stays.
    return nfc("".join([plain.get(c, c) for c in text]))


@lru_cache(maxsize=20_000)  # more characters than a language has
def _plain(character: str) -> str:
    """One character beyond ASCII as it is to be compared."""
    if _OPTIONAL_MARKS.match(character):
        return ""
    if _PRESENTATION_FORMS.match(character):
        character = nfkc(character)
    character = character.translate(_ALIKE)
    if len(character) != 1:
        return "".join(map(_plain, character))
    if character.isascii():
        return character
    if _GREEK.match(character):  # its stemmer takes them away, so both forms would be one
        character = _letter(character)
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.digit(character))
    if category in ("Cf", "Me"):
        return ""
    return " " if category[0] in "PSZC" or category == "No" else character


def _unaccented(word: str) -> str:
    return "".join([_TYPED.get(c) or _letter(c) for c in word.lower()])


@lru_cache(maxsize=2_000)
def _letter(character: str) -> str:
    """A letter without its marks."""
    return unicodedata.normalize("NFD", character)[0]  # noqa: TID251 - one character


def _cut(run: re.Match[str]) -> str:
    """A run of a script without spaces, as overlapping pairs between spaces.

    A Han character by itself often is a word (dog, car, house), so each one stands besides. Korean
    has spaces, with particles before them, so a word's first syllable may be all of its noun.
    """
    units = _UNITS.findall(run.group())
    words = [left + right for left, right in pairwise(units)]
    if run["east_asian"]:
        words += _HAN.findall(run.group())
    elif run["hangul"]:
        words.append(units[0])
    return f" {' '.join(words or units)} "


def _closed_up(groups: re.Match[str]) -> str:
    """A number in groups, and as one without what is between them."""
    number = groups[0]
    if _LOOSE.search(number) is None:
        return number
    if counted := _COUNTED.fullmatch(number):
        return f"{number} {_plain_number(counted)}"
    closed = "".join(_PART.findall(number))
    if len(closed) < _SHORTEST_NUMBER:
        return number
    return f"{number} {closed if len(closed) <= _LONGEST_ID else closed[-_LAST_DIGITS:]}"


def _spelled_out(match: re.Match[str]) -> str:
    """A word as it is, or an id, a number, a name with its parts."""
    token = match[1]
    numbered = _DIGITS.search(token) is not None
    if not numbered and _ADDRESSING.search(token) is None and _HUMP.search(token) is None:
        return match[0]
    tagged = match.string.startswith("#", max(0, match.start() - 1))
    words = list(dict.fromkeys([*_words(token, numbered=numbered), *_humps(token, tagged=tagged)]))
    # Spaces around, or Postgres would read on: "-9981" is one number to it, "/9981" a file.
    return f" {' '.join(words)} " if numbered or len(words) > 1 else match[0]


def _words(token: str, *, numbered: bool) -> Iterator[str]:
    if "@" in token or not numbered:
        yield token
    if not numbered:
        if _INITIALS.fullmatch(token):
            yield token.replace(".", "")
        yield from (part for part in _PART.findall(token) if len(part) > 1)
        return
    if version := _VERSION.fullmatch(token):
        yield token
        token = version[1]
        yield token
    if counted := _COUNTED.fullmatch(token):
        number = _plain_number(counted)
        yield number
        if "." in number:
            yield number.rstrip("0").rstrip(".")
    yield from _parts(token, joined=counted is None)


def _plain_number(counted: re.Match[str]) -> str:
    """A number as a program writes it, without groups and with a decimal point."""
    whole = "".join(_DIGITS.findall(counted[1]))
    return f"{whole}.{counted[2]}" if counted[2] else whole


def _parts(token: str, *, joined: bool) -> Iterator[str]:
    """The parts of an id, and if asked for the id without what joins them."""
    pieces = _PIECES.findall(token)
    for piece in pieces:
        if len(pieces) > 1 and not piece.strip("0"):
            continue
        yield piece
        yield from _stretches(piece)
        if _HASH.fullmatch(piece):
            yield piece[:_SHORT_HASH]
    whole = "".join(_PART.findall(token))
    shortest = _SHORTEST_NUMBER if whole.isdecimal() else 1
    if joined and len(pieces) > 1 and shortest <= len(whole) <= _LONGEST_ID:
        yield whole
    if number := _LONG_NUMBER.search(whole):
        yield number[0][-_LAST_DIGITS:]


def _humps(token: str, *, tagged: bool) -> Iterator[str]:
    """The words of a hashtag, and of a name in a program such as ``getUserById``.

    Other names are not parted: in a question their parts would count for two more words.
    """
    for part in _PART.findall(token):
        words = _HUMP.split(part)
        if len(words) > 1 and (tagged or part[0].islower()):
            yield from (word for word in words if len(word) > 2)


def _stretches(piece: str) -> Iterator[str]:
    """The letters and the digits of a word that has both; a number without leading zeros."""
    stretches = _STRETCHES.findall(piece)
    if len(stretches) == 1:
        if piece.startswith("0"):
            yield piece.lstrip("0") or "0"
    elif len(stretches) == 2:
        letters = next(s for s in stretches if not s[0].isdecimal())
        if len(letters) > 1 and letters.lower() not in _ORDINALS:
            yield from stretches
    elif _DAY_AND_HOUR.fullmatch(piece):
        yield from piece.split("T")
