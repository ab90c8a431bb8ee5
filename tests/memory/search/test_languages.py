"""What is written in any script, and any id or number, is found by its words.

Each file of `languages` has pairs of a question and the memory that answers it, worded differently,
and distractors; `benchmarks/scripts/languages.py` reports more about them.
"""

import json
import unicodedata
from collections import Counter
from pathlib import Path

import asyncpg
import pytest

from adkpg import Database, PgVectorMemoryService
from adkpg.memory.tokenizer import script_config, searchable
from adkpg.tooling.testing.server import Server
from tests.fakes.conversation import USER, entry, found
from tests.fakes.databases import database_with

LANGUAGES = Path(__file__).parent / "languages"
# By words alone; each is one or two questions below what is found.
FLOORS = {
    "arabic": 0.86,
    "chinese": 0.95,
    "hindi": 0.86,
    "japanese": 0.95,
    "korean": 0.95,
    "russian": 0.95,
    "thai": 0.95,
}
PROSE = (
    "I'm allergic to peanuts; they don't agree with me, and it isn't Ana's fault.",
    "The well-known author's state-of-the-art e-book wasn't read by his mother-in-law!",
    "“Quoted,” she said \u2013 it\u2019s naïve… but café crème costs €20 or 50%.",
    "We met in 1998, sold 42 of them, and he's the 1st of the 90s kids (age 7).",
    "Wait...what? No--never! Mr. Smith and Mrs. O'Brien left, i.e. they fled, e.g. to Rome.",
    "Yes & no * maybe #tagged @ana 🎉 <3",
    "Grüße aus Köln, mañana à São Paulo; Đặng Văn Lâm žije v Brně.",
)


async def lexemes(connection: asyncpg.Connection, text: str, config: str = "english") -> list[str]:
    """Returns each of a text's lexemes as often as it occurs, in order of the alphabet."""
    rows = await connection.fetch(
        "SELECT lexeme, cardinality(positions) AS count"
        " FROM unnest(to_tsvector($2::text::regconfig, $1))",
        text,
        config,
    )
    return sorted(lexeme for lexeme, count in rows for _ in range(count))


def test_each_language_has_its_floor() -> None:
    assert {file.stem for file in LANGUAGES.glob("*.json")} == set(FLOORS)


@pytest.mark.parametrize("language", sorted(FLOORS))
async def test_questions_find_their_answers_by_words(database: Database, language: str) -> None:
    data = json.loads((LANGUAGES / f"{language}.json").read_text(encoding="utf-8"))
    pairs = data["pairs"]
    assert len(pairs) >= 20
    memory = PgVectorMemoryService(database, mode="text")
    texts = [pair["answer"] for pair in pairs] + data["distractors"]
    await memory.add_memory(**USER, memories=[entry(text, author="user") for text in texts])
    hits = 0
    for pair in pairs:
        hits += pair["answer"] in await found(memory, pair["question"], top_k=5)
    assert hits / len(pairs) >= FLOORS[language]


@pytest.mark.parametrize("prose", PROSE)
async def test_prose_has_the_words_it_has_without(
    connection: asyncpg.Connection, prose: str
) -> None:
    prepared = Counter(await lexemes(connection, searchable(prose)))
    plain = Counter(await lexemes(connection, prose))
    assert plain <= prepared
    accented = [word for word in plain.elements() if not word.isascii()]
    assert (prepared - plain).total() <= len(accented)
    assert all(map(str.isascii, prepared - plain))


