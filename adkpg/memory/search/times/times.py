"""Times: what a question says of when, as spans of time. Pure.

dateparser reads dates in words. It is asked only about words around one that names a month, since
a search through a whole question takes it tens of milliseconds and finds weekdays in "we"; and
imported only then. Dates in digits, and those of Chinese, Japanese and Korean, are read here: they
are the same in every language. Those that count from now are in `relative`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from adkpg.memory.search.times import relative
from adkpg.memory.search.times.relative import Spans, numeral, season
from adkpg.memory.search.times.words import (
    AMBIGUOUS_MONTHS,
    LAST,
    LEADS,
    MONTHS,
    SHORT_MONTHS,
    SURE_LEADS,
    THIS,
)
from adkpg.text.normal_forms import nfkc

_LONGEST_QUESTION = 2_000  # characters that are looked through
_WINDOW = 6  # words of an expression: "the third of May 2022"
_YEARS = range(-10, 2)  # that a day or month without a year may be of, from the clock's
_MOST_SPANS = 60
_MOST_DATES = 12  # that are parsed, since each takes milliseconds
_LEAP_YEAR = datetime(2024, 1, 1)  # noqa: DTZ001 - of a date without a year, which has all days
_CENTURY = 70  # from this two-digit year on it is 1970, below 2069

_KEYS = frozenset(MONTHS) | SHORT_MONTHS | relative.WORDS
_ASCII_KEYS = _KEYS | {"aujourd", "feira"}  # as runs of letters alone have them

# Letters with their marks, which Hindi's vowels are; without "l'" and the like before them.
_WORD = re.compile(
    r"aujourd'hui|avant-hier|week-end|[^\W\d_]+-feira"
    r"|(?:\b(?:[ldmtscj]|qu|all|dell|nell|un)')?((?:[^\W_]|[\u0300-\u036f\u0900-\u0963\u064b-\u0652])+"
    r"(?:'[^\W_]+)*)",
    re.IGNORECASE,
)
_ENDING = re.compile(r"\s*[^\w\s'\u2019-]|\s*$")
_ORDINAL_WORDS = (  # of English and German
    "first|ersten second|zweiten third|dritten fourth|vierten fifth|fünften sixth|sechsten "
    "seventh|siebten eighth|achten ninth|neunten tenth|zehnten eleventh|elften "
    "twelfth|zwölften thirteenth|dreizehnten fourteenth|vierzehnten fifteenth|fünfzehnten "
    "sixteenth|sechzehnten seventeenth|siebzehnten eighteenth|achtzehnten "
    "nineteenth|neunzehnten twentieth|zwanzigsten twenty-first|einundzwanzigsten twenty- "
    "second|zweiundzwanzigsten twenty-third|dreiundzwanzigsten twenty- "
    "fourth|vierundzwanzigsten twenty-fifth|fünfundzwanzigsten twenty- "
    "sixth|sechsundzwanzigsten twenty-seventh|siebenundzwanzigsten twenty- "
    "eighth|achtundzwanzigsten twenty-ninth|neunundzwanzigsten thirtieth|dreißigsten "
    "thirty-first|einunddreißigsten "
)
_ORDINALS = {
    word: number
    for number, words in enumerate(_ORDINAL_WORDS.split(), 1)
    for word in words.split("|")
}
_NAMES = "|".join(sorted((*MONTHS, *SHORT_MONTHS), key=len, reverse=True))
_ORDINAL = re.compile(
    rf"\b({'|'.join(sorted(_ORDINALS, key=len, reverse=True))})(?=\s+(?:of\s+)?(?:{_NAMES})\b)",
    re.IGNORECASE,
)
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+of\s+(?=(?:{_NAMES})\b)", re.IGNORECASE)
_ORDINAL_SIGN = re.compile(
    rf"\b(\d{{1,2}})(?:er|[oa\u00ba\u00aa\u00b0])\s+(?=(?:d[ei]\s+)?(?:{_NAMES})\b)", re.IGNORECASE
)
_SHORT_YEAR = re.compile(rf"\b({_NAMES})\.?,?\s*['\u2019](\d\d)\b", re.IGNORECASE)
# "May 3-10" and "3 to 10 May": a day for the one that is without its month.
_TO = (
    r"\s*(?:-|\u2013|~|to|until|till|through|bis|au|al|hasta|tot|до|and|und|et|y|e|en|и)"
    r"\s*(?:the\s+|dem\s+|le\s+|el\s+)?"
)
_DAYS_AFTER = re.compile(
    rf"\b({_NAMES})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?({_TO})(\d{{1,2}})(?!\d|\s*(?:{_NAMES}))",
    re.IGNORECASE,
)
_DAYS_BEFORE = re.compile(
    rf"(?<!\d)(\d{{1,2}})(?:st|nd|rd|th)?\.?({_TO})(\d{{1,2}})(?:st|nd|rd|th)?\.?\s+({_NAMES})\b",
    re.IGNORECASE,
)

_ISO = re.compile(r"(?<![\d./-])((?:19|20)\d\d)([-/.])(\d{1,2})(?:\2(\d{1,2}))?(?![\d-]|[./]\d)")
_NUMERIC = re.compile(
    r"(?<![\d./-])(\d{1,2})([./-])(\d{1,2})(?:\2((?:19|20)\d\d|\d\d)(?!\d)|(\.)(?=\s|$|[?!,;)]))?"
    r"(?![./-]?\d)"
)
# Without a year it may be a share or a version: only after one of these.
_DATED = re.compile(
    r"(?:\b(?:on|since|from|before|after|until|till|by|around|between|and|to|date|dated|am|vom|zum|"
    r"den|dem|seit|bis|ab|und|le|du|au|depuis|el|desde|hasta|del|il|dal|al|em|no|op|sinds|der|dnia|с|"
    r"до)|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3])[,(]?\s*$",
    re.IGNORECASE,
)
_YEAR = re.compile(
    r"(?:\b(?:in|of|during|year|since|from|en|im|jahr|jahre|jahres|année|año|anno|ano|anni|w|в|rok|"
    r"roku|seit|depuis|desde|dal|op|från)\s+)((?:19|20)\d\d)\b(?![-/.]\d)"
    r"|(?<!\d)((?:19|20)\d\d)\s*(?:[年년]|году|года|yılı)"
)
_QUARTER = re.compile(
    r"\b(?:Q([1-4])|([1-4])\.\s*Quartal)\s*(?:of\s+|/)?((?:19|20)\d\d)\b", re.IGNORECASE
)
_THIS_DAY = re.compile(
    r"\bon\s+the\s+(\d{1,2})(?:st|nd|rd|th)(?=\s*(?:[?.!,;]|$)|\s+(?:i|we|you|he|she|they|did)\b)",
    re.IGNORECASE,
)
_EAST_ASIAN = re.compile(
    r"(?:(去年|今年|前年|昨年|작년|올해|(?<!\d)(?:(?:19|20)\d\d|[〇零一二三四五六七八九]{4})\s*[年년])"
    r"\s*的?の?)?(?<!\d)([0-9]{1,2}|[一二三四五六七八九十]{1,2})\s*(?:月份|[月월](?![亮饼光球经租薪票卡嫂台不怀前]))\s*"
    r"(?:([0-9]{1,2}|[一二三四五六七八九十廿]{1,3})\s*(?:[日號号일](?!线|楼|元|圆)|(?![0-9一二三四五六七八九十])))?"
)
_YEARS_BEFORE = {"去": -1, "昨": -1, "작": -1, "今": 0, "올": 0, "前": -2}
_DIGITS = {sign: str(value) for value, sign in enumerate("〇一二三四五六七八九")} | {"零": "0"}
_DIGIT, _LETTERS = re.compile(r"\d"), re.compile("[a-z]+")
_ANY_FIRST = re.compile(  # one of the words of `_FIRST`, quickly
    "first|earliest|initial|erste|prem|prim|перв|pierw|förs|ilk|أول|पहली|첫|처음|第一|首次|最初|初めて",
    re.IGNORECASE,
)
_FIRST = re.compile(
    r"\b(?:our|my|the)\s+(?:very\s+)?(?:first|earliest|initial)\s+(?:ever\s+)?"
    r"(?:conversation|chat|talk|session|discussion|meeting|dialogue|time\s+we\s+(?:talked|spoke|met|"
    r"chatted))|\bfirst\s+time\s+(?:we|i)\s+(?:talked|spoke|met|chatted|wrote)|"
    r"\bwe\s+first\s+(?:talked|spoke|met|chatted)|"
    r"\berste[nsmr]?\s+(?:gespräch|unterhaltung|chat|sitzung)|"
    r"\bpremi[eè]re?\s+(?:conversation|discussion|échange|entretien)|"
    r"\bprimer[ao]?\s+(?:conversaci[oó]n|charla|chat|sesi[oó]n)|"
    r"\bprim[ao]\s+(?:conversazione|chiacchierata)|\bprimeira\s+conversa|"
    r"\bперв(?:ый|ом|ого|ая|ой)\s+(?:разговор|беседа|беседе)\w*|"
    r"\bfirst\s+things?\s+(?:that\s+)?(?:i|you|we)\s+(?:ever\s+)?"
    r"(?:said|told|asked|wrote|talked|discussed|mentioned)|"
    r"\beerste\s+(?:gesprek|chat)|\bförsta\s+(?:samtal|chatt)|"
    r"\bpierwsz(?:a|ą|ej)\s+(?:rozmow|czat)|\bilk\s+(?:konuşma|sohbet|görüşme)|"
    r"أول\s+(?:محادثة|حديث|حوار)|पहली\s+(?:बातचीत|बात|चैट)|"
    r"(?:첫|처음)\s*(?:번째\s*)?(?:대화|채팅|만남)|"
    r"(?:第一次|首次|最初|初めて)[的の]?(?:[^。？?]{0,4}?)(?:聊天|对话|谈话|交谈|会话|交流|会話|対話|話)",
    re.IGNORECASE,
)


_Parsers = dict[tuple[str, ...], Any]


@dataclass(frozen=True)
class Times:
    """What a question says of when.

    Attributes:
      spans: From when to when, the end excluded, in UTC.
      first: Whether it asks about the first conversation.
    """

    spans: tuple[tuple[datetime, datetime], ...] = ()
    first: bool = False

    def __bool__(self) -> bool:
        return bool(self.spans) or self.first


NO_TIMES = Times()


class _Dated(NamedTuple):
    """An expression of the question, and what it is: a span for each year it may be of."""

    start: int
    end: int
    spans: Spans


def may_tell_time(question: str) -> bool:
    """Returns whether a question may say when; takes microseconds, and imports nothing."""
    text = question[:_LONGEST_QUESTION]
    if text.isascii():
        return (
            _DIGIT.search(text) is not None
            or not _ASCII_KEYS.isdisjoint(_LETTERS.findall(text.lower()))
            or _asks_of_first(text)
        )
    text = _read(text)
    return (
        any(map(str.isdigit, text))
        or any(word in _KEYS for word, _ in _words(text))
        or _EAST_ASIAN.search(text) is not None
        or relative.may_be_unspaced(text)
        or _asks_of_first(text)
    )


def told_times(question: str, now: datetime) -> Times:
    """Returns the times that a question names.

    A day or a month without a year is meant of any of the last ten years, since a user may speak of
    any. "Last week" is a calendar week, "last May" the last one that is over, and of 5/4 both
    readings count.

    Args:
      question: Any text, in any of some twenty languages.
      now: The clock that "yesterday" counts from, with an offset: days begin where it is.
    """
    text = _read(question)
    here = now.replace(tzinfo=UTC)  # days and months are those of its place
    first = _asks_of_first(text)
    spans = [
        tuple(each.replace(tzinfo=now.tzinfo).astimezone(UTC) for each in span)
        for span in _told(_spelled(text), here)
        if span[0].year > 1 and span[1].year < 9999
    ]
    told = dict.fromkeys((since, until) for since, until in spans if since < until)
    return Times(tuple(told)[:_MOST_SPANS], first)


def _asks_of_first(text: str) -> bool:
    return _ANY_FIRST.search(text) is not None and _FIRST.search(text) is not None


def _read(question: str) -> str:
    """What is looked through, with digits and spaces as ASCII has them."""
    # Cut once more, since NFKC makes up to 18 characters of one.
    text = nfkc(question[:_LONGEST_QUESTION])[:_LONGEST_QUESTION]
    return text.replace("\u2019", "'")


def _spelled(text: str) -> str:
    """The text with days as numbers and both ends of a range with their month."""
    text = _ORDINAL.sub(lambda match: str(_ORDINALS[match[1].casefold()]), text)
    text = _SHORT_YEAR.sub(lambda match: f"{match[1]} {_full_year(match[2])}", text)
    text = _ORDINAL_SIGN.sub(r"\1 ", text)
    text = _DAY_FIRST.sub(r"\1 ", text)
    text = _DAYS_AFTER.sub(r"\1 \2\3\1 \4", text)
    return _DAYS_BEFORE.sub(r"\1 \4\2\3 \4", text)


def _told(text: str, now: datetime) -> Spans:
    found: list[_Dated] = []
    rest = text
    for pattern, read in (
        (_ISO, _iso),
        (_EAST_ASIAN, _east_asian),
        (_QUARTER, _quarter),
        (_THIS_DAY, _this_day),
    ):
        for match in pattern.finditer(rest):
            spans = read(match, now)
            if spans:
                found.append(_Dated(match.start(), match.end(), spans))
        rest = pattern.sub(lambda match: " " * len(match[0]), rest)
    worded = list(_worded(rest, now))
    found += worded
    for match in _NUMERIC.finditer(rest):
        if not any(each.start <= match.start() < each.end for each in worded):
            found.append(_Dated(match.start(), match.end(), _numeric(rest, match, now)))
    if found and any(each.spans for each in found):
        return [span for each in _joined(sorted(found), rest) for span in each]
    spans = [] if text.isascii() else relative.unspaced_times(text, now)
    if any(word in relative.WORDS for word, _ in _words(text)):
        told = list(_words(text))
        ends = [_ENDING.match(text, end) is not None for _, (_, end) in told]
        spans += relative.relative_times([word for word, _ in told], ends, now)
    if not spans:
        for match in _YEAR.finditer(text.casefold()):
            spans += _span(int(match[1] or match[2]), None, None)
    return spans


_RANGE = re.compile(
    r"\s*(?:-|\u2013|\u2014|~|to|until|till|through|bis(?:\s+zum)?|à|au|al?|hasta(?:\s+el)?|até|tot|do|до|"
    r"至|到|から|부터)\s*(?:the\s+|le\s+|el\s+|den\s+)?",
    re.IGNORECASE,
)
_AND = re.compile(
    r"\s*(?:and|und|et|y|e|en|i|и|和)\s*(?:the\s+|le\s+|el\s+|dem\s+)?", re.IGNORECASE
)
_BETWEEN = re.compile(
    r"(?:between|zwischen|entre|fra|tra|tussen|między|между)\s*(?:the|le|el|dem)?\s*$",
    re.IGNORECASE,
)


def _joined(found: list[_Dated], text: str) -> Iterator[Spans]:
    """The spans of all, with one for both ends of a range."""
    place = 0
    while place < len(found):
        one = found[place]
        if place + 1 < len(found):
            other = found[place + 1]
            said = text[one.end : other.start]
            if _RANGE.fullmatch(said) or (
                _AND.fullmatch(said) and _BETWEEN.search(text[: one.start])
            ):
                stretch = _stretch(one.spans, other.spans)
                if stretch:
                    yield stretch
                    place += 2
                    continue
        yield one.spans
        place += 1


def _stretch(ones: Spans, others: Spans) -> Spans:
    """From each beginning to the next end within a year."""
    found = []
    for _, until in others:
        starts = [since for since, _ in ones if until - timedelta(days=366) <= since < until]
        if starts:
            found.append((max(starts), until))
    return found


def _full_year(digits: str) -> int:
    year = int(digits)
    return year if len(digits) > 2 else year + (1900 if year >= _CENTURY else 2000)


def _span(year: int, month: int | None, day: int | None) -> Spans:
    """A year, a month or a day; none if the calendar has no such."""
    try:
        start = datetime(year, month or 1, day or 1, tzinfo=UTC)
        if day is not None:
            return [(start, start + timedelta(days=1))]
        if month is not None:
            return [(start, start.replace(year + month // 12, month % 12 + 1))]
        return [(start, start.replace(year + 1))]
    except (ValueError, OverflowError):
        return []


def _of_any_year(now: datetime, month: int, day: int | None) -> Spans:
    return [each for years in _YEARS for each in _span(now.year + years, month, day)]


def _iso(match: re.Match[str], now: datetime) -> Spans:
    if match[4] is None and match[2] == ".":  # a version: "2023.1"
        return []
    return _span(int(match[1]), int(match[3]), int(match[4]) if match[4] else None)


def _quarter(match: re.Match[str], now: datetime) -> Spans:
    return season(int(match[3]), 3 * int(match[1] or match[2]) - 2)


def _this_day(match: re.Match[str], now: datetime) -> Spans:
    """As "on the 3rd": of this month, or the last that had it."""
    spans = [
        span
        for month in range(now.year * 12 + now.month - 3, now.year * 12 + now.month)
        for span in _span(month // 12, month % 12 + 1, int(match[1]))
        if span[0] <= now
    ]
    return spans[-1:]


def _numeric(text: str, match: re.Match[str], now: datetime) -> Spans:
    """Both readings of 5/4, the only one of 25.4."""
    one, other = int(match[1]), int(match[3])
    pairs = [(one, other), (other, one)] if one != other else [(one, other)]
    led = _DATED.search(text[: match.start()]) is not None
    if match[2] == ".":  # the day comes first wherever dots are written
        pairs = pairs[1:] or pairs
    if match[4]:
        if len(match[4]) == 2 and not led and match[2] != "/":
            return []
        year = _full_year(match[4])
        return [each for month, day in pairs for each in _span(year, month, day)]
    # Not "chapters 3-5" nor "3.5"; "am 3.5." has a dot after it.
    if not led or match[2] == "-" or (match[2] == ".") != (match[5] is not None):
        return []
    return [each for month, day in pairs for each in _of_any_year(now, month, day)]


def _east_asian(match: re.Match[str], now: datetime) -> Spans:
    month = numeral(match[2])
    day = numeral(match[3]) if match[3] else None
    if not match[1]:
        return _of_any_year(now, month, day)
    years = _YEARS_BEFORE.get(match[1][0])
    if years is not None:
        return _span(now.year + years, month, day)
    return _span(int("".join(_DIGITS.get(each, each) for each in match[1][:4])), month, day)


def _words(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The words in lower case, and where they are, without articles before an apostrophe."""
    for match in _WORD.finditer(text):
        group = 1 if match[1] is not None else 0
        word = match[group].casefold()
        yield word, match.span(group)


