"""Times: what a question says of when, as spans of time. Pure.

dateparser reads the expressions. It is asked only about words around one that tells of time, since
a search through a whole question takes it tens of milliseconds and finds weekdays in "we"; and
imported only then. Dates in digits, and those of Chinese, Japanese and Korean, are read here: they
are the same in every language.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_LONGEST_QUESTION = 2_000  # characters that are looked through
_WINDOW = 6  # words of an expression: "the third of May 2022"
_YEARS = range(-10, 2)  # that a day or month without a year may be of, from the clock's
_MOST_SPANS = 60

# Words without which a question tells no time, by language: months, and what is relative to now.
_MONTHS = {
    "en": "january february march april may june july august september october november december",
    "de": "januar jänner februar märz april mai juni juli august september oktober november "
    "dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre setiembre octubre "
    "noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
    "dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro "
    "dezembro",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "sv": "januari februari mars april maj juni juli augusti september oktober november december",
    "pl": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października "
    "listopada grudnia styczeń styczniu marzec kwiecień kwietniu czerwiec czerwcu lipiec lipcu "
    "sierpień sierpniu wrzesień wrześniu październik październiku listopad listopadzie grudzień "
    "grudniu",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря "
    "январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь январе "
    "феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре",
    "tr": "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
    "id": "januari februari maret april mei juni juli agustus september oktober november desember",
    "ar": "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
    "hi": "जनवरी फ़रवरी फरवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर",
}
_ABBREVIATED = "jan feb mar apr jun jul aug sep sept oct nov dec"  # English, next to a number only
_RELATIVE = {
    "en": "yesterday today tonight week weeks weekend month months year years ago monday tuesday "
    "wednesday thursday friday saturday sunday",
    "de": "gestern vorgestern heute woche wochen monat monaten jahr jahren tagen montag dienstag "
    "mittwoch donnerstag freitag samstag sonntag",
    "fr": "hier avant-hier aujourd semaine semaines mois année jours lundi mardi mercredi jeudi "
    "vendredi samedi dimanche",
    "es": "ayer anteayer hoy semana semanas mes meses año años días lunes martes miércoles jueves "
    "viernes sábado domingo",
    "it": "ieri oggi settimana settimane mese mesi anno anni giorni lunedì martedì mercoledì "
    "giovedì venerdì sabato domenica",
    "pt": "ontem anteontem hoje semana semanas mês meses ano anos dias segunda-feira terça-feira "
    "quarta-feira quinta-feira sexta-feira",
    "nl": "gisteren eergisteren vandaag week weken maand maanden jaar dagen maandag dinsdag "
    "woensdag donderdag vrijdag zaterdag zondag",
    "sv": "igår idag vecka veckan månad månaden",
    "pl": "wczoraj przedwczoraj dzisiaj tygodniu tygodnie miesiącu roku dni",
    "ru": "вчера позавчера сегодня неделе неделю недели месяце месяц году назад",
    "tr": "dün bugün hafta ay yıl",
    "id": "kemarin minggu bulan tahun",
    "ar": "أمس اليوم الأسبوع الشهر الماضي",
    "zh": "昨天 前天 今天 上周 上个星期 上星期 这周 本周 上个月 上月 这个月 本月 去年 前年 今年",
    "ja": "昨日 一昨日 今日 先週 今週 先月 今月 去年 昨年 今年",
    "ko": "어제 그저께 오늘 지난주 지난달 작년 올해",
}
_UNSPACED = frozenset(("zh", "ja", "ko"))


def _languages(words: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for language, text in words.items():
        for word in text.split():
            found[word] = (*found.get(word, ()), language)
    return found


_MONTH_WORDS = _languages(_MONTHS)
_RELATIVE_WORDS = _languages({k: v for k, v in _RELATIVE.items() if k not in _UNSPACED})
_SHORT = frozenset(_ABBREVIATED.split())
_KEYS = frozenset(_MONTH_WORDS) | frozenset(_RELATIVE_WORDS) | _SHORT
_UNSPACED_WORDS = _languages({k: v for k, v in _RELATIVE.items() if k in _UNSPACED})
_UNSPACED_KEYS = re.compile("|".join(sorted(_UNSPACED_WORDS, key=len, reverse=True)))
# Words that tell no time by themselves: dateparser takes them for weekdays or units.
_NONE = "we sat sun second seconds s m d h sec min what did do i you me my"
_NO_TIMES = frozenset(_NONE.split())
# "May" and "March" are words too: only with a capital, and a word before it or a number next to it.
_AMBIGUOUS = frozenset(("may", "march", "mart", "ay", "ocak", "mai", "mei", "maj"))
_BEFORE = (
    "in of during since last this next early mid late every by until till before after from "
    "through im am le en de del di em nel à"
)
_BEFORE_MONTHS = frozenset(_BEFORE.split())

_WORD = re.compile(r"(?:avant-hier|[^\W\d_]+-feira|[^\W_]+(?:'[^\W_]+)*)", re.IGNORECASE)
_ISO = re.compile(r"(?<![\d-])((?:19|20)\d\d)[-/.](\d{1,2})(?:[-/.](\d{1,2}))?(?![\d-])")
_NUMERIC = re.compile(r"(?<![\d./-])(\d{1,2})([./-])(\d{1,2})(?:\2((?:19|20)\d\d))?(?![\d./-]?\d)")
_YEAR = re.compile(
    r"(?:\b(?:in|of|during|year|since|from|en|im|jahr|año|année|anno|ano|v|в|rok)\s+)"
    r"((?:19|20)\d\d)\b(?![-/.]\d)|((?:19|20)\d\d)\s*[年년]"
)
_EAST_ASIAN = re.compile(
    r"(?:(去年|今年|前年|作年|昨年|작년|올해|(?:19|20)\d\d)\s*[年년]?\s*的?)?"
    r"([0-9]{1,2}|[一二三四五六七八九十]{1,2})\s*[月월]份?\s*"
    r"(?:([0-9]{1,2}|[一二三四五六七八九十廿]{1,3})\s*[日号號일])?"
)
_NUMERALS = {numeral: value for value, numeral in enumerate("一二三四五六七八九十", 1)}
_NUMERALS_BEFORE = {"去": -1, "昨": -1, "作": -1, "작": -1, "今": 0, "올": 0, "前": -2}
_AGO = re.compile(
    r"([0-9]+|[一二两三四五六七八九十]+)\s*(天|日|周|週間|个星期|个月|か月|年)(?:之)?[前]"
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
    r"(?:第一次|首次|最初)的?(?:[^。？?]{0,4}?)(?:聊天|对话|谈话|交谈|会话|交流|会話|対話|話)",
    re.IGNORECASE,
)


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


def may_tell_time(question: str) -> bool:
    """Returns whether a question may say when; takes microseconds, and imports nothing."""
    text = question[:_LONGEST_QUESTION]
    if any(sign.isdigit() for sign in text) or _FIRST.search(text):
        return True
    if not text.isascii() and any(
        pattern.search(text) for pattern in (_UNSPACED_KEYS, _EAST_ASIAN, _AGO)
    ):
        return True
    return not _KEYS.isdisjoint(_WORD.findall(text.casefold()))


def told_times(question: str, now: datetime) -> Times:
    """Returns the times that a question names.

    A day or a month without a year is meant of any of the last ten years, since a user may speak of
    any. "Last week" is a calendar week.

    Args:
      question: Any text, in any of some twenty languages.
      now: The clock that "yesterday" counts from, with an offset.
    """
    text = question[:_LONGEST_QUESTION]
    now = now.astimezone(UTC)
    spans: list[tuple[datetime, datetime]] = []
    rest = text
    for pattern, read in ((_ISO, _iso), (_EAST_ASIAN, _east_asian), (_AGO, _ago)):
        for match in pattern.finditer(rest):
            spans += read(match, now)
        rest = pattern.sub(" ", rest)
    spans += _worded(rest, now)
    if not spans:
        for match in _NUMERIC.finditer(rest):
            spans += _numeric(match, now)
    if not spans:
        for match in _YEAR.finditer(text.casefold()):
            spans += _span(int(match[1] or match[2]), None, None)
    return Times(tuple(dict.fromkeys(spans))[:_MOST_SPANS], _FIRST.search(text) is not None)


Spans = list[tuple[datetime, datetime]]


def _span(year: int, month: int | None, day: int | None) -> Spans:
    """A year, a month or a day; none if the calendar has no such."""
    try:
        start = datetime(year, month or 1, day or 1, tzinfo=UTC)
        if day is not None:
            return [(start, start + timedelta(days=1))]
        if month is not None:
            end = start.replace(year + month // 12, month % 12 + 1)
            return [(start, end)]
        return [(start, start.replace(year + 1))]
    except (ValueError, OverflowError):
        return []


def _of_any_year(now: datetime, month: int, day: int | None) -> Spans:
    return [each for years in _YEARS for each in _span(now.year + years, month, day)]


def _iso(match: re.Match[str], now: datetime) -> Spans:
    return _span(int(match[1]), int(match[2]), int(match[3]) if match[3] else None)


def _numeric(match: re.Match[str], now: datetime) -> Spans:
    """Both readings of 5/4, the only one of 25.4."""
    one, other = int(match[1]), int(match[3])
    if match[2] == "-" and not match[4]:  # a range: "chapters 3-5"
        return []
    if match[2] == "." and not match[4]:  # a number, or "25.4."
        return []
    pairs = {(one, other), (other, one)}
    if match[4]:
        return [each for month, day in pairs for each in _span(int(match[4]), month, day)]
    return [each for month, day in pairs for each in _of_any_year(now, month, day)]


def _numeral(text: str) -> int:
    if text.isdigit():
        return int(text)
    text = text.replace("廿", "二十").replace("两", "二")
    tens, ten, ones = text.rpartition("十")
    if not ten:
        return _NUMERALS.get(text, 0)
    return 10 * (_NUMERALS.get(tens, 1) if tens else 1) + (_NUMERALS.get(ones, 0) if ones else 0)


def _east_asian(match: re.Match[str], now: datetime) -> Spans:
    month = _numeral(match[2])
    day = _numeral(match[3]) if match[3] else None
    if not match[1]:
        return _of_any_year(now, month, day)
    years = _NUMERALS_BEFORE.get(match[1][0])
    return _span(int(match[1]) if years is None else now.year + years, month, day)


def _ago(match: re.Match[str], now: datetime) -> Spans:
    number, unit = _numeral(match[1]), match[2]
    if unit in ("天", "日"):
        return _around(now, "day", timedelta(days=number))
    if unit in ("周", "週間", "个星期"):
        return _around(now, "week", timedelta(weeks=number))
    if unit in ("个月", "か月"):
        month = now.year * 12 + now.month - 1 - number
        return _span(month // 12, month % 12 + 1, None)
    return _span(now.year - number, None, None)


def _around(now: datetime, period: str, before: timedelta) -> Spans:
    try:
        return _period(now - before, period)
    except OverflowError:
        return []


def _period(moment: datetime, period: str) -> Spans:
    """The calendar's day, week, month or year of a moment."""
    if period == "year":
        return _span(moment.year, None, None)
    if period == "month":
        return _span(moment.year, moment.month, None)
    start = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    if period == "week":
        start -= timedelta(days=start.weekday())
        return [(start, start + timedelta(weeks=1))]
    return [(start, start + timedelta(days=1))]


