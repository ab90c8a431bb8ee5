"""What a cluster is sent: calls of the users' nodes, and what Citus can plan over all of them."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from alembic.script import ScriptDirectory

from adkpg import tables
from adkpg.database.cluster.routing import Routed, split
from adkpg.database.migrating import migrations
from adkpg.facts.statements import select_session_ids
from adkpg.memory.vectors.statements import insert_model
from adkpg.queries import Place, Query
from adkpg.sessions.life_statements import select_openings
from adkpg.sessions.reading_statements import list_sessions_of_app
from adkpg.sessions.statements import append_event
from tests.fakes.citus_rules import (
    ALLOWED,
    MIGRATION_RULES,
    PERSONAL,
    RULES,
    broken,
    broken_in_migrations,
)
from tests.fakes.later_versions import ADDITIVE_COLUMN, CONCURRENT_INDEX, later_version
from tests.fakes.queries import statement_of, written
from tests.fakes.statements import statements

DOCS = Path(__file__).parents[2] / "docs"


def _seen() -> Iterator[tuple[str, str]]:
    """The statements that Citus sees, and by whom they are made."""
    for name, statement, _ in statements():
        named = {"user_id", "user_ids"} & set(statement.names)
        if statement.function is None and not named and statement.place is Place.ANYWHERE:
            (sent,) = Routed("adkpg").sent(Query(statement, dict.fromkeys(statement.names)))
            yield name, sent.sql


def test_each_statement_that_citus_sees_can_be_planned_by_it() -> None:
    seen = dict(_seen())
    assert len(seen) > 50
    for name, sql in _seen():
        assert broken(sql) == [], name


@pytest.mark.parametrize(
    ("statement", "given", "function", "users"),
    [
        (statement_of(select_session_ids), {"user_id": "b"}, "at_part_1", ["b"]),
        (statement_of(select_openings), {"user_ids": ["b", "a", "b"]}, "at_part_1", ["a", "b"]),
        (statement_of(append_event), {"user_id": "b"}, "append_event_1", ["b"]),
        (
            statement_of(append_event),
            {"user_id": "b", "app_delta": "{}"},
            "append_event_1",
            ["b"],
        ),
    ],
)
def test_what_is_about_users_is_a_call_for_each(
    statement: Any, given: dict[str, Any], function: str, users: list[str]
) -> None:
    parameters = {**dict.fromkeys(statement.names), "session_ids": [], **given}
    sent = list(Routed("adkpg").sent(Query(statement, parameters)))
    place = 0 if function == "at_part_1" else 1
    assert [each.arguments[place] for each in sent] == users
    for each in sent:
        assert each.sql.startswith(f"SELECT adkpg.{function}(")
        # Citus sends nothing to another node but a bare call.
        stays = parameters.get("app_delta") is not None
        assert each.sql.endswith("AS answer, true AS stays" if stays else "AS answer")


def test_what_one_server_decides_is_asked_of_the_coordinator() -> None:
    (sent,) = Routed("adkpg").sent(insert_model(model="m", dimensions=3))
    assert "run_command_on_coordinator" in sent.sql
    assert sent.rows is not None
    assert sent.rows([{"success": True, "result": "[]"}]) == []
    with pytest.raises(asyncpg.InternalServerError, match="is away"):
        sent.rows([{"success": False, "result": "is away"}])


def test_what_walks_along_an_index_is_asked_of_each_part() -> None:
    query, routed = list_sessions_of_app(app_name="app", limit=1, most_bytes=1), Routed("adkpg")
    routed.users = ("1", "2", "7")
    sent = list(routed.sent(query))
    assert [each.arguments[0] for each in sent] == ["1", "2", "7"]


def test_what_citus_plans_locks_no_rows() -> None:
    locked = [f"{name}: {sql}" for name, sql in _seen() if re.search(r"\bFOR (?!EACH)[A-Z]", sql)]
    assert locked == []


OVER_ALL_NODES = {
    "sessions of a whole app": {
        "sessions.reading_statements.list_newest_sessions_of_app",
        "sessions.reading_statements.list_sessions_of_app",
    },
    "users of an app in the console": {
        "tooling.operations.people_statements.select_app_names",
        "tooling.operations.people_statements.select_users",
    },
    "looking for users with jobs": {
        "memory.queue.statements.select_users",
        "memory.queue.statements.select_users_of_app",
        "a2a.statements.select_anonymous_user",
        "memory.queue.statements.select_waiting",
    },
    "pruning and retention, dead letters": {
        "erasure.pruning_statements.select_scopes",
        "memory.queue.statements.count_jobs",
        "memory.queue.statements.revive",
        "memory.queue.statements.select_dead",
        "tooling.operations.figures_statements.select_apps",
        "tooling.operations.figures_statements.select_largest",
        "tooling.operations.memory_statements.count_large",
        "tooling.operations.memory_statements.select_lacking",
        "tooling.operations.memory_statements.select_queue",
    },
    "a worker's sweeps": {
        "artifacts.statements.select_locations",
        "erasure.retention_statements.select_over",
    },
    "vectors of very large users into their index": {
        "memory.vectors.statements.list_approximate_scopes",
        "memory.vectors.statements.list_approximate_scopes_ahead",
        "memory.vectors.statements.mark_approximate",
        "memory.vectors.statements.open_approximate_scopes",
        "memory.vectors.statements.select_listed",
    },
    "memory config": {
        "memory.write.word_statements.count_app",
        "memory.write.word_statements.select_bodies",
    },
    "facts switched on and off": {
        "facts.statements.end_waiting",
        "facts.statements.queue_unread",
    },
    "the list of models; a page of the audit": {
        "audit.statements.select_entries",
        "tooling.models.statements.count_covered",
        "tooling.models.statements.select_coverage",
    },
    "activation or removal of a model": {
        "tooling.models.statements.delete_scopes",
        "tooling.models.statements.delete_some_vectors",
        "tooling.models.statements.delete_vectors",
        "tooling.models.statements.end_covered_jobs",
        "tooling.models.statements.lock_lacking",
        "tooling.models.statements.queue_lacking",
        "tooling.models.statements.renew_jobs",
        "tooling.models.statements.select_apps",
        "tooling.models.statements.select_lacking",
    },
    "adkpg backup": {"tooling.backup.statements.count_rows"},
    "export of an app; import": {
        "tooling.transfer.reading.statements.select_events",
        "tooling.transfer.reading.statements.select_lines",
        "tooling.transfer.writing.memory_statements.settle_app",
    },
}
"""What is about the rows of no user or users that it names, by the call in docs/distributed.md."""


def test_all_that_names_no_user_is_known_to_ask_all_nodes() -> None:
    found = set()
    for name, statement, _ in statements():
        text = statement.text("adkpg")
        of_persons = any(re.search(rf'adkpg"?\."?{each}\b', text) for each in PERSONAL)
        named = {"user_id", "user_ids"} & set(statement.names)
        if of_persons and not named and not text.startswith("LOCK TABLE"):
            found.add(name.removeprefix("adkpg."))
    assert found == set(chain.from_iterable(OVER_ALL_NODES.values()))


def test_each_call_that_asks_all_nodes_is_in_the_documentation() -> None:
    page = (DOCS / "distributed.md").read_text()
    table = page.partition("## What asks all nodes")[2].partition("## What it costs")[0]
    assert [call for call in OVER_ALL_NODES if call not in table] == []


def executing(sql: str) -> str:
    return f"\n    op.execute(f{sql!r})\n"


def later_revisions() -> str:
    """Returns the SQL of all revisions but the first."""
    first = ScriptDirectory(str(migrations.scripts())).get_base()
    assert first is not None
    return migrations.sql("adkpg").removeprefix(migrations.sql("adkpg", first))


def test_no_migration_does_to_distributed_tables_what_a_cluster_refuses(tmp_path: Path) -> None:
    assert broken_in_migrations(later_revisions()) == []
    with later_version(tmp_path, ADDITIVE_COLUMN, CONCURRENT_INDEX, *map(executing, ALLOWED)):
        assert "mood" in later_revisions()
        assert broken_in_migrations(later_revisions()) == []


def test_a_migration_may_do_anything_to_a_table_that_it_makes_and_later_ones_may_not(
    tmp_path: Path,
) -> None:
    option = executing('ALTER TABLE "{schema}".events ALTER content SET STORAGE EXTERNAL')
    made = """
    op.create_table("events", sa.Column("content", sa.Text()), schema=schema)
