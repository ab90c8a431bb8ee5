"""Writing memories of an export: where they were, as they were, without what derives from them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adkpg.database import Database, Transaction
from adkpg.errors import InvalidInput
from adkpg.jsontext import same_json
from adkpg.keys import APP_WIDE, ScopeKey, SessionKey, require_storable
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
from adkpg.tooling.transfer.writing.sessions import Mode

_BATCH = 200


class MemoryWriter:
    """Takes memories, marks of deleted ones and settings, and writes or verifies them in batches.

    A memory of an event that has a mark, or another memory, is left out; one that is stored under
    the same id becomes what the export says.

    Args:
      database: Where.
      report: Is told what became of them.
      mode: What becomes of them.
    """

    def __init__(self, database: Database, report: ImportReport, *, mode: Mode) -> None:
        self._database = database
        self._report = report
        self._mode = mode
        self._scope: tuple[str, str] | None = None
        self._waiting: dict[str, MemoryRecord] = {}
        self._tombstones: list[TombstoneRecord] = []

    async def add(self, record: MemoryRecord) -> None:
        """Adds a memory."""
        draft, user_id = record.draft, record.user_id
        try:
            require_storable(
                app_name=record.app_name,
                user_id=None if user_id == APP_WIDE else user_id,
                memory_id=draft.memory_id,
                session_id=draft.session_id,
                event_id=draft.event_id,
                invocation_id=draft.invocation_id,
                source=draft.source,
            )
            if not 0 <= (-1 - record.position if user_id == APP_WIDE else record.position) < 2**63:
                raise InvalidInput(f"its position {record.position} is none of its scope's.")
        except InvalidInput as exc:
            self._miss(record, str(exc))
            return
        scope = (record.app_name, user_id)
        if scope != self._scope or len(self._waiting) >= _BATCH or draft.memory_id in self._waiting:
            await self.flush()
        self._scope = scope
        self._waiting[draft.memory_id] = record

    def _miss(self, record: MemoryRecord, reason: str) -> None:
        if self._mode is Mode.WRITE:
            user_id = None if record.user_id == APP_WIDE else record.user_id
            self._report.miss(
                Unread(
                    reason=f"memory {record.draft.memory_id[:100]!r}: {reason}",
                    app_name=record.app_name,
                    user_id=user_id,
                )
            )

    async def bury(self, tombstone: TombstoneRecord) -> None:
        """Deletes the memory of an event for good, if there is one, and remembers that."""
        await self.flush()
        key: SessionKey = {
            "app_name": tombstone.app_name,
            "user_id": tombstone.user_id,
            "session_id": tombstone.session_id,
        }
        event_id = tombstone.event_id
        try:
            require_storable(**key, event_id=event_id)
        except InvalidInput as exc:
            if self._mode is Mode.WRITE:
                self._report.miss(Unread(reason=str(exc), app_name=tombstone.app_name))
            return
        if self._mode is Mode.WRITE:

            async def work(transaction: Transaction) -> None:
                await transaction.fetch(memory_statements.lock_session(**key))
                await transaction.fetch(statements.bury_event(**key, event_id=event_id))
                await transaction.fetch(
                    statements.insert_tombstone(
                        **key, event_id=event_id, needed_at=tombstone.needed_at
                    )
                )

            await self._database.run.transact(work)

    async def settle(self, settings: AppSettingsRecord) -> None:
        """Gives an app the settings that it has none of."""
        if self._mode is not Mode.WRITE:
            return
        try:
            require_storable(app_name=settings.app_name)
        except InvalidInput as exc:
            self._report.miss(Unread(reason=str(exc)))
            return
        config = settings.text_search_config
        name, dimensions = settings.model or (None, None)

        if name is not None and dimensions is not None:
            await registered(self._database, name, dimensions)

        async def work(transaction: Transaction) -> bool:
            rows = await transaction.fetch(
                statements.settle_app(
                    app_name=settings.app_name,
                    text_search_config=config,
                    extract_facts=settings.extract_facts,
                )
            )
            if name is not None and dimensions is not None:
                await transaction.fetch(
                    statements.activate_model(
                        app_name=settings.app_name, model=name, dimensions=dimensions
                    )
                )
            return bool(rows[0]["known"])

        if not await self._database.run.transact(work):
            self._report.note(
                f"Postgres has no text search configuration {config!r} here, which app "
                f"{settings.app_name!r} had; each text's script chooses instead."
            )

    async def flush(self) -> None:
        """Does what is to be done with what came so far."""
        waiting, self._waiting = self._waiting, {}
        if not waiting or self._scope is None or self._mode is Mode.COUNT:
            return
        scope: ScopeKey = {"app_name": self._scope[0], "user_id": self._scope[1]}
        records = list(waiting.values())
        if self._mode is Mode.VERIFY:
            await self._verify(scope, records)
            return

        async def work(transaction: Transaction) -> int:
            return await self._write(transaction, scope, records)

        try:
            self._report.memories_written += await self._database.run.transact(work)
        except InvalidInput as exc:
            if len(records) == 1:
                self._miss(records[0], str(exc))
                return
            for record in records:  # one of them is too large
                self._waiting = {record.draft.memory_id: record}
                await self.flush()

    async def _write(
        self, transaction: Transaction, scope: ScopeKey, records: Sequence[MemoryRecord]
    ) -> int:
        sessions = sorted({record.draft.session_id for record in records} | {""})
        for session_id in sessions:
            await transaction.fetch(memory_statements.lock_session(**scope, session_id=session_id))
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
            plan.insert.append((position, draft))
            written.append(record)
        events = [record for record in written if record.draft.event_id is not None]
        barred = {
            (row["session_id"], row["event_id"])
            for row in await transaction.fetch(
                statements.select_barred(
                    **scope,
                    session_ids=[record.draft.session_id for record in events],
                    event_ids=[str(record.draft.event_id) for record in events],
                    memory_ids=[record.draft.memory_id for record in events],
                )
            )
        }
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
                memory_ids=[record.draft.memory_id for record in records],
                created=[record.created_at for record in records],
                superseded=[record.superseded_by for record in records],
                extracted=[record.extracted_at for record in records],
            )
        )
        pairs = [
            (record.draft.memory_id, origin) for record in records for origin in record.origins
        ]
        await transaction.fetch(
            statements.insert_origins(
                **scope,
                memory_ids=[memory_id for memory_id, _ in pairs],
                origin_ids=[origin for _, origin in pairs],
            )
        )
        return len(plan.insert) + len(plan.alter)

    async def _found(
        self, transaction: Transaction, scope: ScopeKey, records: Sequence[MemoryRecord]
    ) -> dict[str, Any]:
        rows = await transaction.fetch(
            statements.select_stored(
                **scope, memory_ids=[record.draft.memory_id for record in records]
            )
        )
        return {row["memory_id"]: row for row in rows}

    async def _verify(self, scope: ScopeKey, records: Sequence[MemoryRecord]) -> None:
        rows = await self._database.run.fetch(
            statements.select_stored(
                **scope, memory_ids=[record.draft.memory_id for record in records]
            )
        )
        found = {row["memory_id"]: row for row in rows}
        known = {
            (row["session_id"], row["event_id"])
            for row in await self._database.run.fetch(
                statements.select_barred(
                    **scope,
                    session_ids=[record.draft.session_id for record in records],
                    event_ids=[record.draft.event_id or "" for record in records],
                    memory_ids=[record.draft.memory_id for record in records],
                )
            )
        }
        for record in records:
            draft = record.draft
            row = found.get(draft.memory_id)
            if row is None and (draft.session_id, draft.event_id) not in known:
                self._report.differing.add(f"Memory {draft.memory_id!r} is not stored.")
            elif row is not None and row["digest"] != draft.digest:
                self._report.differing.add(f"Memory {draft.memory_id!r} differs from the export's.")


def _same_attributes(row: Any, draft: Draft) -> bool:
    return bool(
        same_json(row["custom_metadata"] or "null", draft.custom_metadata or "null")
        and same_json(row["topics"], draft.topics)
        and abs(row["importance"] - draft.importance) < 1e-6
        and row["expires_at"] == draft.expires_at
    )
