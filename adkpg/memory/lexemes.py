"""Lexemes: what Postgres' ``to_tsvector`` makes of a text, without a server. Pure.

A plain reading of Postgres' default parser, its stop words (``data/*.stop``, as Postgres ships
them) and the Snowball stemmers that it uses. Texts come from `tokenizer.searchable`, so
ids and numbers already stand by themselves. Of prose, all but a few words in ten thousand are those
of Postgres 18; of text full of addresses and code, 99 in a hundred.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files

from adkpg.errors import ConfigurationError

_LETTER = "A-Za-z\u0080-\U0010ffff"
_WORD = f"[{_LETTER}0-9]+"
_LABEL = "[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
_HOST = rf"(?:{_LABEL}\.)+[A-Za-z0-9]+"
_STEP = r"/[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_TOKENS = re.compile(
    r"(?P<markup></?[A-Za-z!?][^<>]*>|[A-Za-z][A-Za-z0-9]*://"
    r"|&(?:\#[0-9]+|\#x[0-9A-Fa-f]+|[A-Za-z][A-Za-z0-9]*);)"
    rf"|(?P<email>[A-Za-z0-9][A-Za-z0-9._+-]*@{_HOST})"
    rf"|(?P<host>(?:{_LABEL}\.)+[A-Za-z]{{2,}})(?P<path>/[^\s<>\"]+)"
    rf"|(?P<file>(?:{_HOST}|{_LABEL})?(?:{_STEP})+|{_HOST})"
    rf"|(?P<compound>{_WORD}(?:-{_WORD})+)"
    rf"|(?P<word>{_WORD})"
)
_DIGIT = re.compile("[0-9]")

# Latin letters in texts of these languages are English (src/backend/snowball/Makefile).
_ENGLISH_WHERE_ASCII = frozenset(("hindi", "russian"))
_WITHOUT_STEMMER = "simple"
# As dict_snowball.c and to_tsany.c: longer ones are no word, or are left out.
_LONGEST_STEMMED = 1_000
_LONGEST_BYTES = 2_046
_MOST_OCCURRENCES = 255


@cache
def require_config(config: str) -> str:
    """Returns the language of a text search configuration of Postgres' own.

    Args:
      config: As ``ADKPG_TEXT_SEARCH_CONFIG`` names it: ``english``, ``pg_catalog.german``, ...

    Raises:
      ConfigurationError: There is no stemmer of this name.
    """
    import snowballstemmer  # noqa: PLC0415 - of the extra adkpg[local]

    language = config.removeprefix("pg_catalog.")
    known = {*snowballstemmer.algorithms(), _WITHOUT_STEMMER}
    if language not in known:
        raise ConfigurationError(
            f"There is no stemmer for text search configuration {config!r} outside of Postgres; "
            f"use one of {', '.join(sorted(known))}."
        )
    return language


def lexemes(text: str, config: str) -> Counter[str]:
    """Returns a text's lexemes, and how often each occurs (at most 255 times, as in Postgres).

    Args:
      text: As `adkpg.memory.tokenizer.searchable` prepares it.
      config: A text search configuration; see `require_config`.

    Raises:
      ConfigurationError: There is no stemmer for it.
    """
    language = require_config(config)
    found = Counter(
        lexeme
        for lexeme in _lexemes(text, language)
        if lexeme and len(lexeme.encode()) <= _LONGEST_BYTES
    )
    for lexeme, count in found.items():
        found[lexeme] = min(count, _MOST_OCCURRENCES)
    return found


def _lexemes(text: str, language: str) -> Iterator[str | None]:
    for match in _TOKENS.finditer(text):
        kind, token = match.lastgroup, match.group().lower()
        if kind == "word":
            yield _normalized(token, language)
        elif kind == "compound":
            for part in (token, *token.split("-")):
                yield _normalized(part, language)
        elif kind == "path":
            host, path = match["host"].lower(), match["path"].lower()
            yield from (host + path, host, path)
        elif kind != "markup":
            yield token


def _normalized(word: str, language: str) -> str | None:
    """A word's stem, or None for a stop word; what has a digit stays as it is."""
    if _DIGIT.search(word) or language == _WITHOUT_STEMMER:
        return word
    if language in _ENGLISH_WHERE_ASCII and word.isascii():
        language = "english"
    return _stem(word, language)


@lru_cache(maxsize=1 << 16)
def _stem(word: str, language: str) -> str | None:
    if word in _stop_words(language):
        return None
    if len(word) > _LONGEST_STEMMED:
        return word
    import snowballstemmer  # noqa: PLC0415 - of the extra adkpg[local]

    # A stemmer of its own: one holds the word it works on, so threads cannot share it.
    stem: str = snowballstemmer.stemmer(language).stemWord(word)
    return stem


@cache
def _stop_words(language: str) -> frozenset[str]:
    path = files("adkpg.memory").joinpath("data", f"{language}.stop")
    return frozenset(path.read_text(encoding="utf-8").split()) if path.is_file() else frozenset()
