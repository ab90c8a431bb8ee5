"""Times in questions: what is read, in which languages, and what is no time."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkpg.memory.search.times import NO_TIMES, may_tell_time, told_times

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


def test_without_times_there_is_nothing() -> None:
    assert told_times("Where does Ana live?", NOW) == NO_TIMES
    assert not NO_TIMES


@given(st.text(max_size=200), st.datetimes(timezones=st.just(UTC)))
def test_any_text_at_any_clock_is_read(text: str, now: datetime) -> None:
    for since, until in told_times(text, now).spans:
        assert since < until