def _worded(text: str, now: datetime) -> Iterator[_Dated]:
    """The dates in words: the longest expressions around each month."""
    words = list(_words(text))
    told = [word for word, _ in words]
    done = 0  # where the expression before ends
    months: list[int] = []
    for place, word in enumerate(told):
        if word in MONTHS or word in SHORT_MONTHS:
            another = (
                place - 2 in months[-1:] and _AND.fullmatch(f" {told[place - 1]} ") is not None
            )
            if another or _is_month(text, words, place):
                months.append(place)
    parsers: _Parsers = {}
    for place in months[:_MOST_DATES]:
        dated = _parsed(text, words, place, done, parsers, now)
        if dated is not None:
            done = dated.end
            yield dated


_MODAL = frozenset(("may", "march"))  # verbs, if without a capital


def _is_month(text: str, words: list[tuple[str, tuple[int, int]]], place: int) -> bool:
    """Whether a word that may be a month is one here."""
    word, (start, _) = words[place]
    around = [words[other][0] for other in (place - 1, place + 1) if 0 <= other < len(words)]
    before = words[place - 1][0] if place else ""
    numbered = any(each[0].isdigit() for each in around)
    if numbered and not (word in _MODAL and text[start].islower()):
        return True
    if word in SHORT_MONTHS:
        return numbered or (before in ("in", "of", "since", "last") and not text[start].islower())
    if word in _MODAL and text[start].islower():
        return before in SURE_LEADS or _is_date(words, place)
    return word not in AMBIGUOUS_MONTHS or before in LEADS