def _worded(text: str, now: datetime) -> Spans:
    """The times in words: the longest expressions around each word that tells of time."""
    words = list(_WORD.finditer(text))
    told = [match[0].casefold() for match in words]
    keys = [
        place for place, word in enumerate(told) if word in _KEYS and _tells(text, words, place)
    ]
    months = [place for place in keys if told[place] not in _RELATIVE_WORDS]
    unspaced = [
        (match[0], _UNSPACED_WORDS[match[0]], True) for match in _UNSPACED_KEYS.finditer(text)
    ]
    asked: list[list[tuple[str, tuple[str, ...], bool]]] = [[each] for each in unspaced]
    # "The last week of August" is in August, whatever last week was.
    for place in months or keys:
        word = told[place]
        languages = _MONTH_WORDS.get(word) or _RELATIVE_WORDS.get(word) or ("en",)
        asked.append(
            [(window, languages, not months) for window in _windows(text, words, told, place)]
        )
    return list(_parsed(asked, now)) if asked else []


def _tells(text: str, words: list[re.Match[str]], place: int) -> bool:
    """Whether a word that may tell of time does so here."""
    word = words[place][0]
    folded = word.casefold()
    around = [
        words[other][0].casefold() for other in (place - 1, place + 1) if 0 <= other < len(words)
    ]
    numbered = any(each[0].isdigit() for each in around)
    if folded in _SHORT:
        return numbered
    if folded in _AMBIGUOUS:
        led = place > 0 and around[0] in _BEFORE_MONTHS
        return numbered or (led and not (folded in ("may", "march") and word.islower()))
    return True