"""
    with later_version(tmp_path, made + option, option):
        assert len(broken_in_migrations(later_revisions())) == 1


def test_a_migration_that_breaks_a_rule_is_found(tmp_path: Path) -> None:
    for name, rule in MIGRATION_RULES.items():
        found = broken_in_migrations(rule.example.format(schema="adkpg"))
        assert [each.split(":")[0] for each in found] == [name]


def test_a_migration_is_held_to_what_statements_are_held_to(tmp_path: Path) -> None:
    sql = (
        "DELETE FROM {schema}.memories AS m USING {schema}.memory_tombstones AS t"
        " WHERE m.event_id = t.event_id"
    )
    with later_version(tmp_path, executing(sql)):
        (found,) = broken_in_migrations(later_revisions())
        assert found.startswith("delete beside others: ")


def test_a_rule_is_broken_by_its_example() -> None:
    for name, rule in RULES.items():
        found = broken(rule.example.format(schema="adkpg"))
        assert any(each.startswith(f"{name}:") for each in found)


WITH_EACH = {"adkpg.sessions.life_statements.select_openings": {"session_ids"}}
"""Lists beside ``user_ids`` that are not parallel to them: each of their elements is any user's."""


def test_each_list_beside_users_is_cut_or_known_not_to_be() -> None:
    for name, statement, hints in statements():
        if "user_ids" in statement.names and "user_id" not in statement.names:
            lists = {each for each in statement.names if "list[" in str(hints[each])}
            whole = lists - statement.parallel - {"user_ids"}
            assert whole == WITH_EACH.get(name, set()), name


