"""Times in questions: what is read, in which languages, and what is no time."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkpg.memory.search.times.times import NO_TIMES, may_tell_time, told_times

NOW = datetime(2023, 5, 12, 15, tzinfo=UTC)  # a Friday


def day(year: int, month: int, number: int) -> datetime:
    return datetime(year, month, number, tzinfo=UTC)


def spans(question: str) -> list[tuple[datetime, datetime]]:
    return list(told_times(question, NOW).spans) if may_tell_time(question) else []


@pytest.mark.parametrize(
    "question",
    [
        "What did I do on May 4th?",
        "What did I do on the 4th of May?",
        "What did I read on 2023-05-04?",
        "What did I read on 5/4?",
        "5月4号我们聊了什么?",
        "五月四日我说了什么",
        "5월 4일에 뭐 했어?",
        "¿Qué dije el 4 de mayo?",
        "Was habe ich am 4. Mai gesagt?",
        "Qu'ai-je dit le 4 mai ?",
        "Cosa ho detto il 4 maggio?",
        "O que eu disse em 4 de maio?",
        "Что я говорил 4 мая?",
        "Wat zei ik op 4 mei?",
    ],
)
def test_a_day_is_read_in_many_languages(question: str) -> None:
    assert (day(2023, 5, 4), day(2023, 5, 5)) in spans(question)


@pytest.mark.parametrize(
    ("question", "since", "until"),
    [
        ("What did we talk about last week?", day(2023, 5, 1), day(2023, 5, 8)),
        ("What did I say yesterday?", day(2023, 5, 11), day(2023, 5, 12)),
        ("What did I say two days ago?", day(2023, 5, 10), day(2023, 5, 11)),
        ("What did I do last Friday?", day(2023, 5, 5), day(2023, 5, 6)),
        ("What did I buy last month?", day(2023, 4, 1), day(2023, 5, 1)),
        ("What did she buy in 2022?", day(2022, 1, 1), day(2023, 1, 1)),
        ("What happened in June 2022?", day(2022, 6, 1), day(2022, 7, 1)),
        ("What happened on 14 Feb 2022?", day(2022, 2, 14), day(2022, 2, 15)),
        ("上周我说了什么", day(2023, 5, 1), day(2023, 5, 8)),
        ("三天前我说了什么", day(2023, 5, 9), day(2023, 5, 10)),
        ("去年五月我去了哪里", day(2022, 5, 1), day(2022, 6, 1)),
        ("先週何をした?", day(2023, 5, 1), day(2023, 5, 8)),
        ("Qu'est-ce que j'ai dit hier ?", day(2023, 5, 11), day(2023, 5, 12)),
        ("¿Qué hice la semana pasada?", day(2023, 5, 1), day(2023, 5, 8)),
        ("Was habe ich gestern gesagt?", day(2023, 5, 11), day(2023, 5, 12)),
    ],
)
def test_relative_times_count_from_the_clock(
    question: str, since: datetime, until: datetime
) -> None:
    assert spans(question) == [(since, until)]


def test_a_month_without_a_year_is_of_any_recent_year() -> None:
    found = spans("What happened in May?")
    assert (day(2023, 5, 1), day(2023, 6, 1)) in found
    assert (day(2021, 5, 1), day(2021, 6, 1)) in found


def test_the_last_week_of_a_month_is_in_that_month() -> None:
    found = spans("What did I do in the last week of August 2022?")
    assert found == [(day(2022, 8, 1), day(2022, 9, 1))]


@pytest.mark.parametrize(
    "question",
    [
        "Who may know the second thing?",
        "How many of them march in the sun?",
        "Who sat with me?",
        "What are chapters 3-5 about?",
        "What is new in version 3.5?",
        "Who has order 9981?",
        "What is May's favourite colour?",
        "Where does Ana live?",
        "我喜欢什么颜色",
        "13月32日",
        "2023-13-45",
    ],
)
def test_what_is_no_time(question: str) -> None:
    assert spans(question) == []


@pytest.mark.parametrize(
    "question",
    [
        "What was our first conversation about?",
        "What did I tell you when we first talked?",
        "我们第一次聊天说了什么?",
        "Worum ging es in unserem ersten Gespräch?",
        "De quoi parlait notre première conversation ?",
    ],
)
def test_the_first_conversation(question: str) -> None:
    assert told_times(question, NOW).first


@pytest.mark.parametrize(
    "question",
    [
        "What did you say on 5/3/23?",
        "What did you say on 05/03/2023?",
        "Was hast du am 03.05.23 gesagt?",
        "Was hast du am 3.5. gesagt?",
        "What did you say on May 3rd, 2023?",
        "What did you say on the third of May?",
        "What did you say on may 3?",
        "What did you say on the 3rd?",
        "Qu'as-tu dit le 3 mai 2023 ?",
        "二〇二三年五月三日你说了什么",
        "２０２３年５月３日に何を言った?",
        "上周三你说了什么",
        "上星期三你说了什么",
        "先週の水曜日に何を言った?",
        "지난주 수요일에 뭐라고 했어?",
        "What did you say on Wednesday of last week?",
        "Was hast du letzte Woche Mittwoch gesagt?",
        "15 मार्च 2023 या 3 मई 2023 को क्या कहा?",
    ],
)
def test_a_day_is_read_in_any_common_form(question: str) -> None:
    assert (day(2023, 5, 3), day(2023, 5, 4)) in spans(question)


@pytest.mark.parametrize(
    ("question", "since", "until"),
    [
        (question, since, until)
        for questions, since, until in (
            (
                "two weeks ago|a couple of weeks ago|the week before last|vor zwei Wochen|"
                "vorletzte Woche|il y a deux semaines|hace dos semanas|due settimane fa|"
                "há duas semanas|twee weken geleden|för två veckor sedan|dwa tygodnie temu|"
                "две недели назад|iki hafta önce|dua minggu yang lalu|قبل أسبوعين|"
                "दो हफ्ते पहले|两周前|两个星期前|上上周|2週間前|先々週|2주 전",
                day(2023, 4, 24),
                day(2023, 5, 1),
            ),
            (
                "last night|yesterday evening|gestern Abend|hier soir|anoche|ieri sera|昨晚|昨夜|"
                "昨天晚上|어젯밤",
                day(2023, 5, 11),
                day(2023, 5, 12),
            ),
            (
                "the day before yesterday|vorgestern|avant-hier|l'altro ieri|antes de ayer|前天|"
                "一昨日|이틀 전",
                day(2023, 5, 10),
                day(2023, 5, 11),
            ),
            ("heute Morgen|this morning|aujourd'hui|今天", day(2023, 5, 12), day(2023, 5, 13)),
            (
                "last weekend|letztes Wochenende|le week-end dernier|el fin de semana pasado|"
                "over the weekend|上周末|先週末",
                day(2023, 5, 6),
                day(2023, 5, 8),
            ),
            (
                "last month|letzten Monat|le mois dernier|el mes pasado|no mês passado|"
                "il mese scorso|先月|上个月|지난 달",
                day(2023, 4, 1),
                day(2023, 5, 1),
            ),
            (
                "last year|a year ago|voriges Jahr|l'année dernière|l'anno scorso|2022年|"
                "в прошлом году|昨年|작년",
                day(2022, 1, 1),
                day(2023, 1, 1),
            ),
            ("two years ago|vor zwei Jahren|一昨年|前年|2년 전", day(2021, 1, 1), day(2022, 1, 1)),
            (
                "last summer|im letzten Sommer|summer of 2022|去年夏天",
                day(2022, 6, 1),
                day(2022, 9, 1),
            ),
            ("last May|letzten Mai|in May 2022|May '22", day(2022, 5, 1), day(2022, 6, 1)),
            ("Q1 2022|the first quarter, Q1/2022", day(2022, 1, 1), day(2022, 4, 1)),
            ("in the last two weeks|die letzten zwei Wochen", day(2023, 4, 24), day(2023, 5, 15)),
            (
                "a few days ago|vor ein paar Tagen|几天前|hace unos días",
                day(2023, 5, 5),
                day(2023, 5, 11),
            ),
            ("half a year ago|vor einem halben Jahr|半年前", day(2022, 10, 1), day(2023, 1, 1)),
            (
                "last Monday|on Monday|am Montag|lundi dernier|周一|月曜日",
                day(2023, 5, 8),
                day(2023, 5, 9),
            ),
        )
        for question in questions.split("|")
    ],
)
def test_relative_times_in_many_languages(question: str, since: datetime, until: datetime) -> None:
    assert spans(question) == [(since, until)]


@pytest.mark.parametrize(
    "question",
    [
        "between May 3 and May 10, 2023",
        "from May 3 to 10, 2023",
        "May 3-10, 2023",
        "3rd to 10th of May 2023",
        "zwischen dem 3. und 10. Mai 2023",
        "vom 3.5.2023 bis 10.5.2023",
        "2023-05-03 to 2023-05-10",
        "2023年5月3日到2023年5月10日",
    ],
)
def test_a_range_is_all_between_its_ends(question: str) -> None:
    assert spans(question) == [(day(2023, 5, 3), day(2023, 5, 11))]


@pytest.mark.parametrize(
    "question",
    [
        "May I ask where Ana lives?",
        "Who may 3 of them be?",
        "They march on Rome",
        "Wait a second, who sat there?",
        "What is new in version 2023.1?",
        "What is new in version 3.5.2?",
        "Which costs $5.99, and which 12.50?",
        "Who has +49 151 23456789, and who 555-1234?",
        "In 2 days we have 300",
        "In two weeks we go to Rome",
        "Who lived 2 years in Rome?",
        "Who is 34 years old?",
        "How many days are in a week?",
        "Who needs 5/6 of a cup?",
        "Where is a 24/7 shop?",
        "What does April like?",
        "Where do May and June live?",
        "What does August, my cat, eat?",
        "Does Jan like it?",
        "Who runs every Monday?",
        "Which Black Friday deals?",
        "What was a month of pain?",
        "Was gibt es hier zu essen?",
        "Wer hat 12 Monate Garantie?",
        "一周二次",
        "每周三",
        "十月怀胎",
        "谁在5号楼?",
        "한일전 봤어?",
    ],
)
def test_what_looks_like_a_time_and_is_none(question: str) -> None:
    assert spans(question) == []


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


@pytest.mark.parametrize(
    "question", ["What was the first thing I told you?", "初めての会話は何?", "첫 대화가 뭐였지?"]
)
def test_the_first_thing_said(question: str) -> None:
    assert may_tell_time(question)
    assert told_times(question, NOW).first


def test_of_many_dates_the_first_are_read() -> None:
    assert len(told_times("Jan '22, " * 200, NOW).spans) == 1
    assert told_times("3 May 2023, " * 150, NOW).spans == ((day(2023, 5, 3), day(2023, 5, 4)),)


def test_without_times_there_is_nothing() -> None:
    assert told_times("Where does Ana live?", NOW) == NO_TIMES
    assert not NO_TIMES


@given(st.text(max_size=200), st.datetimes(timezones=st.just(UTC)))
def test_any_text_at_any_clock_is_read(text: str, now: datetime) -> None:
    for since, until in told_times(text, now).spans:
        assert since < until
