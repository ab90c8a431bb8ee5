"""Removal: shows what would go, asks, and removes nothing without a terminal to answer on."""

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click

from adkpg.tooling.cli.answers import say
from adkpg.tooling.cli.options import Command, as_json

T = TypeVar("T")


def removes(command: Command) -> Command:
    """Adds the options that `Removal.carry_out` takes."""
    dry_run = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
    yes = click.option("--yes", is_flag=True, help="Remove without a question.")
    return dry_run(yes(as_json(command)))


@dataclass(frozen=True)
class Removal(Generic[T]):
    """One removal.

    Attributes:
      remove: Removes and returns what went; given True, it only returns what would go.
      show: Prints what would go, or what went.
      jsonable: Returns it as an object of JSON.
      question: Asks for consent.
      nothing: Says that there is nothing to remove.
    """

    remove: Callable[[bool], T]
    show: Callable[[T], None]
    jsonable: Callable[[T], dict[str, Any]]
    question: str
    nothing: str

    def carry_out(self, *, dry_run: bool, yes: bool, as_json: bool) -> None:
        """Removes with --yes or after a question.

        Raises:
          ClickException: There is no terminal to ask on.
          Abort: The answer was no.
        """
        found = self.remove(dry_run or not yes)
        if found and not dry_run and not yes:
            ask(lambda: self.show(found), self.question, as_json=as_json)
            found = self.remove(False)
        if found and not as_json:
            self.show(found)
        done = "Nothing was removed." if dry_run else "Removed."
        value = {"dry_run": dry_run, **self.jsonable(found)}
        say(done if found else self.nothing, value, as_json=as_json)


def ask(show: Callable[[], None], question: str, *, as_json: bool, done: str = "removed") -> None:
    """Shows what would go, and returns if that may be.

    Args:
      show: Shows it.
      question: Asks whether it may.
      as_json: Whether standard output is for JSON.
      done: What would be done to it.

    Raises:
      ClickException: There is no terminal to ask on.
      Abort: The answer was no.
    """
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        show()
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.ClickException(
            f"Nothing was {done}, since there is no terminal to ask on; add --yes."
        )
    click.confirm(question, abort=True, err=True)
