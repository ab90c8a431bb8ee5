"""What every module of tests/ keeps to."""

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.fakes.checkout import CHECKOUT
from tests.fakes.watch import COLLECTED


@cache
def modules() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(CHECKOUT)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((CHECKOUT / "tests").rglob("*.py"))
    }


# What raises if something is not so: pytest's own, playwright's, hypothesis's machines, programs
# that must end well, and whatever the test's module defines with an assertion in it.
CHECKS = {"raises", "warns", "fail", "expect", "run_state_machine_as_test"}


def imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_what_tests_share_is_imported_from_no_test() -> None:
    assert not [
        (path, name)
        for path, module in modules().items()
        for name in imported(module)
        if name.startswith("tests.")
        and any(part == "conftest" or part.startswith("test_") for part in name.split("."))
    ]


def names_called(node: ast.AST) -> set[str]:
    functions = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
    return {
        function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        for function in functions
    }


def asserts(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Assert)
        or (isinstance(part, ast.keyword) and ast.unparse(part) == "check=True")
        for part in ast.walk(node)
    )


def without_assertion(module: ast.Module) -> Iterator[str]:
    functions = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    checks = CHECKS | {function.name for function in functions if asserts(function)}
    for test in functions:
        if test.name.startswith("test_") and not (asserts(test) or checks & names_called(test)):
            yield test.name


def test_every_test_asserts_something() -> None:
    tests = {path: module for path, module in modules().items() if "/test_" in path}
    assert len(tests) > 100
    assert not [(path, name) for path in tests for name in without_assertion(tests[path])]


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    excuses = {"skip", "skipif", "xfail", "importorskip"}
    assert not [
        (path, node.attr)
        for path, module in modules().items()
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and node.attr in excuses
    ]


def test_each_test_that_needs_the_server_is_marked(pytestconfig: pytest.Config) -> None:
    """The marker selects what runs on other versions of Postgres and through PgBouncer.

    That no test reaches the server without asking for it is seen while each runs, by `Watch`.
    """
    found = pytestconfig.stash[COLLECTED]
    needing = [item for item in found if "adkpg_server" in getattr(item, "fixturenames", ())]
    assert [item.nodeid for item in needing if not item.get_closest_marker("server")] == []
    if len(found) > 5_000:  # the whole suite
        assert len(needing) > 2_800
