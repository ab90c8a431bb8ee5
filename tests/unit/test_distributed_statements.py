"""Each compiled shape of each statement keeps to what Citus can send to one node."""

import re
from typing import Any

import pytest
from sqlalchemy import Text, func, select
from sqlalchemy.dialects.postgresql import ARRAY

from adkpg import tables
from adkpg.database.migrating import migrations
from adkpg.sessions.life_statements import select_openings
from adkpg.sql import Statement, given_rows
from tests.fakes.citus_rules import RULES, broken
from tests.fakes.statements import FUNCTIONS, shapes

_HIDDEN = ("insert in a step",)  # of what `write_prepared_1` runs


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_shape_can_be_sent_to_one_node(name: str) -> None:
    function = FUNCTIONS[name]
    for shape in shapes(function):
        statement = function(**shape).form(distributed=True)
        found = broken(statement.text("adkpg", distributed=True))
        hidden = _HIDDEN if statement.writes_parts else ()
        assert [each for each in found if each.split(":")[0] not in hidden] == [], shape


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_broken_by_its_example(name: str) -> None:
    found = broken(RULES[name].example.format(schema="adkpg"))
    assert any(each.startswith(f"{name}:") for each in found)


WITH_EACH = {"adkpg.sessions.life_statements.select_openings": {"session_ids"}}
"""Lists beside ``user_ids`` that are not parallel to them: each of their elements is any user's."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_list_beside_users_is_cut_or_known_not_to_be(name: str) -> None:
    function = FUNCTIONS[name]
    for shape in shapes(function):
        statement = function(**shape)
        asked = statement.form(distributed=True)
        if statement.splits or asked.splits:
            lists = {each for each in asked.names if isinstance(asked.kinds[each], ARRAY)}
            whole = lists - statement.parallel - {"user_ids"}
            assert whole == WITH_EACH.get(name, set()), shape
            assert statement.parallel == asked.parallel, shape


@pytest.mark.parametrize("session_ids", [[], ["s"], ["s", "t"], ["s", "t", "u", "v"]], ids=len)
def test_each_user_is_asked_for_all_ids_of_a_list_that_is_not_parallel(
    session_ids: list[str],
) -> None:
    given: Any = {"app_name": "app", "user_ids": ["b", "a"], "session_ids": session_ids}
    assert list(select_openings().split(given)) == [
        {"app_name": "app", "user_ids": [user], "session_ids": session_ids} for user in ("a", "b")
    ]


def _of_rows() -> Statement[Any]:
    given = given_rows(user_ids=Text, words=Text)
    return Statement(select(func.count()).select_from(given))


def test_a_user_who_comes_twice_has_all_elements_of_a_parallel_list() -> None:
    given = {"user_ids": ["b", "a", "b"], "words": ["one", None, "two"], "others": [1, 2, 3]}
    assert list(_of_rows().split(given)) == [
        {"user_ids": ["a"], "words": [None], "others": [1, 2, 3]},
        {"user_ids": ["b", "b"], "words": ["one", "two"], "others": [1, 2, 3]},
    ]


@pytest.mark.parametrize("users", [["a"], ["a", "a"]], ids=len)
def test_of_one_user_it_is_sent_as_it_is(users: list[str]) -> None:
    given = {"user_ids": users, "words": users}
    assert list(_of_rows().split(given)) == [given]


def test_of_no_user_it_is_not_sent() -> None:
    assert list(_of_rows().split({"user_ids": [], "words": []})) == []


def test_a_list_that_is_null_stays_null_for_each_user() -> None:
    split = list(_of_rows().split({"user_ids": ["a", "b"], "words": None}))
    assert [each["words"] for each in split] == [None, None]


@pytest.mark.parametrize("words", [[], ["one"], ["one"] * 4], ids=len)
def test_a_parallel_list_of_another_length_is_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match="zip"):
        list(_of_rows().split({"user_ids": ["a", "b"], "words": words}))


_STATEMENT = re.compile(
    r"^ *((?:UPDATE|INSERT INTO|DELETE FROM|WITH)\b.*?)(?:;|\bLOOP\b)", re.MULTILINE | re.DOTALL
)
_COMMENT = re.compile(r"--.*")
_PAST_CITUS = re.compile(r"\$part\$.*?\$part\$", re.DOTALL)
_TARGET = re.compile(r"\bINTO (?:STRICT )?\w+(?:, \w+)*\s*$")


def _statements(function: str) -> list[str]:
    """What a function writes with, where its variable of the user is a parameter."""
    found = _STATEMENT.findall(_PAST_CITUS.sub("", _COMMENT.sub("", function)))
    return [
        re.sub(r"(\.user_id = )user_id\b", r"\1$1::VARCHAR", _TARGET.sub("", each))
        for each in found
    ]


@pytest.mark.parametrize("name", tables.FUNCTIONS)
def test_each_statement_that_a_function_writes_with_can_be_sent_to_one_node(name: str) -> None:
    for sql in _statements(migrations.function(name, "adkpg")):
        assert broken(sql) == [], sql
        if sql.startswith(("UPDATE", "DELETE")):
            assert "user_id = $1" in sql


_LOOK = re.compile(
    rf"\b(?:FROM|JOIN|UPDATE) (?:{'|'.join(each.name for each in tables.PERSONAL)})"
    r"(?:_%\d\$s)? (?:AS )?(\w+)\b"
)


@pytest.mark.parametrize("name", tables.FUNCTIONS)
def test_each_look_of_a_function_into_a_table_of_persons_names_the_user(name: str) -> None:
    text = _COMMENT.sub("", migrations.function(name, "adkpg"))
    for statement in text.split(";"):
        for alias in _LOOK.findall(statement):
            assert f"{alias}.user_id = " in statement, statement


def test_looks_of_functions_are_found() -> None:
    text = migrations.function("ingest_turns_1", "adkpg")
    assert {"s", "t", "m", "e", "j"} <= {*_LOOK.findall(text)}


def test_what_functions_write_with_is_found() -> None:
    text = migrations.function("append_event_1", "adkpg")
    commonest, update, insert = _statements(text)
    assert {commonest[:15], update[:15]} == {"UPDATE sessions"}
    assert insert[:18] == "INSERT INTO events"
    written = _statements(migrations.function("write_memories_1", "adkpg"))
    assert re.findall(r"^INSERT INTO (\w+)", "\n".join(written), re.MULTILINE) == [
        *("memories", "memory_lexemes", "memory_jobs", "memory_jobs")
    ]
    broke = text.replace("timezone('UTC', utc + s.ttl)", "now() + s.ttl")
    assert [each.split(":")[0] for each in broken(_statements(broke)[0])] == [
        "clock beside a column"
    ]