def test_what_is_about_users_writes_nothing_that_each_node_has_a_copy_of() -> None:
    """It runs on the node of the user, which would change its own copy alone."""
    for name, statement, _ in statements():
        if statement.function is None and {"user_id", "user_ids"} & set(statement.names):
            assert set(_WRITTEN.findall(statement.text("adkpg"))) <= PERSONAL, name


_WRITTEN = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM) adkpg\.(\w+)\b")


@pytest.mark.parametrize("session_ids", [[], ["s"], ["s", "t"], ["s", "t", "u", "v"]], ids=len)
def test_each_user_is_asked_for_all_ids_of_a_list_that_is_not_parallel(
    session_ids: list[str],
) -> None:
    openings = select_openings(app_name="app", user_ids=["b", "a"], session_ids=session_ids)
    assert [own.parameters for _, own in split(openings)] == [
        {"app_name": "app", "user_ids": [user], "session_ids": session_ids} for user in ("a", "b")
    ]


def _of_rows(given: dict[str, Any]) -> Query[Any]:
    """Some rows of each user's."""
    return written("SELECT count(*) FROM unnest(:user_ids::text[], :words::text[]) AS g", **given)


def test_a_user_who_comes_twice_has_all_elements_of_a_parallel_list() -> None:
    given = {"user_ids": ["b", "a", "b"], "words": ["one", None, "two"], "others": [1, 2, 3]}
    assert [own.parameters for _, own in split(_of_rows(given))] == [
        {"user_ids": ["a"], "words": [None], "others": [1, 2, 3]},
        {"user_ids": ["b", "b"], "words": ["one", "two"], "others": [1, 2, 3]},
    ]


@pytest.mark.parametrize("users", [["a"], ["a", "a"]], ids=len)
def test_of_one_user_it_is_sent_as_it_is(users: list[str]) -> None:
    given = {"user_ids": users, "words": users}
    assert [own.parameters for _, own in split(_of_rows(given))] == [given]


def test_of_no_user_it_is_not_sent() -> None:
    assert list(split(_of_rows({"user_ids": [], "words": []}))) == []


def test_a_list_that_is_null_stays_null_for_each_user() -> None:
    parts = split(_of_rows({"user_ids": ["a", "b"], "words": None}))
    assert [own.parameters["words"] for _, own in parts] == [None, None]


@pytest.mark.parametrize("words", [[], ["one"], ["one"] * 4], ids=len)
def test_a_parallel_list_of_another_length_is_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match="zip"):
        list(split(_of_rows({"user_ids": ["a", "b"], "words": words})))


_STATEMENT = re.compile(
    r"^ *((?:UPDATE|INSERT INTO|DELETE FROM|WITH)\b.*?)(?:;|\bLOOP\b)", re.MULTILINE | re.DOTALL
)
_COMMENT = re.compile(r"--.*")
_TARGET = re.compile(r"\bINTO (?:STRICT )?\w+(?:, \w+)*\s*$")


def _statements(function: str) -> list[str]:
    """What a function writes with, where its variable of the user is a parameter."""
    found = _STATEMENT.findall(_COMMENT.sub("", function))
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
    rf"\b(?:FROM|JOIN|UPDATE) (?:{'|'.join(sorted(PERSONAL))})"
    r" (?:AS )?(\w+)\b"
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
