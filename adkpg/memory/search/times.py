"""Times: what a question says of when, as spans of the calendar. Pure.

Each word that speaks of time is a letter, and what stands between such words is an "x": "the week
before May 3rd" is "U<mO". Rules read these letters, one rule after the other. Each puts a period,
"P" ("J" is a year, "V" a week), in the place of what it reads, and later rules build on it. What no
rule reads says nothing: better no time than a false one. A language is a table of words.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from adkpg.timestamps import EARLIEST, LATEST

_LONGEST_QUESTION = 2_000  # characters that are looked through
_MOST_SPANS = 60
_YEARS = range(-10, 2)  # that a day or month without a year may be of, from the clock's
_CENTURY = 70  # from this two-digit year on it is 1970, below 2069
_FEW = (7, 2)
_HALF_A_YEAR = (7, 5)  # in months
_MONTHS = {"month": 1, "quarter": 3, "year": 12}  # how many months a unit has
_DAYS = {"week": 7, "weekend": 7, "fortnight": 14}
_DATED, _RELATIVE, _YEAR, _OPEN = range(4)  # of several periods, those of the first kind count

# Each line has a letter and its words, which mean their place in the line; "-" leaves one out.
# Of numbers "3" is D, "3rd" and 3日 are O, "300" is B, "2023" Y, "'23" y, "5/4" R, 三 N and 五月 M;
# "may" without a capital is v.
_ENGLISH = """
M january february - - - - july - september october november december
m - - march april may june - august
j jan feb mar apr - jun jul aug sep|sept oct nov dec
W monday tuesday wednesday thursday friday saturday sunday
S spring summer autumn|fall winter
Q q1 q2 q3 q4
U week|weeks|wk|wks month|months quarter|quarters fortnight|fortnights \
  night|nights|morning|mornings|afternoon|afternoons|evening|evenings
A year|years|yr|yrs
w weekend|weekends
C day|days
I hour|hours|hr|hrs|minute|minutes|min|mins
d today|tonight yesterday
N one|a|an two|couple three four five six seven eight nine ten eleven twelve
o first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth \
  fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first \
  twenty-second twenty-third twenty-fourth twenty-fifth twenty-sixth twenty-seventh twenty-eighth \
  twenty-ninth thirtieth thirty-first
F few|several|some
h half
L last|past|previous
T this|current
G ago|earlier|back
e early|mid|late|beginning|start|middle|end
n on|over|at
p in|during|around|within|throughout
f of
< before
> after
s since
z onward|onwards
u until|till|by
r from
t to|through
b between
& and|or|&
X not|except|than|without
! next|every|each|any|most|black|good|easter|palm|ash|cyber
i i|we|you|he|she|they|did
_ the|"|“|”|(|)|[|]|《|》
. .|!|?|;|:|…|。
, ,|、
- -|–|—|~
/ /
k 's
"""
_CHINESE = """
K 周一|星期一|礼拜一 周二|星期二|礼拜二 周三|星期三|礼拜三 周四|星期四|礼拜四 周五|星期五|礼拜五 \
  周六|星期六|礼拜六 周日|周天|星期日|星期天|礼拜日|礼拜天
