"""The table of rules: each table of an app or a person has one, and each column travels or not."""

from adkpg.rules import PERSONAL, RULES
from adkpg.tables import metadata
from adkpg.tooling.transfer.kinds import KINDS

OWN = {"embedding_models", "artifact_removals", "artifact_claims"}
"""Tables of the whole database: the registry of models, and what is about its object store."""

SPELLED = {
    "session": {"ttl": "ttl_s"},
    "event": {"event_id": "event", "timestamp": "event", "payload": "event"},
    "app_settings": {"model_id": "model"},
}
"""Columns that a line has under another name, or within another."""


def test_each_table_has_one_rule() -> None:
    tables = [rule.table.name for rule in RULES]
    assert len(set(tables)) == len(tables)
    assert set(tables) == {table.name for table in metadata.sorted_tables} - OWN


def test_what_refers_to_others_is_erased_before_them() -> None:
    dependent = [each for each in reversed(metadata.sorted_tables) if "user_id" in each.columns]
    assert [rule.table for rule in PERSONAL] == dependent
    order = {rule.table.name: place for place, rule in enumerate(RULES)}
    for rule in RULES:
        for key in rule.table.foreign_keys:
            other = key.column.table.name
            assert other in OWN or order[rule.table.name] < order[other]


def test_each_rule_says_how_its_rows_travel_or_why_they_do_not() -> None:
    for rule in RULES:
        assert (rule.line is None) != (rule.stays is None), rule.table.name
    lines = [rule.line for rule in RULES if rule.line is not None]
    assert sorted(lines) == sorted(KINDS)


def test_each_column_of_what_travels_is_in_its_lines_or_is_known_to_stay() -> None:
    for kind in KINDS.values():
        table = {column.name for column in kind.rule.table.columns}
        spelled = SPELLED.get(kind.type, {})
        travelling = {spelled.get(name, name) for name in table - kind.rule.without}
        assert travelling <= set(kind.columns), kind.type
        assert kind.rule.without <= table, kind.type
        assert not kind.rule.without & set(kind.columns), kind.type


def test_the_conditions_of_ages_name_columns_of_their_tables() -> None:
    for rule in RULES:
        if rule.renewed is not None:
            assert rule.renewed in rule.table.columns
        assert (rule.days is not None) == (":days" in (rule.over or ""))
