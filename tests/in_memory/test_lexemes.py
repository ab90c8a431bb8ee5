"""Lexemes made in this process are the server's: parser, stop words, stemmers."""

import json
from collections import Counter
from importlib.resources import files
from pathlib import Path

import asyncpg
import pytest

from adkpg.errors import ConfigurationError
from adkpg.memory.lexemes import lexemes, require_config
from adkpg.memory.tokenizer import script_config, searchable
from tests.fakes.paraphrases import MEMORIES, QUESTIONS

TRICKY = (
    "Don't you think it's well-known? I'd say so... and/or not.",
    "Mail joe.doe@example.com or see https://example.org/a/b?c=d, www.example.de and report-2.pdf.",
    "The U.S.A. e.g. pays 3.50 to 1,200 people; order-9981, ABC-123, version 2.13.0 on 7 May 2023.",
    "Tom & Jerry &amp; <b>others</b> <3 love, a < b > c, C++ and C# at 5pm, 1st and 22nd.",
    "He was running, ran, runs; generously, relational, hopping, skies, dying, news, university.",
    "Café naïve déjà-vu Straße snake_case path /etc/hosts and ~/notes.txt end.Next x@y #tag @ann",
    "Mother-in-law's thirty-year-old son bought twenty-one state-of-the-art phones (iPhone15s).",
    "rock'n'roll -- don't -stop- it; semi;colon: yes/no/maybe? 50% off! $20 €30 100km/h 10-15",
)
LANGUAGES = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))["pairs"]
    for path in sorted(
        (Path(__file__).parents[1] / "memory" / "search" / "languages").glob("*.json")
    )
}


async def servers(connection: asyncpg.Connection, config: str, text: str) -> Counter[str]:
    rows = await connection.fetch(
        "SELECT lexeme, cardinality(positions) AS count "
        "FROM unnest(to_tsvector($1::text::regconfig, $2))",
        config,
        text,
    )
    return Counter({row["lexeme"]: row["count"] for row in rows})


async def share_alike(connection: asyncpg.Connection, texts: list[str]) -> float:
    """The share of all occurrences of lexemes that both sides have."""
    same = either = 0
    for text in map(searchable, texts):
        config = script_config(text) or "english"
        theirs, ours = await servers(connection, config, text), lexemes(text, config)
        same += (theirs & ours).total()
        either += (theirs | ours).total()
    return same / either


async def test_english_lexemes_are_the_servers(connection: asyncpg.Connection) -> None:
    assert await share_alike(connection, [*MEMORIES, *QUESTIONS]) >= 0.99
    assert await share_alike(connection, list(TRICKY)) >= 0.97


@pytest.mark.parametrize("language", LANGUAGES)
async def test_other_scripts_lexemes_are_the_servers(
    connection: asyncpg.Connection, language: str
) -> None:
    pairs = LANGUAGES[language]
    texts = [pair[side] for pair in pairs for side in ("question", "answer")]
    assert len(texts) >= 40
    assert await share_alike(connection, texts) >= 0.99


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("simple", "To be or not to be, running"),
        ("german", "Die Häuser stehen am See, und wir gehen oft dorthin"),
        ("pg_catalog.spanish", "Los gatos duermen en la casa de los vecinos"),
        ("french", "Nous avions mangé les pommes que tu achetais"),
        ("russian", "Мы были в школе, where the children were reading книги"),
        ("hindi", "किताबें पढ़ना, the books were read"),
        ("finnish", "Taloissa asuu ihmisiä ja he ovat iloisia"),
        ("turkish", "Evlerimizden geliyoruz ve çok mutluyuz"),
    ],
)
async def test_each_configuration_is_the_servers(
    connection: asyncpg.Connection, config: str, text: str
) -> None:
    assert lexemes(text, config) == await servers(connection, config, text)


async def test_every_language_with_stop_words_has_them(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch(
        "SELECT dictname FROM pg_ts_dict WHERE dictinitoption LIKE '%stopwords%'"
    )
    shipped = {path.name for path in files("adkpg.memory").joinpath("data").iterdir()}
    languages = {row["dictname"].removesuffix("_stem") for row in rows}
    assert languages
    assert {f"{language}.stop" for language in languages} <= shipped


def test_a_word_counts_at_most_as_often_as_in_postgres() -> None:
    assert lexemes("oolong " * 300, "english") == {"oolong": 255}


@pytest.mark.parametrize("text", ["ab cd. ", "a.bc/d?", "a-", "<a", "é1x ", "a@"])
def test_any_hundred_thousand_characters_have_lexemes(text: str) -> None:
    text *= 100_000 // len(text)
    assert all(len(lexeme) <= 2_046 for lexeme in lexemes(text, "english"))
    assert lexemes(text + " oolong", "english")["oolong"] == 1


def test_a_configuration_without_a_stemmer_is_refused() -> None:
    assert require_config("pg_catalog.german") == "german"
    with pytest.raises(ConfigurationError, match="klingon"):
        require_config("klingon")
