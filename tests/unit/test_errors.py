"""The tree that errors.py draws is the tree that it defines."""

import inspect
import re

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError

from adkpg import errors

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and value.__module__ == "adkpg.errors"
}


def _drawn() -> dict[str, str | None]:
    """Returns each drawn class with the class it is drawn under."""
    tree: dict[str, str | None] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"( +)(?:\+ )?([A-Z]\w+)(?: |$)", line):
            depth = len(match[1])
            above = [(level, name) for level, name in above if level < depth]
            tree[match[2]] = above[-1][1] if above else None
            above.append((depth, match[2]))
    return tree


def test_the_drawing_is_complete() -> None:
    assert set(_drawn()) == set(CLASSES)


@pytest.mark.parametrize(("name", "parent"), _drawn().items())
def test_each_class_stands_where_it_is_drawn(name: str, parent: str | None) -> None:
    bases = {base.__name__ for base in CLASSES[name].__bases__}
    assert (parent or "Exception") in bases


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_says_what_it_means(name: str) -> None:
    assert CLASSES[name].__doc__


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (errors.SessionExists, AlreadyExistsError),
        (errors.EventConflict, AlreadyExistsError),
        (errors.SessionNotFound, SessionNotFoundError),
        (errors.StaleSession, StaleSessionError),
        (errors.InvalidInput, ValueError),
        (errors.ConfigurationError, ValueError),
    ],
)
def test_code_written_for_adk_catches_ours(ours: type, theirs: type) -> None:
    assert issubclass(ours, theirs)
