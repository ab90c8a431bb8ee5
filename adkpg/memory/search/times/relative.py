"""Relative times: "last week", "vor zwei Tagen", "上周三", as spans of a clock's calendar. Pure.

They are read here, by words whose meaning is the same wherever they stand: a general parser takes
"34 years" for a birthday and "hier" for yesterday in any language, and knows "last week" in English
but not "letzten Monat" in German. What is to come is no time of a memory.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from adkpg.memory.search.times.words import (
    AGO,
    BEFORE_LAST,
    BETWEEN,
    DAYS,
    DUALS,
    ENGLISH_WEEKDAYS,
    FEW,
    GERMANIC,
    LAST,
    NO_WEEKDAYS,
    NUMBERS,
    SEASONS,
    SINCE,
    THIS,
    UNITS,
    WEEKDAY_FOLLOWERS,
    WEEKDAY_LEADS,
    WEEKDAYS,
)

Spans = list[tuple[datetime, datetime]]

WORDS = (
    frozenset(UNITS) | frozenset(DUALS) | frozenset(DAYS) | frozenset(WEEKDAYS) | frozenset(SEASONS)
)
"""Words without which a text in a script with spaces has no relative time."""

_MOST = 5_000  # of a unit
_FEW = range(2, 8)
_HALF_A_YEAR = (7, 5)  # months
_OVER = frozenset(["over", "on", "at", "during", "übers", "am", "le", "nel", "no"])

_UNSPACED = {
    ("day", 0): "今天 今日 今晚 今早 今朝 今夜 오늘",
    ("day", -1): "昨天 昨日 昨晚 昨夜 昨晩 きのう 어제 어젯밤",
    ("day", -2): "前天 一昨日 おととい 그저께 그제 엊그제 이틀전",
    ("day", -3): "大前天 사흘전",
    ("week", 0): "这周 这星期 这个星期 这礼拜 这个礼拜 本周 本星期 今週 이번주",
    ("week", -1): "上周 上星期 上个星期 上礼拜 上个礼拜 先週 지난주",
    ("week", -2): "上上周 上上星期 上上个星期 上上个礼拜 先々週 先先週 지지난주",
    ("month", 0): "这个月 本月 今月 이번달",
    ("month", -1): "上个月 上月 先月 지난달",
    ("month", -2): "上上个月 先々月 지지난달",
    ("year", 0): "今年 올해",
    ("year", -1): "去年 昨年 작년 지난해",
    ("year", -2): "前年 一昨年 おととし 재작년",
    ("year", -3): "大前年",
    ("weekend", 0): "这个周末 这周末 本周末 周末 今週末 이번주말",
    ("weekend", -1): "上周末 上个周末 先週末 지난주말",
}
_SIMPLIFIED = str.maketrans("週個這禮後", "周个这礼后")
_NAMED = {
    word.translate(_SIMPLIFIED): meaning
    for meaning, text in _UNSPACED.items()
    for word in text.split()
}
_WEEKS = "|".join(sorted((w for w, (unit, _) in _NAMED.items() if unit == "week"), key=len)[::-1])
_NAMES = "|".join(sorted(_NAMED, key=len, reverse=True))
_CHINESE_DAYS, _KANJI, _HANGUL = "一二三四五六日", "月火水木金土日", "월화수목금토일"
_WEEKDAY = re.compile(
    rf"(?<![每逢一两三四五六七八九十])(?:(?P<week>{_WEEKS}|上上|上|这|本)(?:个|の|的)?)?"
    r"(?:(?:周|星期|礼拜)(?P<chinese>[一二三四五六日天])(?![期年月个次])"
    r"|(?P<kanji>[月火水木金土日])曜日?|(?P<hangul>[월화수목금토일])요일)"
)
_UNSPACED_AGO = re.compile(
    r"(?<![0-9一二两三四五六七八九十])(?P<number>[0-9]{1,4}|[一二两三四五六七八九十]{1,3}|几|数|数个|半|한|두|세|네|다섯|여섯|몇)"
    r"(?P<unit>天|日|周間|周间|周|个星期|星期|个礼拜|个月|か月|ヶ月|カ月|ヵ月|年|주일|주|달|개월|년|해|일)"
    r"(?:之)?(?:以)?(?:前|전)"
)
_UNSPACED_UNITS = {
    "day": "天 日 일",
    "week": "周間 周间 周 个星期 星期 个礼拜 주일 주",
    "month": "个月 か月 ヶ月 カ月 ヵ月 달 개월",
    "year": "年 년 해",
}
_UNIT_OF = {word: unit for unit, text in _UNSPACED_UNITS.items() for word in text.split()}
_UNSPACED_SEASON = re.compile(
    r"(?P<year>去年|前年|今年|昨年|작년|올해|(?:19|20)[0-9]{2}\s*[年년]?)\s*[的のに]?\s*"
    r"(?P<season>[春夏秋冬][天季]?|봄|여름|가을|겨울)"
)
_SEASON_OF = {"春": 3, "夏": 6, "秋": 9, "冬": 12, "봄": 3, "여": 6, "가": 9, "겨": 12}
_NUMERALS = {numeral: value for value, numeral in enumerate("一二三四五六七八九十", 1)}
_WEEKS_AGO = {"上上": 2, "上": 1, "这": 0, "本": 0}
_FEW_UNSPACED = frozenset(("几", "数", "数个", "몇"))
_KOREAN = {"한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "여섯": 6}
_READ = (_UNSPACED_SEASON, _WEEKDAY, _UNSPACED_AGO, re.compile(_NAMES))


def may_be_unspaced(text: str) -> bool:
    """Returns whether a text may have a relative time in Chinese, Japanese or Korean."""
    text = _unspaced(text)
    return any(pattern.search(text) for pattern in _READ)


def _unspaced(text: str) -> str:
    """The text with one spelling; spaces of Korean go, which are written or not."""
    return re.sub(r"(?<=[\uac00-\ud7a30-9])\s+(?=[\uac00-\ud7a3])", "", text.translate(_SIMPLIFIED))


def unspaced_times(text: str, now: datetime) -> Spans:
    """The relative times of a text in Chinese, Japanese or Korean.

    Args:
      text: Any.
      now: The clock, as its place has it, taken for UTC.
    """
    text = _unspaced(text)
    found: Spans = []
    for pattern in _READ:
        for match in pattern.finditer(text):
            found += _read_unspaced(match, now)
        text = pattern.sub(" ", text)
    return found


def _read_unspaced(match: re.Match[str], now: datetime) -> Spans:
    groups = match.groupdict()
    if "season" in groups:
        year = groups["year"]
        number = int(year[:4]) if year[0].isdigit() else now.year + _NAMED[year][1]
        return season(number, _SEASON_OF[groups["season"][0]])
    if "unit" in groups:
        return _unspaced_ago(groups["number"], groups["unit"], now)
    if "week" in groups:
        days = ((_CHINESE_DAYS, "chinese"), (_KANJI, "kanji"), (_HANGUL, "hangul"))
        day = max(each.find((groups[name] or "?").replace("天", "日")) for each, name in days)
        if groups["week"] is None:
            return weekday(now, day)
        ago = _WEEKS_AGO.get(groups["week"])
        return of_week(back(now, "week", -_NAMED[groups["week"]][1] if ago is None else ago), day)
    unit, offset = _NAMED[match[0]]
    return weekend(now, last=offset < 0) if unit == "weekend" else back(now, unit, -offset)


def _unspaced_ago(number: str, word: str, now: datetime) -> Spans:
    unit = _UNIT_OF[word]
    if number == "半":
        return back(now, "month", *_HALF_A_YEAR) if unit == "year" else []
    if number in _FEW_UNSPACED:
        return back(now, unit, _FEW[-1], _FEW[0])
    if number in _KOREAN and word in "일년":  # which take the other numerals: "한일전" is a match
        return []
    return back(now, unit, _KOREAN.get(number) or numeral(number))


def numeral(text: str) -> int:
    """Returns the number of up to 99 that digits or Chinese numerals write; 0 if they do not."""
    if text.isdigit():
        return int(text)
    text = text.replace("廿", "二十").replace("两", "二").replace("卅", "三十")
    tens, ten, ones = text.rpartition("十")
    if not ten:
        return _NUMERALS.get(text, 0)
    return 10 * (_NUMERALS.get(tens, 1) if tens else 1) + (_NUMERALS.get(ones, 0) if ones else 0)


def relative_times(words: Sequence[str], ends: Sequence[bool], now: datetime) -> Spans:
    """The relative times of a text in a script with spaces.

    Args:
      words: Its words, in lower case, without articles before an apostrophe.
      ends: By word, whether a sentence or part of one ends after it.
      now: The clock, as its place has it, taken for UTC.
    """
    weeks: Spans = []
    days: list[int] = []
    others: Spans = []
    for place, word in enumerate(words):
        if word in UNITS or word in DUALS:
            found = _of_unit(words, place, now)
            (weeks if UNITS.get(word) == "week" else others).extend(found)
        elif word in DAYS:
            others += _of_day(words, place, now)
        elif word in WEEKDAYS and _is_weekday(words, ends, place):
            days.append(WEEKDAYS[word])
        elif word in SEASONS:
            others += _of_season(words, place, now)
    if days and weeks:  # "Tuesday of last week"
        return [*others, *(span for day in days for span in of_week(weeks[:1], day))]
    return [*weeks, *others, *(span for day in days for span in weekday(now, day))]


def _at(words: Sequence[str], place: int) -> str:
    return words[place] if 0 <= place < len(words) else ""


def _count(word: str) -> int | None:
    if word.isascii() and word.isdigit():
        return int(word) if len(word) < len(str(_MOST)) else None
    return NUMBERS.get(word)


def _of_unit(words: Sequence[str], place: int, now: datetime) -> Spans:
    """As "two weeks ago", "last week", "the last two weeks", "the week before last"."""
    word = words[place]
    unit = UNITS.get(word) or DUALS[word]
    first, after = place - 1, place + 1
    if _at(words, first) in BETWEEN and _at(words, first - 1) in ("fin", "fim", "couple"):
        if _at(words, first - 1) == "couple":
            first -= 1
        else:
            unit, first = "weekend", first - 2
    elif _at(words, first) == "fine":
        unit, first = "weekend", first - 1
    if _at(words, after) in BETWEEN:
        after += 1
    one, next_ = _at(words, first), _at(words, after)
    number, few = _count(one), one in FEW
    if word in DUALS:
        number, few, first = 2, False, place
    if number is not None or few:
        led = _at(words, first - 1)
        if led in NUMBERS and not (led in SINCE or led in LAST):  # "a few", "a couple", "ein paar"
            led = _at(words, first - 2)
        if next_ in AGO or led in SINCE:
            if "half" in words[max(0, first - 1) : first] and unit == "year":
                return back(now, "month", *_HALF_A_YEAR)
            return _ago(now, unit, number, few=few)
        if led in LAST or (next_ in LAST and unit != "part"):
            return _stretch(now, unit, _FEW[-1] if few else number or 0)
    elif next_ in AGO and (unit, next_) != ("weekend", "lalu"):
        return _ago(now, unit, 1, few=False)
    elif one in SINCE and one != "y":
        if unit in ("year",) and _at(words, first) == "vor":
            return []
        return _ago(now, unit, 1, few=False)
    if one in ("halben", "medio") and (next_ in AGO or not SINCE.isdisjoint(words[:first])):
        return back(now, "month", *_HALF_A_YEAR) if unit == "year" else []
    if next_ == "before" and _at(words, after + 1) == "last":
        return back(now, unit, 2) if unit != "weekend" else []
    for each in (one, next_):
        if each in BEFORE_LAST:
            return back(now, unit, 2)
        if each in LAST:
            return _step(now, unit, 1)
        if each in THIS:
            return _step(now, unit, 0)
    if unit == "weekend":
        the = _at(words, first) == "the"
        if _at(words, first - the) in _OVER:
            return weekend(now, last=False)
    return []


def _stretch(now: datetime, unit: str, number: int) -> Spans:
    if unit == "hour":
        return back(now, "day", min(1 + number // 24, _MOST), 0)
    return back(now, {"part": "day", "weekend": "week"}.get(unit, unit), number, 0)


def _step(now: datetime, unit: str, count: int) -> Spans:
    if unit == "weekend":
        return weekend(now, last=count > 0)
    if unit == "hour":
        return []
    return back(now, "day" if unit == "part" else unit, count)


def _ago(now: datetime, unit: str, number: int | None, *, few: bool) -> Spans:
    if unit == "hour":
        return back(now, "day", 0)
    if unit in ("weekend", "part"):
        return []
    if few or number is None:
        return back(now, unit, _FEW[-1], _FEW[0])
    return back(now, unit, number)


def _of_day(words: Sequence[str], place: int, now: datetime) -> Spans:
    word, offset = words[place], DAYS[words[place]]
    if word == "hier" and not GERMANIC.isdisjoint(words):
        return []
    before = words[max(0, place - 2) : place]
    if offset == -1 and (
        before in (["day", "before"], ["antes", "de"]) or before[-1:] == ["altro"]
    ):
        offset = -2
    return back(now, "day", -offset)


def _is_weekday(words: Sequence[str], ends: Sequence[bool], place: int) -> bool:
    before, after = _at(words, place - 1), _at(words, place + 1)
    if before in NO_WEEKDAYS:
        return False
    if words[place] not in ENGLISH_WEEKDAYS or not after:
        return True
    return before in WEEKDAY_LEADS or ends[place] or after in WEEKDAY_FOLLOWERS


def _of_season(words: Sequence[str], place: int, now: datetime) -> Spans:
    month = SEASONS[words[place]]
    before, after = _at(words, place - 1), _at(words, place + 1)
    if after in ("of", "de", "del", "in", "van"):
        after = _at(words, place + 2)
    if re.fullmatch("(?:19|20)[0-9]{2}", after):
        return season(int(after), month)
    if before in LAST or after in LAST:
        return [
            max(
                span
                for year in (-2, -1, 0)
                for span in season(now.year + year, month)
                if span[1] <= now
            )
        ]
    if before in THIS:
        return [
            max(
                span
                for year in (-1, 0)
                for span in season(now.year + year, month)
                if span[0] <= now
            )
        ]
    return []


def season(year: int, month: int) -> Spans:
    """The three months from one on."""
    try:
        start = datetime(year, month, 1, tzinfo=UTC)
        return [(start, start.replace(start.year + (month + 2) // 12, (month + 2) % 12 + 1))]
    except ValueError:
        return []


def weekday(now: datetime, day: int) -> Spans:
    """The last such day before today; 0 is Monday."""
    return back(now, "day", (now.weekday() - day - 1) % 7 + 1)


def weekend(now: datetime, *, last: bool) -> Spans:
    """The Saturday and Sunday that were last, or are now; `last` is never now."""
    ago = (now.weekday() - 5) % 7
    if last and ago < 2:
        ago += 7
    return [(start, end + timedelta(days=1)) for start, end in back(now, "day", ago)]


def of_week(weeks: Spans, day: int) -> Spans:
    """A day of each week; 0 is Monday."""
    return [(start + timedelta(days=day), start + timedelta(days=day + 1)) for start, _ in weeks]


def back(now: datetime, unit: str, count: int, until: int | None = None) -> Spans:
    """The calendar's day, week, month or year so many before now, or all from there on.

    Args:
      now: The clock, as its place has it.
      unit: ``day``, ``week`` (from Monday on), ``month`` or ``year``.
      count: How many before; 0 is the one that is now.
      until: The last of a stretch; None is `count`.
    """
    try:
        return [
            (_period(now, unit, count)[0], _period(now, unit, count if until is None else until)[1])
        ]
    except (ValueError, OverflowError):
        return []


def _period(now: datetime, unit: str, count: int) -> tuple[datetime, datetime]:
    today = datetime(now.year, now.month, now.day, tzinfo=UTC)
    if unit == "year":
        start = datetime(now.year - count, 1, 1, tzinfo=UTC)
        return start, start.replace(year=start.year + 1)
    if unit == "month":
        month = now.year * 12 + now.month - 1 - count
        start, end = (
            datetime(each // 12, each % 12 + 1, 1, tzinfo=UTC) for each in (month, month + 1)
        )
        return start, end
    days = today - timedelta(days=count if unit == "day" else 7 * count + today.weekday())
    return days, days + timedelta(days=1 if unit == "day" else 7)
