"""Times in questions: what is read in each language, and what is no time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkpg.memory.search.times import NO_TIMES, told_times
from adkpg.timestamps import EARLIEST, LATEST

NOW = datetime(2023, 5, 12, 15, tzinfo=UTC)  # a Friday


def day(year: int, month: int, number: int) -> datetime:
    return datetime(year, month, number, tzinfo=UTC)


Spans = list[tuple[datetime, datetime]]


def spans(question: str) -> Spans:
    return list(told_times(question, NOW).spans)


def cases(*table: tuple[str, datetime, datetime]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("said", "since", "until"),
        [(each, since, until) for said, since, until in table for each in said.split("|")],
    )


@cases(
    (
        "on May 3rd, 2023|on the 3rd of May 2023|on the third of May, 2023|on 3 May 2023"
        "|on Wed May 3 '23|3-May-23|on 2023-05-03|on 2023/5/3|on 03.05.23|am 3.5.2023"
        "|on Wednesday of last week"
        "|last week, on Wednesday|on the 3rd|2023-05-03T10:00|on May 3 of this year"
        "|on may 3rd, 2023|٢٠٢٣-٠٥-٠٣|nine days ago",
        day(2023, 5, 3),
        day(2023, 5, 4),
    ),
    ("last week|the week before this week", day(2023, 5, 1), day(2023, 5, 8)),
    ("this week", day(2023, 5, 8), day(2023, 5, 15)),
    (
        "two weeks ago|a couple of weeks ago|the week before last|2 wks ago|a fortnight ago",
        day(2023, 4, 24),
        day(2023, 5, 1),
    ),
    ("yesterday|last night|yesterday evening|one day ago", day(2023, 5, 11), day(2023, 5, 12)),
    ("the day before yesterday|two days ago", day(2023, 5, 10), day(2023, 5, 11)),
    ("today|this morning|two hours ago|tonight", day(2023, 5, 12), day(2023, 5, 13)),
    ("last weekend|over the weekend", day(2023, 5, 6), day(2023, 5, 8)),
    ("two weekends ago", day(2023, 4, 29), day(2023, 5, 1)),
    ("on Monday|last Monday|Monday morning", day(2023, 5, 8), day(2023, 5, 9)),
    ("last month|a month ago|in April 2023|last April", day(2023, 4, 1), day(2023, 5, 1)),
    ("last quarter|Q1 2023|in Q1/2023", day(2023, 1, 1), day(2023, 4, 1)),
    ("last year|a year ago|in 2022|in the year 2022", day(2022, 1, 1), day(2023, 1, 1)),
    ("2 yrs ago|two years ago", day(2021, 1, 1), day(2022, 1, 1)),
    ("last summer|summer of 2022|in the summer of last year", day(2022, 6, 1), day(2022, 9, 1)),
    (
        "last May|in May 2022|May '22|May of last year|early May 2022|mid-May 2022|2022-05"
        "|the first week of May 2022|in march of 2021 or May 2022",
        day(2022, 5, 1),
        day(2022, 6, 1),
    ),
    ("in the last two weeks", day(2023, 4, 24), day(2023, 5, 15)),
    ("a few days ago|several days ago", day(2023, 5, 5), day(2023, 5, 11)),
    ("half a year ago", day(2022, 10, 1), day(2023, 1, 1)),
    (
        "between May 3 and May 10, 2023|between the 3rd and 10th of May 2023"
        "|from May 3 to 10, 2023"
        "|May 3-10, 2023|3rd to 10th of May 2023|between 3 May and 10 May 2023"
        "|2023-05-03 to 2023-05-10"
        "|from 3/5/2023 to 10/5/2023|2023-05-03/10|2023-05-03/2023-05-10|3.5.2023 - 10.5.2023",
        day(2023, 5, 3),
        day(2023, 5, 11),
    ),
    ("from November 2021 to February 2022", day(2021, 11, 1), day(2022, 3, 1)),
    ("between 2020 and 2022|from 2020 to 2022", day(2020, 1, 1), day(2023, 1, 1)),
    ("before May 2022|before 2022-05|until the end of April 2022", EARLIEST, day(2022, 5, 1)),
    ("until yesterday|by yesterday|till May 11|by 2023-05-11", EARLIEST, day(2023, 5, 12)),
    ("since Monday|since May 8th|since 2023-05-08|from 8 May onwards", day(2023, 5, 8), LATEST),
    ("after 2023-05-01|after May 1|after May 1st", day(2023, 5, 2), LATEST),
    ("before last week", EARLIEST, day(2023, 5, 1)),
    ("since June|since last June", day(2022, 6, 1), LATEST),
    (
        "the week before May 3, 2023|the Monday before May 3, 2023",
        day(2023, 4, 26),
        day(2023, 5, 4),
    ),
    ("two days after May 1, 2023", day(2023, 5, 3), day(2023, 5, 4)),
)
def test_english(said: str, since: datetime, until: datetime) -> None:
    assert (since, until) in spans(f"What did I say {said}?")


@cases(
    (
        "2023年5月3日|二〇二三年五月三日|2023-05-03|今年5月3号|上周三|上星期三|上个星期三|上週三|九天前"
        "|２０２３年５月３日|5月3号|五月三日",
        day(2023, 5, 3),
        day(2023, 5, 4),
    ),
    ("上周|上个星期|上一周|一周前", day(2023, 5, 1), day(2023, 5, 8)),
    ("两周前|两个星期前|上上周", day(2023, 4, 24), day(2023, 5, 1)),
    ("昨天|昨晚|昨天晚上", day(2023, 5, 11), day(2023, 5, 12)),
    ("前天|两天前", day(2023, 5, 10), day(2023, 5, 11)),
    ("三天前|大前天", day(2023, 5, 9), day(2023, 5, 10)),
    ("今天", day(2023, 5, 12), day(2023, 5, 13)),
    ("上周末|上个周末", day(2023, 5, 6), day(2023, 5, 8)),
    ("周一|这周一", day(2023, 5, 8), day(2023, 5, 9)),
    ("上个月|上月|4月份|今年四月初", day(2023, 4, 1), day(2023, 5, 1)),
    ("2022年|去年", day(2022, 1, 1), day(2023, 1, 1)),
    ("前年|两年前", day(2021, 1, 1), day(2022, 1, 1)),
    ("去年夏天|2022年夏季", day(2022, 6, 1), day(2022, 9, 1)),
    ("去年五月|2022年5月|去年的五月份|2022年5月上旬", day(2022, 5, 1), day(2022, 6, 1)),
    ("过去两周|最近两个星期", day(2023, 4, 24), day(2023, 5, 15)),
    ("几天前", day(2023, 5, 5), day(2023, 5, 11)),
    ("半年前", day(2022, 10, 1), day(2023, 1, 1)),
    (
        "2023年5月3日到2023年5月10日|2023年5月3日至10日期间|从5月3日到5月10日|5月3日和5月10日之间",
        day(2023, 5, 3),
        day(2023, 5, 11),
    ),
    ("在2022年5月之前|2022年5月前", EARLIEST, day(2022, 5, 1)),
    ("截至昨天|到昨天为止", EARLIEST, day(2023, 5, 12)),
    ("自5月8日以来|从5月8日起|5月8日以来", day(2023, 5, 8), LATEST),
    ("5月1日以后|5月1日之后", day(2023, 5, 2), LATEST),
    ("2023年5月3日前一周", day(2023, 4, 26), day(2023, 5, 4)),
)
def test_chinese(said: str, since: datetime, until: datetime) -> None:
    assert (since, until) in spans(f"我们在{said}聊了什么?")


@pytest.mark.parametrize(
    "question",
    [
        "May I ask where Ana lives?",
        "Who may know the second thing?",
        "Who may 3 of them be?",
        "They march on Rome",
        "Wait a second, who sat there?",
        "Who sat with me?",
        "What are chapters 3-5 about?",
        "What is new in version 3.5?",
        "What is new in version 2023.1?",
        "What is new in version 3.5.2?",
        "Which costs $5.99, and which 12.50?",
        "Who has order 9981?",
        "Who has +49 151 23456789, and who 555-1234?",
        "In 2 days we have 300",
        "In two weeks we go to Rome",
        "Who lived 2 years in Rome?",
        "Who is 34 years old?",
        "How many days are in a week?",
        "Who needs 5/6 of a cup?",
        "Where is a 24/7 shop?",
        "What does April like?",
        "What is May's favourite colour?",
        "Where do May and June live?",
        "What does August, my cat, eat?",
        "Does Jan like it?",
        "Which Black Friday deals?",
        "What was a month of pain?",
        "Where does Ana live?",
        "一周二次",
        "十月怀胎",
        "谁在5号楼?",
        "我晚上和周涛说了什么?",
        "我喜欢什么颜色",
    ],
)
def test_what_looks_like_a_time_and_is_none(question: str) -> None:
    assert told_times(question, NOW) == NO_TIMES


@pytest.mark.parametrize(
    "question",
    [
        "What happened on 29 February 2023?",
        "What happened on 31 April 2022?",
        "What happened on February 30th?",
        "What happened in 2023-13-45?",
        "What happened on 2023-02-29?",
        "13月32日发生了什么?",
        "2023年2月29日发生了什么?",
    ],
)
def test_a_date_that_does_not_exist_says_nothing(question: str) -> None:
    assert told_times(question, NOW) == NO_TIMES


@pytest.mark.parametrize(
    "question",
    [
        "What did I say that was not in May?",
        "What did I do except on Monday?",
        "What do we do next Tuesday?",
        "Who comes next May?",
        "Who runs every Monday?",
        "Where do we go two weeks from today?",
        "Who is older than in 2020?",
        "What did she do more than a year ago?",
        "What happened 2023-07-25/08-03?",
        "除了5月我还去过哪里?",
        "每周三做什么?",
        "下周三做什么?",
        "后天做什么?",
        "令和6年5月3日に何をした?",
    ],
)
def test_a_time_with_a_word_that_turns_it_round_says_nothing(question: str) -> None:
    assert told_times(question, NOW) == NO_TIMES


@pytest.mark.parametrize(
    ("question", "read"),
    [
        ("What did we say last week about Rome?", ["last week"]),
        ("What happened before May 2022, and in June 2022?", ["before May 2022", "June 2022"]),
        ("“５月３日”と話した?", ["５月３日"]),
        ("雷明轩在2023年5月3日至5日期间做了什么", ["2023年5月3日至5日"]),
        ("Who may know it?", []),
        ("What was our first conversation about?", ["our first conversation"]),
        ("What did I do next Monday?", []),
    ],
)
def test_it_says_which_words_it_read(question: str, read: list[str]) -> None:
    assert [question[since:until] for since, until in told_times(question, NOW).read] == read


def test_a_month_without_a_year_is_of_any_recent_year() -> None:
    found = spans("What happened in May?")
    assert (day(2023, 5, 1), day(2023, 6, 1)) in found
    assert (day(2021, 5, 1), day(2021, 6, 1)) in found


def test_days_and_months_in_a_row_are_all_read() -> None:
    days = [(day(2022, 6, each), day(2022, 6, each + 1)) for each in (9, 12, 14)]
    assert spans("What did I do on June 9th, 12th and 14th, 2022?") == days
    assert spans("我2022年6月9日、12日和14日做了什么?") == days
    months = [(day(2022, each, 1), day(2022, each + 1, 1)) for each in (9, 10)]
    assert spans("What did I see in September and October 2022?") == months


def test_dates_count_before_what_is_told_from_now_and_open_spans_last() -> None:
    day_3 = [(day(2022, 5, 3), day(2022, 5, 4))]
    assert spans("What did he finish last week, as told on May 3, 2022, and since 2021?") == day_3
    assert spans("What did he finish in 2020, on May 3, 2022?") == day_3


def test_a_span_that_ends_goes_on_from_a_day_that_is_named_before() -> None:
    found = spans("After he came on May 3, 2022, what did he say by May 5, 2022?")
    assert (day(2022, 5, 3), day(2022, 5, 6)) in found


@pytest.mark.parametrize(
    "question",
    [
        "What was our first conversation about?",
        "What did I tell you when we first talked?",
        "What was the first thing I told you?",
        "我们第一次聊天说了什么?",
    ],
)
def test_the_first_conversation(question: str) -> None:
    assert told_times(question, NOW).first


@pytest.mark.parametrize(
    ("now", "question", "since", "until"),
    [
        (day(2024, 2, 29), "a year ago", day(2023, 1, 1), day(2024, 1, 1)),
        (day(2024, 3, 1), "yesterday", day(2024, 2, 29), day(2024, 3, 1)),
        (day(2023, 3, 31), "a month ago", day(2023, 2, 1), day(2023, 3, 1)),
        (day(2023, 1, 1), "last week", day(2022, 12, 19), day(2022, 12, 26)),
        (day(2023, 1, 1), "last month", day(2022, 12, 1), day(2023, 1, 1)),
        (day(2023, 5, 7), "last weekend", day(2023, 4, 29), day(2023, 5, 1)),
        (day(2023, 5, 7), "this weekend", day(2023, 5, 6), day(2023, 5, 8)),
        (day(2023, 5, 8), "on Monday", day(2023, 5, 1), day(2023, 5, 2)),
        (day(2023, 1, 31), "on the 30th", day(2023, 1, 30), day(2023, 1, 31)),
        (day(2023, 1, 31), "since December", day(2022, 12, 1), LATEST),
    ],
)
def test_borders_of_the_calendar(
    now: datetime, question: str, since: datetime, until: datetime
) -> None:
    assert told_times(question, now).spans == ((since, until),)


def test_days_begin_where_the_clock_is() -> None:
    tokyo = datetime(2023, 5, 12, 1, 30, tzinfo=ZoneInfo("Asia/Tokyo"))
    (span,) = told_times("What did I say yesterday?", tokyo).spans
    assert span == (
        datetime(2023, 5, 10, 15, tzinfo=UTC),
        datetime(2023, 5, 11, 15, tzinfo=UTC),
    )


def test_of_many_dates_the_first_are_read() -> None:
    assert len(told_times("Jan '22, " * 200, NOW).spans) == 1
    assert len(told_times("on May 3, " * 150, NOW).spans) <= 60
    assert not NO_TIMES


_MONTHS = "January February March April May June July August September October November December"
_FORMS = (
    "{:%Y-%m-%d}",
    "{:%Y/%m/%d}",
    "{:%d.%m.%Y}",
    "{:%d/%m/%Y}",
    "{0.year}年{0.month}月{0.day}日",
    "{0.day} {1} {0.year}",
    "{1} {0.day}, {0.year}",
    "{0.day} of {1} {0.year}",
    "{2} {0.day}, {0.year}",
    "{0.day}-{2}-{0.year}",
    "{0.month}月{0.day}号",
    "{1} {0.day}",
)
_DAYS = st.dates(min_value=day(1990, 1, 1).date(), max_value=day(2069, 12, 31).date())


@pytest.mark.parametrize("form", _FORMS)
@given(date=_DAYS)
def test_a_day_in_any_form_is_that_day(form: str, date: datetime) -> None:
    month = _MONTHS.split()[date.month - 1]
    written = form.format(date, month, month[:3])
    now = datetime(date.year, 12, 31, 12, tzinfo=UTC)
    start = datetime(date.year, date.month, date.day, tzinfo=UTC)
    for question in (f"What did I do on {written}?", f"我在{written}做了什么?"):
        told = told_times(question, now)
        assert (start, start + timedelta(days=1)) in told.spans
        assert [question[since:until] for since, until in told.read] == [written]
    reach = told_times(f"What did I do since {written}?", now).spans
    assert any(since == start and until == LATEST for since, until in reach)
    assert any(until == start for _, until in told_times(f"What was before {written}?", now).spans)
    late = told_times(f"What did I do after {written}?", now).spans
    assert any(since == start + timedelta(days=1) for since, _ in late)


@given(st.text(max_size=200), st.datetimes(timezones=st.just(UTC)))
def test_any_text_at_any_clock_is_read(text: str, now: datetime) -> None:
    told = told_times(text, now)
    for since, until in told.spans:
        assert since < until
    for start, end in told.read:
        assert 0 <= start < end <= len(text)


_WORDS = (
    "the last next few two 3 3rd of May june Jan 2022 week weekend days year ago before since"
    " until "
    "from to and between , . - / yesterday Monday summer Q1 half early in on 2023-05-03 5/4 5/4/23 "
    "'22 上 周三 前 后 5月 3日 年 今年 到 和 周末 起 半 几 天"
)


@given(
    st.lists(st.sampled_from(_WORDS.split()), max_size=12),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from([" ", ""]),
)
def test_any_words_of_time_are_read(words: list[str], now: datetime, between: str) -> None:
    for since, until in told_times(between.join(words), now).spans:
        assert EARLIEST <= since < until <= LATEST