def _is_date(words: list[tuple[str, tuple[int, int]]], place: int) -> bool:
    """Whether the number next to "may" or "march" is of a date, not of "they may 3 times"."""
    said = [
        words[each][0] if 0 <= each < len(words) else "" for each in range(place - 2, place + 2)
    ]
    led, before, _, after = said
    if re.fullmatch(r"\d{1,2}(?:st|nd|rd|th)", before) or re.fullmatch(
        r"(?:19|20)\d\d|\d{1,2}(?:st|nd|rd|th)", after
    ):
        return True
    if re.fullmatch(r"\d{1,2}", after):
        return before in _DATES_LEADS
    return re.fullmatch(r"\d{1,2}", before) is not None and (
        led in _DATES_LEADS or not after or re.fullmatch(r"(?:19|20)\d\d", after) is not None
    )


_DATES_LEADS = frozenset(
    ("", "on", "since", "until", "till", "from", "to", "by", "before", "after", "between", "and")
)
_DATE_WORD = re.compile(r"\d{1,4}(?:st|nd|rd|th)?|º|of|the|de|del|di|den|der|em")


def _parsed(
    text: str,
    words: list[tuple[str, tuple[int, int]]],
    place: int,
    since: int,
    parsers: _Parsers,
    now: datetime,
) -> _Dated | None:
    from dateparser.date import DateDataParser  # noqa: PLC0415 - only questions with a month need it

    word = words[place][0]
    languages = MONTHS.get(word, ("en",))
    if languages not in parsers:
        settings = {"PREFER_DAY_OF_MONTH": "first", "RELATIVE_BASE": _LEAP_YEAR}
        parsers[languages] = DateDataParser(languages=list(languages), settings=settings)
    for size in range(_WINDOW, 0, -1):
        for start in range(max(0, place - size + 1), min(place, len(words) - size) + 1):
            chosen = words[start : start + size]
            if (
                chosen[0][1][0] < since
                or not all(each == word or _DATE_WORD.fullmatch(each) for each, _ in chosen)
                or sum(each in MONTHS for each, _ in chosen) > 1
            ):
                continue
            span = chosen[0][1][0], chosen[-1][1][1]
            window = text[slice(*span)]
            data = parsers[languages].get_date_data(window)
            if data.date_obj is None:
                continue
            found = data.date_obj
            day = found.day if data.period == "day" else None
            if re.search(r"(?<!\d)(?:19|20)\d\d(?!\d)", window):
                return _Dated(*span, _span(found.year, found.month, day))
            around = {
                words[other][0] for other in (start - 1, start + size) if 0 <= other < len(words)
            }
            if day is None and not around.isdisjoint(LAST):
                return _Dated(*span, _last(now, found.month))
            if day is None and not around.isdisjoint(THIS):
                return _Dated(*span, _span(now.year, found.month, None))
            return _Dated(*span, _of_any_year(now, found.month, day))
    return None


def _last(now: datetime, month: int) -> Spans:
    """The last such month that is over."""
    return _span(now.year if month < now.month else now.year - 1, month, None)
