"""A text's words: pairs in scripts without spaces, the parts of ids, prose as it is."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkpg.memory import tokenizer
from adkpg.memory.tokenizer import script_config, searchable


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I don't know; it's a well-known state-of-the-art e-book (isn't it?)",
        "Wait...what? No--never, i.e. gone",
        "line one\nline two\ttabbed  and  double",
    ],
)
def test_prose_is_left_as_it_is(text: str) -> None:
    assert searchable(text) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我是中国人", "我是 是中 中国 国人 我 是 中 国 人"),
        ("我\uff0c你", "我 , 你"),
        ("犬", "犬"),
        ("コーヒー", "コー ーヒ ヒー"),
        ("ﾊﾟｰﾃｨｰ", "パー ーテ ティ ィー"),
        ("犬のポチ", "犬の のポ ポチ 犬"),
        ("北京2024年", "北京 北 京 2024 年"),
        ("차 서울에서", "차 서울 울에 에서 서"),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8", "한국 한"),
        ("ที่บ้าน", "ที่บ้ บ้า าน"),
        ("ខ្ញុំ", "ខ្ញុំ"),
        ("ကြိုက်တယ်", "ကြိုက် က်တ တယ်"),
    ],
)
def test_scripts_without_blanks_become_pairs(text: str, words: str) -> None:
    assert searchable(text).split() == words.split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("order-9981", "order 9981 order9981"),
        ("#9981", "# 9981"),
        ("order9981", "order9981 order 9981"),
        ("A-1234/B", "A 1234 B A1234B"),
        ("-5", "5"),
        ("--5", "- 5"),
        ("10-15", "10 15"),
        ("14-year-old", "14 year-old 14yearold"),
        ("v2.13.0", "v2.13.0 2.13.0 2.13"),
        ("3.50", "3.50 3.5"),
        ("20.00", "20.00 20"),
        ("9,981", "9981 9 981"),
        ("1,234,567.80", "1234567.80 1234567.8 1 234 567"),
        ("1,2", "1 2"),
        ("007", "007 7"),
        ("000", "000 0"),
        ("1st 22nd 90s B12", "1st 22nd 90s B12"),
        ("2024-05-03", "2024 05 5 03 3 20240503"),
        ("2024-05-03T10:45", "2024 05 5 03T10 03 10 20240503T10 : 45"),
        ("+49 170 1234567", "49 170 1234567 701234567"),
        ("01701234567", "01701234567 1701234567 701234567"),
        ("report.pdf.", "report.pdf report pdf ."),
        ("his/hers e.g. x/y", "his/hers his hers e.g. x/y"),
        ("ana@example.com", "ana@example.com ana example com"),
        ("ana99@example.com", "ana99@example.com ana99 ana 99 example com ana99examplecom"),
        ("U.S.A.", "U.S.A USA ."),
        ("١٢٣ १२३ \uff11\uff12\uff13", "123 123 123"),
    ],
)
def test_ids_and_numbers_have_their_parts(text: str, words: str) -> None:
    assert searchable(text).split() == words.split()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Me\u0301xico", "M\u00e9xico"),
        ("मैं हूँ", "मैं हूं"),
        ("फ़ोन", "फोन"),
        ("كِتَاب", "كتاب"),
        ("كتـــاب", "كتاب"),
        ("ﻛﺘﺎﺏ", "كتاب"),
        ("ещё", "еще"),
        ("\uff37\uff49\uff0d\uff26\uff49", "Wi-Fi"),
        ("❤️ok", " ok"),
        ("non\u2011breaking", "non-breaking"),
        ("soft\u00adhyphen", "softhyphen"),
    ],
)
def test_what_is_typed_differently_is_one(one: str, other: str) -> None:
    assert searchable(one).split() == searchable(other).split()


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("", None),
        ("9981 #42", None),
        ("Where is my phone?", None),
        ("Où est mon téléphone ?", None),
        ("Где мой телефон?", "russian"),
        ("Мой аккаунт на GitHub: acme/rocket", "russian"),
        ("She wrote «да» and left for the airport", None),
        ("أين هاتفي؟", "arabic"),
        ("मेरा फोन", "hindi"),
        ("Πού είναι;", "greek"),
        ("என் பெயர்", "tamil"),
        ("Իմ անունը", "armenian"),
        ("手机在哪里", None),
        ("스마트폰 어디", None),
        ("โทรศัพท์อยู่ไหน", None),
        ("ჩემი ტელეფონი", None),
    ],
)
def test_a_scripts_configuration(text: str, config: str | None) -> None:
    assert script_config(text) == config


@given(st.text(st.characters(codec=None), max_size=200))
def test_any_text_becomes_text_that_can_be_stored(text: str) -> None:
    words = searchable(text)
    assert "\x00" not in words
    words.encode()
    assert searchable(text) == words
    script_config(text)


def test_no_script_without_spaces_has_a_letter_below_those_looked_for() -> None:
    every = map(chr, range(sys.maxunicode + 1))
    runs = [char for char in every if tokenizer._RUNS.match(char)]
    assert len(runs) > 100_000
    assert all(map(tokenizer._MAY_RUN.match, runs))


@pytest.mark.parametrize(
    "piece",
    ["1.", "1,", "1,111", "a1-", "+0", "0(/", "(12)", "a.", "0 ", "北", "ก", "각", "\u0301", "1a"],
)
def test_a_text_grows_with_its_length_only(piece: str) -> None:
    once = len(searchable(piece * 1000))
    assert once <= 6 * len(piece) * 1000
    assert len(searchable(piece * 4000)) <= 4 * once + 100
