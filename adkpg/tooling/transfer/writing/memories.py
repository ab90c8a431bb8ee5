"""Writing memories of an export: where they were, as they were, without what derives from them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from adkpg.database import Database, Transaction
from adkpg.errors import InvalidInput
from adkpg.jsontext import same_json
from adkpg.keys import APP_WIDE, ScopeKey, SessionKey
from adkpg.memory.drafts import Draft
from adkpg.memory.vectors.vectors import registered
from adkpg.memory.write import apply
from adkpg.memory.write import statements as memory_statements
from adkpg.memory.write.plan import Plan, new_place
from adkpg.tooling.transfer.records import (
    AppSettingsRecord,
    MemoryRecord,
    TombstoneRecord,
    Unread,
)
from adkpg.tooling.transfer.report import ImportReport
from adkpg.tooling.transfer.writing import memory_statements as statements
from adkpg.tooling.transfer.writing.refusals import written

_BATCH = 200
_CHARACTERS = 4_000_000


class MemoryWriter:
    """Takes memories, marks of deleted ones and settings, and writes them in batches.

    A memory of an event that has a mark, or another memory, is left out; one that is stored under
    the same id becomes what the export says.

    Args:
      database: Where.
      report: Is told what became of them.
      writing: Whether they are written; else they are looked at alone.
    """

    def __init__(self, database: Database, report: ImportReport, *, writing: bool) -> None:
        self._database = database
        self._report = report
        self._writing = writing
        self._scope: tuple[str, str] | None = None
        self._waiting: dict[str, MemoryRecord] = {}
        self._characters = 0

    async def add(self, record: MemoryRecord) -> None:
        """Adds a memory."""
        user_id, memory_id = record.user_id, record.memory_id
        if not 0 <= (-1 - record.position if user_id == APP_WIDE else record.position) < 2**63:
            self._miss(record, f"its position {record.position} is none of its scope's.")
            return
        scope = (record.app_name, user_id)
        full = len(self._waiting) >= _BATCH or self._characters >= _CHARACTERS
        if full or scope != self._scope or memory_id in self._waiting:
            await self.flush()
        self._scope = scope
        self._waiting[memory_id] = record
        self._characters += len(record.body) + len(record.content)
        self._characters += len(str(record.custom_metadata)) + len(str(record.topics))

    def _miss(self, record: MemoryRecord, reason: str) -> None:
        user_id = None if record.user_id == APP_WIDE else record.user_id
        self._report.miss(
            Unread(
                reason=f"memory {record.memory_id[:100]!r}: {reason}",
                app_name=record.app_name,
                user_id=user_id,
            )
        )

    async def bury(self, tombstone: TombstoneRecord) -> None:
        """Deletes the memory of an event for good, if there is one, and remembers that."""
        await self.flush()
        if not self._writing:
            return
        key: SessionKey = {
            "app_name": tombstone.app_name,
            "user_id": tombstone.user_id,
            "session_id": tombstone.session_id,
        }
        event_id = tombstone.event_id

        async def work(transaction: Transaction) -> None:
            await transaction.fetch(memory_statements.lock_session(**key))
            await transaction.fetch(memory_statements.erase_event(**key, event_id=event_id))
            await transaction.fetch(
                statements.insert_tombstone(**key, event_id=event_id, needed_at=tombstone.needed_at)
            )

        await self._database.run.transact(work)

    async def settle(self, settings: AppSettingsRecord) -> None:
        """Gives an app the settings that it has none of."""
        if not self._writing:
            return
        config, model = settings.text_search_config, settings.model
        if model is not None:
            await registered(self._database, model.name, model.dimensions)

        async def work(transaction: Transaction) -> bool:
            rows = await transaction.fetch(
                statements.settle_app(
                    app_name=settings.app_name,
                    text_search_config=config,
                    extract_facts=settings.extract_facts,
                )
            )
            if model is not None:
                await transaction.fetch(
                    statements.activate_model(
                        app_name=settings.app_name, model=model.name, dimensions=model.dimensions
                    )
                )
            return bool(rows[0]["known"])

        try:
            known = await self._database.run.transact(work)
        except InvalidInput as exc:
            self._report.miss(Unread(reason=str(exc), app_name=settings.app_name))
            return
        if not known:
            self._report.note(
                f"Postgres has no text search configuration {config!r} here, which app "
                f"{settings.app_name!r} had; each text's script chooses instead."
            )

    async def flush(self) -> None:
        """Writes what came so far."""
        records, self._waiting = [*self._waiting.values()], {}
        self._characters = 0
        if not records or self._scope is None or not self._writing:
            return
        scope: ScopeKey = {"app_name": self._scope[0], "user_id": self._scope[1]}
        refused: list[tuple[MemoryRecord, str]] = []
        differing: list[str] = []
        count = 0

        async def write(transaction: Transaction, some: Sequence[MemoryRecord]) -> None:
            nonlocal count
            done = await self._write(transaction, scope, some)
            differing.extend(await self._differing(transaction, scope, some))
            count += done

        async def work(transaction: Transaction) -> None:
            nonlocal count
            count = 0
            refused.clear()
            differing.clear()
            for session_id in sorted({record.session_id for record in records} | {""}):
                await transaction.fetch(
                    memory_statements.lock_session(**scope, session_id=session_id)
                )
            await written(
                transaction,
                records,
                partial(write, transaction),
                lambda record, reason: refused.append((record, reason)),
            )

        await self._database.run.transact(work)
        self._report.memories_written += count
        for record, reason in refused:
            self._miss(record, reason)
        for sentence in differing:
            self._report.differing.add(sentence)

    async def _write(
        self, transaction: Transaction, scope: ScopeKey, records: Sequence[MemoryRecord]
    ) -> int:
        found = await self._found(transaction, scope, records)
        taken = {
            row["position"]
            for row in await transaction.fetch(
                statements.select_taken(**scope, positions=[record.position for record in records])
            )
        }
        plan, written = Plan(), []
        for record in records:
            draft = record.draft
            row = found.get(draft.memory_id)
            if row is not None:
                if row["digest"] != draft.digest:
                    plan.delete.append(row["position"])
                    plan.insert.append((row["position"], draft))
                    written.append(record)
                elif not _same_attributes(row, draft):
                    plan.alter.append((row["position"], draft))
                    written.append(record)
                continue
            position = record.position
            if position in taken:
                position = new_place(scope["user_id"])
            taken.add(position)
            plan.insert.append((position, draft))
            written.append(record)
        barred = await self._barred(transaction, scope, written)
        if barred:
            plan = replace(
                plan,
                insert=[
                    (position, draft)
                    for position, draft in plan.insert
                    if (draft.session_id, draft.event_id) not in barred
                ],
            )
        await apply.apply(transaction, scope, plan, self._database.settings)
        await transaction.fetch(
            statements.complete_memories(
                **scope,
                memory_ids=[record.memory_id for record in records],
                created=[record.created_at for record in records],
                superseded=[record.superseded_by for record in records],
                extracted=[record.extracted_at for record in records],
            )
        )
        pairs = [
            (record.memory_id, origin) for record in records for origin in record.origins or ()
        ]
        await transaction.fetch(
            statements.insert_origins(
                **scope,
                memory_ids=[memory_id for memory_id, _ in pairs],
                origin_ids=[origin for _, origin in pairs],
            )
        )
        return len(plan.insert) + len(plan.alter)

    async def _barred(
        self, transaction: Transaction, scope: ScopeKey, records: Sequence[MemoryRecord]
    ) -> set[tuple[str, str | None]]:
        events = [record for record in records if record.event_id is not None]
        return {
            (row["session_id"], row["event_id"])
            for row in await transaction.fetch(
                statements.select_barred(
                    **scope,
                    session_ids=[record.session_id for record in events],
                    event_ids=[str(record.event_id) for record in events],
                    memory_ids=[record.memory_id for record in events],
                )
            )
        }

    async def _found(
        self, transaction: Transaction, scope: ScopeKey, records: Sequence[MemoryRecord]
    ) -> dict[str, Any]:
        rows = await transaction.fetch(
            statements.select_stored(**scope, memory_ids=[record.memory_id for record in records])
        )
        return {row["memory_id"]: row for row in rows}

    async def _differing(
        self, transaction: Transaction, scope: ScopeKey, records: Sequence[MemoryRecord]
    ) -> list[str]:
        """Compares what is stored with what was given; says what differs."""
        found = await self._found(transaction, scope, records)
        missing = [record for record in records if record.memory_id not in found]
        barred = await self._barred(transaction, scope, missing)
        said = [
            f"Memory {record.memory_id!r} is not stored."
            for record in missing
            if (record.session_id, record.event_id) not in barred
        ]
        return said + [
            f"Memory {record.memory_id!r} differs from the export's."
            for record in records
            if record.memory_id in found and found[record.memory_id]["digest"] != record.digest
        ]


def _same_attributes(row: Any, draft: Draft) -> bool:
    return bool(
        same_json(row["custom_metadata"] or "null", draft.custom_metadata or "null")
        and same_json(row["topics"], draft.topics)
        and abs(row["importance"] - draft.importance) < 1e-6
        and row["expires_at"] == draft.expires_at
    )
