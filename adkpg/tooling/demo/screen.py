"""Screen: the demo as people read it."""

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status
from rich.table import Table

from adkpg.tooling.demo.line import (
    Called,
    Checked,
    Found,
    Line,
    Opened,
    Requested,
    Rows,
    Said,
    Searched,
    Started,
    State,
)
from adkpg.tooling.terminal import cell, show, show_tables


class Screen:
    """Prints to standard output; shows what is under way only on a terminal."""

    def __init__(self) -> None:
        self._console = Console(markup=False, highlight=False, emoji=False)

    def heading(self, text: str) -> None:
        """Prints a heading."""
        self._console.print()
        self._console.print(cell(text, "bold"))

    def text(self, text: str) -> None:
        """Prints a paragraph."""
        self._console.print(cell(text))

    def commands(self, commands: Iterable[Sequence[str]]) -> None:
        """Prints commands to be pasted: quoted for the shell, and each on one line."""
        for words in commands:
            self._console.print(cell("  " + shlex.join(words)), soft_wrap=True)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Shows what is waited for."""
        # Not `Console.status`, which imports when it is called: Python loses a Ctrl-C that comes as
        # it forgets the lock of an import.
        with Status(cell(text), console=self._console):
            yield

    def line(self, line: Line) -> None:
        """Prints what an act tells, except for rows, which make a table."""
        match line:
            case Started(process_id=process_id):
                self._entry("process", str(process_id), "dim")
            case Opened(session_id=session_id, stored_events=0):
                self._entry("session", f"{session_id!r}, new", "dim")
            case Opened(session_id=session_id, stored_events=events):
                self._entry("session", f"{session_id!r}, {events} events stored", "dim")
            case Said(author=author, text=text):
                self._entry(author, text, "cyan" if author == "user" else "green")
            case Called(tool=tool, arguments=arguments):
                self._entry("", f"calls {tool}({_json(arguments)})", "dim")
            case Requested(contents=contents):
                plural = "" if contents == 1 else "s"
                self._entry("", f"the model receives {contents} message{plural}", "dim")
            case State(values=values):
                lines = [f"{key} = {_json(value)}" for key, value in values.items()]
                self._entry("state", "\n".join(lines), "dim")
            case Checked(claim=claim, held=held):
                self._entry(*(("ok", claim, "bold") if held else ("FAILED", claim, "bold red")))
            case Searched(question=question, found=found):
                self._searched(question, found)

    def rows(self, rows: Iterable[Rows]) -> None:
        """Prints what each table holds."""
        show_tables(
            ("TABLE", "ROWS", "WHAT A ROW IS"),
            [
                (row.count, (row.table, row.count, row.comment))
                for row in sorted(rows, key=lambda row: row.count, reverse=True)
            ],
            full=True,
        )

    def _searched(self, question: str, found: list[Found]) -> None:
        self.heading(f"What memory finds for: {question}")
        if not found:
            self.text("Nothing that is remembered answers this.")
            return
        rows = [
            (
                f"{hit.score:.3f}",
                f"{hit.lexical:.3f}",
                "" if hit.cosine is None else f"{hit.cosine:.3f}",
                hit.text,
            )
            for hit in found
        ]
        show(("SCORE", "WORDS", "COSINE", "MEMORY"), rows, full=True)

    def _entry(self, label: str, text: str, style: str) -> None:
        """Prints a text after its label; its further lines are indented as far."""
        entry = Table.grid(padding=(0, 1))
        entry.add_column(width=11, justify="right")
        entry.add_column(overflow="fold")
        entry.add_row(cell(label, style), cell(text, style if style == "dim" else ""))
        self._console.print(entry)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
