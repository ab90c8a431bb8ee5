"""Each compiled shape of each statement keeps to what Citus can send to one node."""

import pytest

from tests.fakes.citus_rules import RULES, broken
from tests.fakes.statements import FUNCTIONS, shapes


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_shape_can_be_sent_to_one_node(name: str) -> None:
    function = FUNCTIONS[name]
    for shape in shapes(function):
        statement = function(**shape).form(distributed=True)
        assert broken(statement.text("adkpg", distributed=True)) == [], shape


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_broken_by_its_example(name: str) -> None:
    found = broken(RULES[name].example.format(schema="adkpg"))
    assert any(each.startswith(f"{name}:") for each in found)
