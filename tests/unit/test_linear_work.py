"""Work on texts and numbers that users wrote grows as they do, and no faster.

It is measured in the CPU time of this thread, since most of it is in C, which nothing counts: at n
and at 4 n, so that the speed of the machine does not matter. Linear work takes four times as long,
quadratic work sixteen. What a busy machine distorts is measured anew.
"""

import contextlib
import io
import json
import sys
import unicodedata
from itertools import groupby
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adkpg import jsontext
from adkpg.memory.tokenizer import searchable
from adkpg.text.normal_forms import nfc, nfkc
from tests.fakes.growing import SHAPES, cases, cpu_s

SIZE = 2_000
MOST = 9.0
"""Times as long for a text four times as long: between linear and quadratic."""
SHORT_S = 0.003
"""What takes less at 4 n is not compared: n² steps of a nanosecond take twenty times as long."""

CASES = {
    name: list(group)
    for name, group in groupby(cases(), key=lambda case: case[0].partition(":")[0])
}


@pytest.mark.parametrize("name", CASES)
def test_work_grows_linearly(name: str) -> None:
    faster = []
    with contextlib.redirect_stdout(io.StringIO()):
        for case, make, call in CASES[name]:
            short, long = make(SIZE), make(4 * SIZE)
            if cpu_s(call, long) > SHORT_S and not any(
                min(cpu_s(call, long) for _ in range(tries))
                < MOST * min(cpu_s(call, short) for _ in range(tries))
                for tries in (1, 3, 6)
            ):
                faster.append(case)
    assert faster == []


MARKS = [
    character
    for character in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(character) != "Cs"
    and all(map(unicodedata.combining, unicodedata.normalize("NFKD", character)))  # noqa: TID251
]
"""What Unicode sorts in a run: all that is nothing but marks once it is taken apart."""


@pytest.mark.parametrize("start", range(0, len(MARKS), 100))
def test_no_mark_makes_a_long_run(start: int) -> None:
    for mark in MARKS[start : start + 100]:
        for form in (nfc, nfkc):
            written = form("a" + mark * 100)
            assert max(map(len, written.split("\u034f"))) <= 2 * 31


@given(st.text(st.characters() | st.sampled_from(MARKS), max_size=30))
def test_what_languages_write_is_in_unicode_s_own_form(text: str) -> None:
    assert nfc(text) == unicodedata.normalize("NFC", text)  # noqa: TID251
    assert nfkc(text) == unicodedata.normalize("NFKC", text)  # noqa: TID251


def test_the_server_s_parser_is_given_no_long_run() -> None:
    for name, shape in SHAPES.items():
        prepared = searchable(shape(2_000))
        assert "<!--" not in prepared, name
        for run in filter(str.isascii, prepared.split()):
            # but for the end of the word that it ends in
            assert len(run) <= 256 or run[256:].isalnum(), name


NUMBERS = st.integers(-(10**400), 10**400) | st.floats(allow_nan=False, allow_infinity=False)


@given(st.recursive(NUMBERS | st.text('1.e+-"\\ '), lambda each: st.lists(each, max_size=5)))
@example([1e17, 10**400, "1e+17", '"1e+17', -1e300, 1e-17])
def test_large_floats_come_back_whatever_is_beside_them(value: Any) -> None:
    text = jsontext.write(value)
    floats: list[str] = []
    json.loads(text, parse_float=floats.append)
    assert not any("e+" in digits for digits in floats)
    assert repr(jsontext.read(text)) == repr(value)