S 春天|春季 夏天|夏季 秋天|秋季 冬天|冬季
U 周|星期|礼拜 月|个月 季度
A 年
C 天
d 今天|今日|今晚|今早 昨天|昨日|昨晚|昨夜 前天|前晚 大前天 今年 去年 前年 大前年
E 周末
F 几|数|好几
h 半
L 上|过去|最近|近 上上
T 这|本
l 初|底|末|中|上旬|中旬|下旬
n 在|于
f 的
q 前|之前|以前
a 后|之后|以后
s 自|自从
z 起|以来
Z 开始
u 截至|截止|直到
g 为止|止
r 从
t 到|至
c 之间
& 和|与|及|或
X 不在|除|除了
! 每|下
_ 个
"""
_MEANINGS: dict[str, Sequence[Any]] = {  # of words that do not mean their place
    "U": ("week", "month", "quarter", "fortnight", "day"),
    "A": ("year",),
    "C": ("day",),
    "E": ("weekend",),
    "I": ("hour",),
    "w": ("weekend",),
    "F": _FEW,
    "d": (*(("day", ago) for ago in range(4)), *(("year", ago) for ago in range(4))),
}
# What is such a word: not the parts of "晚上", "下午", "8月3日前往", "5月3日起床", "一周三次".
_ONLY = {
    "上": "(?<![晚早])上",
    "下": "下(?=个?(?:周|星期|礼拜))",
    "前": "前(?![往去来面台])",
    "后": "后(?![来续面台院])",
    "中": "中(?![国心])",
    "起": "起(?![床来飞点诉])",
    "不在": "(?<!在)不在",
    "'s": "'s(?![a-z])",
}
_NUMERAL = "〇零一二两三四五六七八九十廿"
_WEEKDAY = rf"(?<![\d{_NUMERAL}])%s(?![期年月个次])"
_WORDS = {
    word: (line[0], _MEANINGS.get(line[0], range(1, 32))[place])
    for line in f"{_ENGLISH}{_CHINESE}".split("\n")
    for place, words in enumerate(line[2:].split())
    for word in words.split("|")
}
_OTHERS = "|".join(
    _WEEKDAY % word if _WORDS[word][0] == "K" else _ONLY.get(word, re.escape(word))
    for word in sorted(_WORDS, key=len, reverse=True)
    if not re.match("[a-z]", word)
)
_WORD = re.compile(
    r"(?=\S)(?:(?P<word>(?:twenty|thirty)-[a-z]+|[a-z\u00c0-\u024f]+\d*)"
    r"|(?P<iso>(?<![\d.-])((?:19|20)\d\d)([-/.])(\d\d?)(?:\4(\d\d?)(?:/(\d\d))?)?)"
    r"(?!\d|[-.]\d)"
    r"|(?P<date>(?<![\d./-])(\d\d?)([./-])(\d\d?)(?:\10((?:19|20)?\d\d)|(?<=/\d)|(?<=/\d\d)))"
    r"(?![./-]?\d)"
    rf"|(?P<month>\d\d?|[{_NUMERAL}]+)\s*月(?![亮饼光球经租薪票卡嫂台怀])份?"
    rf"|(?P<day>\d\d?(?=[snrt]|\s*[日号])|[{_NUMERAL}]+(?=[日号]))"
    r"(?:st\b|nd\b|rd\b|th\b|\s*[日号](?![线元圆常楼]))"
    r"|(?P<number>\d+(?:[.:/]\d+|,\d{3}(?!\d))*)"
    rf"|'(?P<short>\d\d)\b|(?P<numeral>[{_NUMERAL}]+)|(?P<other>{_OTHERS}))",
    re.IGNORECASE,
)
_SAME = {0x2019: "'", 0x3000: " "} | {sign: chr(sign - 0xFEE0) for sign in range(0xFF01, 0xFF5F)}
_SAME |= dict(zip(map(ord, "週個這禮後號兩"), "周个这礼后号两", strict=True))
_DIGITS = {sign: value for value, sign in enumerate("零一二三四五六七八九")}
_DIGITS |= {"〇": 0, "两": 2}
_FIRST = re.compile(
    r"\b(?:our|my|the)\s+(?:very\s+)?(?:first|earliest|initial)\s+(?:ever\s+)?"
    r"(?:conversation|chat|talk|session|discussion|meeting|dialogue|time\s+we\s+(?:talked|spoke|met|"
    r"chatted))|\bfirst\s+time\s+(?:we|i)\s+(?:talked|spoke|met|chatted|wrote)|"
    r"\bwe\s+first\s+(?:talked|spoke|met|chatted)|"
    r"\bfirst\s+things?\s+(?:that\s+)?(?:i|you|we)\s+(?:ever\s+)?"
    r"(?:said|told|asked|wrote|talked|discussed|mentioned)|"
    r"(?:第一次|首次|最初)的?[^。?]{0,4}?(?:聊天|对话|谈话|交谈|会话|交流|對話|談話|會話)",
    re.IGNORECASE,
)
_MODAL = re.compile(  # where "may" and "march" without a capital are months
    r"(?<=[pfseutO])v|v(?=O|,?Y)|(?<=[nsur<>b&])v(?=D)|(?<=[nsur<>b&]D)v|(?<=D)v(?=,?Y)"
)

Span = tuple[datetime, datetime]


@dataclass(frozen=True)
class Times:
    """What a question says of when.

    Attributes:
      spans: From when to when, the end excluded, in UTC; one that is open reaches to the end of the
        calendar.
      first: Whether it asks about the first conversation.
      read: Where in the question it says so: characters from and to, in order.
    """

    spans: tuple[Span, ...] = ()
    first: bool = False
    read: tuple[tuple[int, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.spans) or self.first


NO_TIMES = Times()


class _Period(NamedTuple):
    """A period: a span for each year that it may be of, and for each way to read it."""

    spans: list[Span]
    unit: str = "day"
    kind: int = _RELATIVE

    @property
    def letter(self) -> str:
        return {"year": "J", "week": "V", "weekend": "V"}.get(self.unit, "P") if self.spans else "x"


class _Said(NamedTuple):
    """A word: its letter, what it means, and where it is."""

    letter: str
    meaning: Any
    start: int
    end: int


_Words = list[_Said]
_NOTHING = _Period([])


def told_times(question: str, now: datetime) -> Times:
    """Returns the times that a question names, in English, Chinese or digits.

    A day or a month without a year is meant of any of the last ten years, since a user may speak of
    any; where a span is open, of the last one. "Last week" is a calendar week, "last May" the last
    one that is over, and of 5/4 both readings count. Dates count before times that are told from
    now, those before years, and open spans only if there is nothing else.

    Args:
      question: Any text.
      now: The clock that "yesterday" counts from, with an offset: days begin where it is.
    """
    text = question[:_LONGEST_QUESTION].translate(_SAME)
    if not text.isascii():
        text = re.sub(r"\d", lambda match: str(int(match[0])), text)
    first = [match.span() for match in _FIRST.finditer(text)]
    told = _periods(text, now.replace(tzinfo=UTC))  # days and months are those of its place
    kind = min((each.meaning.kind for each in told), default=_OPEN)
    found = [span for each in told if each.meaning.kind == kind for span in each.meaning.spans]
    if kind != _OPEN:  # "After he came on July 20, what did he say by July 22?"
        opened = [
            span for each in told if each.meaning.kind == _OPEN for span in each.meaning.spans
        ]
        found += _stretch(found, [span for span in opened if span[0] == EARLIEST])
    spans = dict.fromkeys((_utc(since, now), _utc(until, now)) for since, until in found)
    return Times(
        tuple(span for span in spans if span[0] < span[1])[:_MOST_SPANS],
        bool(first),
        tuple(sorted([*first, *((each.start, each.end) for each in told)])),
    )


def _utc(time: datetime, now: datetime) -> datetime:
    if now.tzinfo is not UTC and EARLIEST < time < LATEST:
        return time.replace(tzinfo=now.tzinfo).astimezone(UTC)
    return min(max(time, EARLIEST), LATEST)


def _periods(text: str, now: datetime) -> _Words:
    said = _lexed(text, now)
    row = "".join(each.letter for each in said)
    if _ANY.search(row) is None:
        return []
    row = _MODAL.sub("m", row)
    for pattern, read in _RULES:
        found: _Words = []
        left, done = "", 0
        for match in pattern.finditer(row):
            start, end = match.span()
            try:
                period = read(said[start:end], now)
            except (ValueError, OverflowError):  # beyond the calendar
                period = _NOTHING
            place = _Said(period.letter, period, said[start].start, said[end - 1].end)
            found += [*said[done:start], place]
            left += row[done:start] + place.letter
            done = end
        if done:
            said, row = found + said[done:], left + row[done:]
    return [each for each in said if each.letter in "PJV"]


def _lexed(text: str, now: datetime) -> _Words:
    said: _Words = []
    end = 0
    for match in _WORD.finditer(text):
        start = match.start()
        if start > end and text[end:start].strip():
            said.append(_Said("x", None, end, start))
        end = match.end()
        letter, meaning = _meant(match, match.lastgroup or "", now)
        if letter != "_":
            said.append(_Said(letter, meaning, start, end))
    if text[end:].strip():
        said.append(_Said("x", None, end, len(text)))
    return said


def _meant(match: re.Match[str], kind: str, now: datetime) -> tuple[str, Any]:
    """The letter and the meaning of a word."""
    word = match[kind]
    if kind in ("word", "other"):
        letter, meaning = _WORDS.get(word.lower(), ("x", None))
        return ("v" if word in ("may", "march") else letter), meaning
    if kind == "iso":
        year, month = int(match[3]), int(match[5])
        day, to = (int(match[each]) if match[each] else None for each in (6, 7))
        period = _Period(_date(year, month, day), "day" if day else "month", _DATED)
        if to:
            period = period._replace(spans=_stretch(period.spans, _date(year, month, to)))
        return ("x" if match[4] == "." and not day else period.letter), period
    if kind == "date":
        return _numeric(match, now)
    if kind == "short":
        return "y", _full_year(word)
    value = _number(word)
    if kind in ("month", "day"):
        return ("M" if kind == "month" else "O"), value
    if value is None or re.fullmatch("(?:19|20)..", str(value)):
        return ("x" if value is None else "Y"), value
    return ("N" if kind == "numeral" else "D" if len(word) < len("100") else "B"), value


def _numeric(match: re.Match[str], now: datetime) -> tuple[str, Any]:
    """Both ways to read 5/4/23; of 4.5.2023 the day comes first."""
    one, sign, other, year = int(match[9]), match[10], int(match[11]), match[12]
    short = year is not None and len(year) == len("23")
    if short and (sign == "-" or (sign == "." and len(match["date"]) < len("03.05.23"))):
        return "x", None  # a version, or a number of a telephone
    pairs = dict.fromkeys([(other, one)] if sign == "." else [(one, other), (other, one)])
    of = _full_year(year) if year else None
    period = _Period([span for pair in pairs for span in _dates(now, of, *pair)], "day", _DATED)
    return (period.letter if year else "R"), period


def _number(text: str) -> int | None:
    if text[0] not in _NUMERAL:
        return int(text) if text.isdigit() else None
    tens, ten, ones = text.replace("廿", "二十").rpartition("十")
    if not ten:  # 二〇二三
        return int("".join(str(_DIGITS[each]) for each in text))
    return 10 * _DIGITS.get(tens, 1) + _DIGITS.get(ones, 0)


def _full_year(digits: str) -> int:
    year = int(digits)
    return year if len(digits) > len("23") else year + (1900 if year >= _CENTURY else 2000)


def _of(said: _Words, letters: str) -> Any:
    """What the last word with one of these letters means; None if there is none."""
    return next((each.meaning for each in reversed(said) if each.letter in letters), None)


def _date(year: int, month: int | None = None, day: int | None = None) -> list[Span]:
    """A year, a month or a day; none if the calendar has no such."""
    try:
        start = datetime(year, 1 if month is None else month, 1 if day is None else day, tzinfo=UTC)
        unit = "year" if month is None else "month" if day is None else "day"
        return [(start, _moved(start, unit, 1))]
    except (ValueError, OverflowError):
        return []


def _dates(now: datetime, year: int | None, month: int, day: int | None) -> list[Span]:
    years = [now.year + each for each in _YEARS] if year is None else [year]
    return [span for each in years for span in _date(each, month, day)]


def _moved(time: datetime, unit: str, count: int) -> datetime:
    if unit not in _MONTHS:
        return time + timedelta(days=count * _DAYS.get(unit, 1))
    year, month = divmod(time.year * 12 + time.month - 1 + _MONTHS[unit] * count, 12)
    return time.replace(year, month + 1, min(time.day, monthrange(year, month + 1)[1]))


def _back(now: datetime, unit: str, count: int) -> Span:
    """The day, week, month or year so many before now."""
    if unit == "hour":
        return _back(now - timedelta(hours=count), "day", 0)
    if unit == "fortnight":
        return _back(now, "week", 2 * count)
    start = datetime(now.year, now.month, now.day, tzinfo=UTC)
    if unit == "weekend":
        days = (now.weekday() - 5) % 7
        count -= days > 1 and count > 0  # the last one is over
        start -= timedelta(days=days)
    elif unit == "week":
        start -= timedelta(days=now.weekday())
    elif unit in _MONTHS:
        start = start.replace(month=(now.month - 1) // _MONTHS[unit] * _MONTHS[unit] + 1, day=1)
    start = _moved(start, unit, -count)
    return start, _moved(start, "day", 2) if unit == "weekend" else _moved(start, unit, 1)


def _stretch(ones: list[Span], others: list[Span]) -> list[Span]:
    """From each beginning to the next end."""
    found: dict[datetime, datetime] = {}
    for until in sorted((until for _, until in others), reverse=True):
        if starts := [since for since, _ in ones if since < until]:
            found[max(starts)] = until
    return sorted(found.items())


def _relative(said: _Words, now: datetime) -> _Period:
    """As "yesterday", "the last two weeks", "a few days ago", "the week before last"."""
    letters = "".join(each.letter for each in said)
    unit, count, last = _of(said, "UACEIw"), _of(said, "DNBF") or 1, _of(said, "L") or 0
    since = until = last + letters.endswith("<L")
    if letters == "d":
        unit, since = said[0].meaning
        until = since
    elif letters[0] == "h":
        unit, (since, until) = "month", _HALF_A_YEAR
    elif letters[-1] in "Gq":
        since, until = _FEW if "F" in letters else (count, count)
    elif count > 1:
        since, until = count, 0
    return _Period([(_back(now, unit, since)[0], _back(now, unit, until)[1])], unit)


def _calendar(said: _Words, now: datetime) -> _Period:
    """As "3 May", "3rd to 10th of May 2023", "between May 3 and 10", "3-May-24", "last May"."""
    letters = "".join(each.letter for each in said)
    month, days = _of(said, "Mmjv"), [each.meaning for each in said if each.letter in "DOo"]
    year = _year_of(said)
    if re.match("D-.+-D", letters):
        year = _full_year(f"{days.pop():02}")
    elif letters[0] in "LT":
        year = now.year - (letters[0] == "L" and month >= now.month)
    found = [_dates(now, year, month, day) for day in days or [None]]
    spans = [span for each in found for span in each]
    if len(found) > 1 and re.search("[-tub]", letters):
        spans = _stretch(found[0], found[-1])
    return _Period(spans, "day" if days else "month", _DATED)


def _year(said: _Words, now: datetime) -> _Period:
    return _Period(_date(_of(said, "Y")), "year", _YEAR)


def _year_of(said: _Words) -> int | None:
    year: int | None = _of(said, "Yy")
    period: _Period | None = _of(said, "J")
    return year if period is None else period.spans[0][0].year


def _season(said: _Words, now: datetime) -> _Period:
    """As "summer of 2022", "last summer", "Q1 2022"."""
    year, season = _year_of(said), _of(said, "S")
    month = 3 * season if season else 3 * _of(said, "Q") - 2
    starts = [datetime(year or now.year - each, month, 1, tzinfo=UTC) for each in range(3)]
    spans = [(start, _moved(start, "quarter", 1)) for start in starts]
    if year is None:
        spans = [span for span in spans if span[said[0].letter == "L"] <= now]
    return _Period(spans[:1], "quarter", _RELATIVE if year is None else _DATED)


def _weekday(said: _Words, now: datetime) -> _Period:
    """As "on Tuesday", the last one before today, "Tuesday of last week" and 上周三."""
    day, week = _of(said, "WK") - 1, _of(said, "V")
    if week is None and [each.letter for each in said] in (["L", "K"], ["T", "K"]):
        week = _relative([said[0], said[1]._replace(letter="U", meaning="week")], now)
    if week is None:
        return _Period([_back(now, "day", (now.weekday() - day - 1) % 7 + 1)])
    start = _moved(week.spans[0][0], "day", day)
    return _Period([(start, _moved(start, "day", 1))])


def _this_day(said: _Words, now: datetime) -> _Period:
    """As "on the 3rd": of this month, or of the last that had it."""
    months = [_back(now, "month", each)[0] for each in range(3)]
    found = [span for each in months for span in _date(each.year, each.month, _of(said, "O"))]
    return _Period([span for span in found if span[0] <= now][:1], "day", _DATED)


def _beside(said: _Words, now: datetime) -> _Period:
    """As "the day before May 3", and "the week before May 3", of which that day tells, too."""
    period: _Period = _of(said, "PJV")
    unit, count = _of(said, "UAC") or "week", _of(said, "DNBF") or 1
    count = -count if _of(said, "<q") else count
    exact = period.kind == _RELATIVE or unit == "day"
    spans = []
    for since, until in period.spans:
        moved = _moved(since, unit, count), _moved(until, unit, count)
        spans.append(moved if exact else (min(since, moved[0]), max(until, moved[1])))
    return period._replace(spans=spans)


def _last(said: _Words, now: datetime) -> _Period:
    """As "early May", and "the last week of May", which is in May."""
    period: _Period = said[-1].meaning
    return period


def _list(said: _Words, now: datetime) -> _Period:
    """Both of "September and October 2025", in that year."""
    one, other = said[0].meaning, said[-1].meaning
    years = {since.year for since, _ in other.spans}
    spans = [span for span in one.spans if len(years) > 1 or span[0].year in years]
    return _Period([*(spans or one.spans), *other.spans], other.unit, max(one.kind, other.kind))


def _range(said: _Words, now: datetime) -> _Period:
    one, other = (each.meaning for each in said if each.letter in "PJV")
    return _Period(_stretch(one.spans, other.spans), other.unit, max(one.kind, other.kind))


def _open(said: _Words, now: datetime) -> _Period:
    """All before, until, since or after a period; of the last one if it says no year."""
    period: _Period = _of(said, "PJV")
    past = [since for since, _ in period.spans if since <= now] or [period.spans[0][0]]
    found = [span for span in period.spans if span[0].year == max(past).year]
    if _of(said, "<q"):
        spans = [(EARLIEST, since) for since, _ in found]
    elif _of(said, "utg"):
        spans = [(EARLIEST, until) for _, until in found]
    elif _of(said, ">a"):
        spans = [(until, LATEST) for _, until in found]
    else:
        spans = [(since, LATEST) for since, _ in found]
    return _Period(spans, period.unit, _OPEN)


def _nothing(said: _Words, now: datetime) -> _Period:
    """As "not in May", "next Tuesday", "two weeks from Monday", and 令和6年5月, an unknown year."""
    return _NOTHING


_ANY = re.compile("[MmjvdWKUACEIwYOPRSQ]")  # without which there is no period
_M = r"(?:[Mm]|j\.?)"
_RULES: list[tuple[re.Pattern[str], Callable[[_Words, datetime], _Period]]] = [
    (re.compile(pattern), read)
    for pattern, read in (
        ("YA|AY", _year),
        ("d|[UAw]<L|[LT]N?[UAEw]|L[DNBF]f?[UACIw]", _relative),
        ("hN?A[Gq]|(?<!h)N?[DNBF]f?[UACIw][Gq]", _relative),
        ("[np]w|E", lambda said, now: _Period([_back(now, "weekend", 0)], "weekend")),
        ("Qf?/?Y|Y[-/]?Q", _season),
        ("[DNB]AMO?", _nothing),
        (f"D-{_M}-[DYy]", _calendar),
        (f"(?:b(?=[DOo]&[DOo]))?(?:[DOo][-t&u,]{{1,2}}){{0,8}}[DOo]f?{_M}(?:,?[Yy])?", _calendar),
        (f"b{_M}[DO]&[DO](?!f?{_M})(?:,?[Yy])?", _calendar),
        (f"(?:Jf?)?{_M}[DO](?:[-tu][DO](?!f?{_M})|(?:[,&]+O(?!f?{_M}))+)?(?:,?[Yy])?", _calendar),
        (f"Jf?Ml*|{_M},?f?[Yy]|{_M}f?J", _calendar),
        ("[LT]?Ml*|[LT][mj]|(?<=[pfs<>urtbe])m|(?<=[pfse])j|(?<=e-)[mj]", _calendar),
        ("(?<=P[-&,t])[mj]", _calendar),
        ("(?<=[prsu<>feb])Y|(?<=e-)Y", _year),
        ("(?<=J[-t&])Y", _year),
        ("(?<=[nsru<>b])R", _last),
        ("(?<=P[-t&])R", _last),
        ("Sf?[YJ]|Jf?S|[LT]S", _season),
        ("e-?f?[PJ]|Vf[PJ]", _last),
        ("(?:(?:[DNBF]f?)?[UACwW]|V)[<>][PJV]|[PJV][qa]f?[DN]?[UAC]", _beside),
        ("[LT]K|Wf?V|V,?n?f?[WK]", _weekday),
        ("L?W(?=[.,UI]|$)|(?<=[nsru<>e])L?W|[LT]W|K", _weekday),
        ("(?<=P[-t&])W", _weekday),
        ("nO(?=$|[.,i])", _this_day),
        ("r?[PJV][-tu/][PJV]|b[PJV]&[PJV]|[PJV]&[PJV]c", _range),
        ("P[,&]+P", _list),
        ("[sr][PJV][zZ]|[PJV][zqa]|[<>us][PJV](?!k)|t[PJV]g", _open),
        ("(?:X[npf]?|!|[UACIw]r)[PJV]|[PJV]/", _nothing),
    )
]