def _windows(text: str, words: list[re.Match[str]], told: list[str], place: int) -> Iterator[str]:
    """Stretches of the question with one word in it, the longest first."""
    for size in range(_WINDOW, 0, -1):
        for start in range(max(0, place - size + 1), min(place, len(words) - size) + 1):
            if _NO_TIMES.isdisjoint(told[start : start + size]):
                yield text[words[start].start() : words[start + size - 1].end()]


def _parsed(
    asked: list[list[tuple[str, tuple[str, ...], bool]]], now: datetime
) -> Iterator[tuple[datetime, datetime]]:
    from dateparser.date import DateDataParser  # noqa: PLC0415 - only questions that say when need it

    parsers: dict[tuple[str, ...], DateDataParser] = {}
    settings = {
        "RELATIVE_BASE": now.replace(tzinfo=None),
        "PREFER_DATES_FROM": "past",
        "PREFER_DAY_OF_MONTH": "first",
        "TIMEZONE": "UTC",
    }
    for windows in asked:
        for window, languages, relative in windows:
            if languages not in parsers:
                parsers[languages] = DateDataParser(languages=list(languages), settings=settings)
            data = parsers[languages].get_date_data(window)
            if data.date_obj is None:
                continue
            found, dated = data.date_obj, re.search(r"(?:19|20)\d\d", window)
            if relative or dated or found.year not in range(1, 9999):
                yield from _period(found, data.period)
            else:
                day = found.day if data.period == "day" else None
                yield from _of_any_year(now, found.month, day)
            break
