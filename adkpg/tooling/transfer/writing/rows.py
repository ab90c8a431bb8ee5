"""Writing rows that are copied as they are: what is there stays."""

import json
from collections.abc import Sequence
from typing import Any

from adkpg.database import Database, Transaction
from adkpg.tooling.transfer.kinds import Kind
from adkpg.tooling.transfer.records import Unread
from adkpg.tooling.transfer.report import ImportReport
from adkpg.tooling.transfer.writing import row_statements as statements
from adkpg.tooling.transfer.writing.refusals import written

_BATCH = 200
_CHARACTERS = 4_000_000


class RowWriter:
    """Takes records of a kind, and writes them in batches.

    Args:
      database: Where.
      report: Is told of what differs or cannot be stored.
      kind: What the rows are.
      writing: Whether they are written; else they are looked at alone.
    """

    def __init__(
        self, database: Database, report: ImportReport, kind: Kind, *, writing: bool
    ) -> None:
        self._database = database
        self._report = report
        self._kind = kind
        self._writing = writing
        self._waiting: dict[tuple[Any, ...], Any] = {}
        self._characters = 0

    async def add(self, record: Any) -> None:
        """Adds a record."""
        key = tuple(getattr(record, name) for name in self._kind.rule.key)
        full = len(self._waiting) >= _BATCH or self._characters >= _CHARACTERS
        if full or key in self._waiting:
            await self.flush()
        self._waiting[key] = record
        self._characters += sum(len(str(value)) for value in vars(record).values())

    async def flush(self) -> None:
        """Writes what came so far."""
        records, self._waiting = [*self._waiting.values()], {}
        self._characters = 0
        if not records or not self._writing:
            return
        refused: list[tuple[Any, str]] = []

        async def work(transaction: Transaction) -> list[Any]:
            refused.clear()
            return await copied(transaction, self._kind, records, refused)

        same = await self._database.run.transact(work)
        lost = [record for record, _ in refused]
        for record, reason in refused:
            self._report.miss(unread(self._kind, record, reason))
        for record in records:
            if record not in same and record not in lost:
                self._report.differing.add(
                    f"{named(self._kind, record)} is not the source's; it was left as it is."
                )


async def copied(
    transaction: Transaction,
    kind: Kind,
    records: Sequence[Any],
    refused: list[tuple[Any, str]],
) -> list[Any]:
    """Writes rows whose keys are free; returns those that are stored as they were given.

    Args:
      transaction: Where.
      kind: The records'.
      records: The rows.
      refused: Gets those that the server refused, and why.
    """

    async def write(rows: Sequence[Any]) -> None:
        await transaction.fetch(statements.insert_rows(kind, rows))

    await written(
        transaction, records, write, lambda record, reason: refused.append((record, reason))
    )
    lost = {id(record) for record, _ in refused}
    there = [record for record in records if id(record) not in lost]
    if not there:
        return []
    found = await transaction.fetch(statements.select_same(kind, there))
    return [there[row["place"]] for row in found]


def named(kind: Kind, record: Any) -> str:
    """Returns how a record is called in a sentence."""
    key = {name: getattr(record, name) for name in kind.rule.key}
    return f"{kind.type.replace('_', ' ').capitalize()} {json.dumps(key, default=str)}"


def unread(kind: Kind, record: Any, reason: str) -> Unread:
    """Returns what is said of a record that cannot be stored."""
    return Unread(reason=f"{named(kind, record)}: {reason}", app_name=record.app_name)