async def test_no_locale_of_a_database_makes_other_words(
    server: Server, connection: asyncpg.Connection
) -> None:
    # In C, Postgres takes all that is not ASCII for letters, and lowers none of it.
    every = map(chr, range(0x21, 0x3400))  # all alphabets that are in use
    letters = [char for char in every if unicodedata.category(char)[0] in "LN"]
    texts = [*PROSE, *(f"la{char}{char.upper()}m {char}. {char}na, {char}" for char in letters)]
    texts = list(map(searchable, texts))
    asking = (
        "SELECT to_tsvector('english', text)::text AS words"
        " FROM unnest($1::text[]) WITH ORDINALITY AS given (text, n) ORDER BY n"
    )
    expected = [row["words"] for row in await connection.fetch(asking, texts)]
    async with database_with(server, "ENCODING 'UTF8' LOCALE_PROVIDER libc LOCALE 'C'") as url:
        other = await asyncpg.connect(url)
        found = [row["words"] for row in await other.fetch(asking, texts)]
        await other.close()
    assert len(letters) > 6_000
    assert [pair for pair in zip(texts, expected, found, strict=True) if pair[1] != pair[2]] == []


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("Order-9981 is late.", "order 9981"),
        ("Your order #9981 is late.", "What of order-9981?"),
        ("order9981 is late", "Where is 9981?"),
        ("Case A-1234/B was closed", "A1234B"),
        ("Case A-1234/B was closed", "case 1234"),
        ("Invoice INV/2024/0017 is paid", "invoice 17"),
        ("Invoice INV/2024/0017 is paid", "INV-2024-0017"),
        ("It runs v2.13.0.", "2.13.0"),
        ("It runs v2.13.0.", "version 2.13"),
        ("It runs 2.13.0", "v2.13.0"),
        ("I sent report.pdf.", "the report"),
        ("I sent report-2024.pdf", "report-2024.pdf"),
        ("See /var/log/nginx/error.log", "error.log of nginx"),
        ("Due on 2024-05-03", "May 3"),
        ("Due on 2024-05-03", "20240503"),
        ("Logged 2024-05-03T10:45:00Z", "2024-05-03"),
        ("Call +49 170 1234567", "01701234567"),
        ("Call 0170/1234567", "+49 170 1234567"),
        ("Call (555) 123-4567", "555-123-4567"),
        ("Write to ana@example.com", "ana@example.com"),
        ("Write to ana.lopez@example.com", "lopez"),
        ("It cost $9,981.", "9981"),
        ("It cost 9981", "9,981"),
        ("It cost $20.00", "$20"),
        ("It has 12,34,567 rows", "1234567"),
        ("https://github.com/acme/rocket/issues/42", "acme rocket"),
        ("https://github.com/acme/rocket/issues/42", "issue 42"),
        ("covid19 again", "covid-19"),
        ("She lives in the U.S.A.", "USA"),
        ("At 5 p.m.", "5 pm"),
        ("At 3pm", "3 pm"),
        ("5f0c1a2b-1111-4222-8333-aabbccddeeff", "5f0c1a2b11114222 8333aabb 4222"),
        ("Deploy user_42", "user-42"),
        ("Nimm Zimmer \uff11\uff12\uff13", "Zimmer 123"),
        ("कमरा १२३", "123"),
        ("北京大学2024年录取", "2024"),
        ("我在iPhone手机上看", "iphone"),
        ("ﾊﾟｰﾃｨｰに行く", "パーティー"),
        ("مُحَمَّد", "محمد"),
        ("ज़रूरत", "जरूरत"),
        ("माँ", "मां"),
        ("Ёлка в лесу", "елку"),
        ("Me\u0301xico", "M\u00e9xico"),
        ("José Muñoz", "Munoz"),
        ("Jose Munoz", "MUÑOZ"),
        ("in der Hauptstraße", "HAUPTSTRASSE"),
        ("Søren Åkesson", "akesson soren"),
        ("Łódź", "lodz"),
        ("Đặng Văn Lâm", "dang"),
        ("IŞIK geldi", "\u0131ş\u0131k"),
        ("İSTANBUL", "istanbul"),
        ("Πού είναι το τηλέφωνο", "ΤΗΛΕΦΩΝΟ"),
        ("Иван ЖИВЁТ в Москве", "живет"),
        ("The sofa was 1.299,00 €", "1299"),
        ("Le canapé 1\u202f299,00 €", "$1,299.00"),
        ("Das Sofa zu 1\u2019299.50", "1299.5"),
        ("Temperature 38,5 degrees", "38.5"),
        ("Call (415) 555-0134", "4155550134"),
        ("Tel. 06 12 34 56 78", "+33612345678"),
        ("Rufen Sie +49 (0)170 / 123 45 67", "01701234567"),
        ("Membership 4000 1234 5678", "400012345678"),
        ("Pay to DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
        ("Pay GB29NWBK60161331926819", "GB29 NWBK 6016 1331 9268 19"),
        ("Broken since 9fceb02d0ae598e95dc970b74767f19372d61af8", "9fceb02"),
        ("Broken since 9fceb02d0ae598e95dc970b74767f19372d61af8", "9fceb02d0a"),
        ("Call getUserProfileById first", "user_profile"),
        ("Loved the #ClimateMarch posters", "climate march"),
        ("The blue\u200bberry pie", "blueberry"),
        ("ចូលចិត្តកាហ្វេ", "កាហ្វេ"),
        ("ကော်ဖီကြိုက်တယ်", "ကော်ဖီ"),
        ("ມັກກາເຟ", "ກາເຟ"),
        ("བཀྲ་ཤིས་བདེ་ལེགས", "བདེ་ལེགས"),
    ],
)
async def test_what_is_typed_meets_what_was_written(
    connection: asyncpg.Connection, written: str, asked: str
) -> None:
    config = script_config(written) or "english"
    said = await lexemes(connection, searchable(written), config)
    wanted = await lexemes(connection, searchable(asked), config)
    assert set(said) & set(wanted)
    # No sign: a hyphen or plus before a number is not part of it.
    assert not [lexeme for lexeme in said + wanted if lexeme[0] in "+-"]


async def test_whole_ids_tell_what_parts_do_not(database: Database) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    ids = ("A-1234/B", "B-1234/A", "A-1234/C", "1234")
    await memory.add_memory(**USER, memories=[entry(f"case {name} is open") for name in ids])
    for name in ids[:3]:
        assert (await found(memory, f"case {name}"))[0] == f"case {name} is open"


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("Где мой телефон?", "russian"),
        ("أين هاتفي؟", "arabic"),
        ("मेरा फ़ोन कहाँ है?", "hindi"),
        ("Πού είναι το τηλέφωνό μου;", "greek"),
        ("என் தொலைபேசி எங்கே?", "tamil"),
        ("Որտե՞ղ է իմ հեռախոսը:", "armenian"),
    ],
)
async def test_a_script_has_a_configuration_that_postgres_ships(
    connection: asyncpg.Connection, text: str, config: str
) -> None:
    assert script_config(text) == config
    assert await lexemes(connection, searchable(text), config)


@pytest.mark.parametrize(
    "query",
    ["\x00", "\ud800", "嗯" * 7000, "🎉" * 5000, "'; drop table memories; --", "a.1-" * 5000],
)
async def test_no_question_is_too_odd(database: Database, query: str) -> None:
    memory = PgVectorMemoryService(database, mode="text")
    await memory.add_memory(**USER, memories=[entry("我的狗叫豆豆")])
    assert await found(memory, query) == []
