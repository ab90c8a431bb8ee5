"""Ledger: the stored facts of users, read and changed as a whole."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from google.adk.platform import uuid as platform_uuid
from google.genai import types

from adkpg import jsonb
from adkpg.database import Database, Transaction
from adkpg.errors import ExtractionError
from adkpg.facts import statements
from adkpg.facts.extractor import Extraction, KnownFact, Summary, Turn
from adkpg.facts.merging import Changes, Limits, merged, normalized_topics
from adkpg.memory.attributes import Attributes
from adkpg.memory.drafts import Draft, new_draft
from adkpg.memory.queue import statements as job_statements
from adkpg.memory.write import statements as memory_statements
from adkpg.memory.write.apply import apply
from adkpg.memory.write.plan import Plan, new_place

_LOCK = "\x01facts"  # in the place of a session id: one writer of a user's facts at a time


@dataclass(frozen=True)
class Known:
    """All facts of a user.

    Attributes:
      live: What is known, by time.
      past: What was superseded or has expired, by time.
      positions: Where each of them is, by id.
    """

    live: list[KnownFact]
    past: list[KnownFact]
    positions: dict[str, int]


class Ledger:
    """Reads and writes facts and summaries.

    Args:
      database: Where the memories are.
      limits: Bounds of what one extraction may store.
    """

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits

    async def known(self, scope: dict[str, str]) -> Known:
        """Returns all facts of a user."""
        return _known(await self._database.fetch(statements.select_facts(), scope))

    async def context(
        self, scope: dict[str, str], session_id: str, rows: Sequence[Any], reach: int
    ) -> tuple[list[Turn], dict[str, str]]:
        """Returns claimed turns of a session, and those before them as already read.

        Args:
          scope: The user.
          session_id: Their session.
          rows: As claimed.
          reach: How many turns before each.

        Returns:
          The turns by position, and the digest of each by its id.
        """
        found = await self._database.fetch(
            statements.select_context(),
            {
                **scope,
                "session_id": session_id,
                "positions": [row["position"] for row in rows],
                "reach": reach,
            },
        )
        new = {row["memory_id"] for row in rows}
        turns = [_turn(row, read=row["memory_id"] not in new) for row in found]
        return turns, {row["memory_id"]: row["digest"] for row in found}

    async def apply(
        self,
        scope: dict[str, str],
        turns: Sequence[Turn],
        digests: dict[str, str],
        extraction: Extraction,
    ) -> Changes:
        """Writes what an extraction changes and ends the turns' jobs, in one transaction.

        Turns that were replaced, erased, or read by somebody else since they were claimed count
        for nothing; so nothing is kept of a text that is gone.
        """
        async with self._database.transaction() as transaction:
            await transaction.fetch(
                memory_statements.lock_session(), {**scope, "session_id": _LOCK}
            )
            before = _known(await transaction.fetch(statements.select_facts(), scope))
            planned = self._merged(extraction, turns, before)
            held = await self._hold(transaction, scope, turns, planned, before)
            present = {
                row["memory_id"]: row
                for row in held
                if digests.get(row["memory_id"]) == row["digest"]
            }
            valid = [
                replace(turn, read=turn.read or not present[turn.memory_id]["waiting"])
                for turn in turns
                if turn.memory_id in present
            ]
            after = _known(await transaction.fetch(statements.select_facts(), scope))
            changes = self._merged(extraction, valid, after)
            await self._write(transaction, scope, changes, after.positions)
            done = [turn.memory_id for turn in valid if not turn.read]
            await transaction.fetch(
                job_statements.complete(),
                {
                    **scope,
                    "task": "extract",
                    "positions": [present[memory_id]["position"] for memory_id in done],
                },
            )
        return changes

    async def session(
        self, scope: dict[str, str], session_id: str
    ) -> tuple[list[Turn], dict[str, str]]:
        """Returns the turns that a session has in memory, and the digest of each by its id."""
        found = await self._database.fetch(
            statements.select_session_turns(), {**scope, "session_id": session_id}
        )
        return [_turn(row) for row in found], {row["memory_id"]: row["digest"] for row in found}

    async def summary(self, scope: dict[str, str], session_id: str) -> Any:
        """Returns the row of a session's summary, with its provenance; None if there is none."""
        return await self._database.fetch_one(
            statements.select_summary(), {**scope, "session_id": session_id}
        )

    async def put_summary(
        self,
        scope: dict[str, str],
        session_id: str,
        turns: Sequence[Turn],
        digests: dict[str, str],
        summary: Summary,
    ) -> None:
        """Writes a session's summary in the place of the one before.

        Raises:
          ExtractionError: The session was changed since it was read.
        """
        async with self._database.transaction() as transaction:
            await transaction.fetch(
                memory_statements.lock_session(), {**scope, "session_id": _LOCK}
            )
            provenance = [turn.memory_id for turn in turns]
            held = await self._hold_provenance(transaction, scope, provenance)
            if {row["memory_id"]: row["digest"] for row in held} != digests:
                raise ExtractionError(
                    f"Session {session_id!r} was changed while it was summed up; sum it up again.",
                    summary.usage,
                )
            old = await transaction.fetch(
                statements.select_summary(), {**scope, "session_id": session_id}
            )
            draft = _draft(
                kind="summary",
                memory_id=old[0]["memory_id"] if old else platform_uuid.new_uuid(),
                session_id=session_id,
                text=summary.text,
                topics=normalized_topics(summary.topics, self._limits),
                importance=0.5,
                timestamp=max(turn.timestamp for turn in turns),
            )
            position = old[0]["position"] if old else new_place(scope["user_id"])
            await self._put(
                transaction, scope, [(position, draft)], [row["position"] for row in old]
            )
            await self._say_provenance(transaction, scope, {draft.memory_id: tuple(provenance)})

    def _merged(self, extraction: Extraction, turns: Sequence[Turn], known: Known) -> Changes:
        return merged(
            extraction,
            turns,
            known.live,
            platform_uuid.new_uuid,
            past=known.past,
            limits=self._limits,
        )

    async def _hold(
        self,
        transaction: Transaction,
        scope: dict[str, str],
        turns: Sequence[Turn],
        planned: Changes,
        known: Known,
    ) -> list[Any]:
        """Locks the turns and all that is to be changed; returns the turns' rows.

        Provenance comes before what was drawn from them, the order in which they are erased.
        """
        facts = {fact.memory_id for fact in planned.updated} | set(planned.superseded)
        origins = {turn.memory_id for turn in turns}
        for fact in (*known.live, *planned.updated):
            if fact.memory_id in facts:
                origins.update(fact.provenance)
        held = await self._hold_provenance(transaction, scope, sorted(origins))
        await transaction.fetch(statements.lock_memories(), {**scope, "memory_ids": sorted(facts)})
        return held

    async def _hold_provenance(
        self, transaction: Transaction, scope: dict[str, str], memory_ids: Sequence[str]
    ) -> list[Any]:
        """Locks what is to be provenance, by its sessions first, as those who erase it do."""
        asked = {**scope, "memory_ids": list(memory_ids)}
        for row in await transaction.fetch(statements.select_session_ids(), asked):
            await transaction.fetch(
                memory_statements.lock_session(), {**scope, "session_id": row["session_id"]}
            )
        return list(await transaction.fetch(statements.lock_memories(), asked))

    async def _write(
        self,
        transaction: Transaction,
        scope: dict[str, str],
        changes: Changes,
        positions: dict[str, int],
    ) -> None:
        stated = (*changes.updated, *changes.added)
        rows = [
            (
                positions[fact.memory_id]
                if fact.memory_id in positions
                else new_place(scope["user_id"]),
                _draft(
                    kind="fact",
                    memory_id=fact.memory_id,
                    text=fact.text,
                    topics=fact.topics,
                    importance=fact.importance,
                    timestamp=fact.timestamp,
                ),
            )
            for fact in stated
        ]
        await self._put(
            transaction, scope, rows, [positions[fact.memory_id] for fact in changes.updated]
        )
        await self._say_provenance(
            transaction, scope, {fact.memory_id: fact.provenance for fact in stated}
        )
        superseded = dict(changes.superseded) | {
            fact.memory_id: fact.superseded_by for fact in changes.added if fact.superseded_by
        }
        if superseded:
            await transaction.fetch(
                statements.supersede(),
                {
                    **scope,
                    "memory_ids": list(superseded),
                    "by_ids": list(superseded.values()),
                },
            )

    async def _put(
        self,
        transaction: Transaction,
        scope: dict[str, str],
        rows: Sequence[tuple[int, Draft]],
        replaced: list[int],
    ) -> None:
        await apply(
            transaction,
            {"app_name": scope["app_name"], "user_id": scope["user_id"]},
            Plan(delete=replaced, insert=list(rows)),
            self._database.settings.text_search_config,
        )

    async def _say_provenance(
        self,
        transaction: Transaction,
        scope: dict[str, str],
        provenance: dict[str, tuple[str, ...]],
    ) -> None:
        pairs = [(memory_id, origin) for memory_id, ids in provenance.items() for origin in ids]
        if pairs:
            memory_ids, origin_ids = map(list, zip(*pairs, strict=True))
            await transaction.fetch(
                statements.insert_provenance(),
                {**scope, "memory_ids": memory_ids, "origin_ids": origin_ids},
            )


def _known(rows: Sequence[Any]) -> Known:
    known = Known([], [], {})
    for row in rows:
        fact = KnownFact(
            memory_id=row["memory_id"],
            text=row["body"],
            importance=row["importance"],
            topics=tuple(jsonb.read(row["topics"])),
            provenance=tuple(row["provenance"]),
            timestamp=row["timestamp"],
            superseded_by=row["superseded_by"],
        )
        (known.live if row["live"] else known.past).append(fact)
        known.positions[fact.memory_id] = row["position"]
    return known


def _turn(row: Any, *, read: bool = False) -> Turn:
    spoken: str = row["body"]
    text = spoken.removeprefix(f"{row['author']}: ") if row["author"] else spoken
    return Turn(row["memory_id"], row["event_id"], row["author"], row["timestamp"], text, read)


def _draft(
    *,
    kind: str,
    memory_id: str,
    text: str,
    topics: Sequence[str],
    importance: float,
    timestamp: datetime,
    session_id: str = "",
) -> Draft:
    return new_draft(
        kind=kind,
        memory_id=memory_id,
        session_id=session_id,
        author=None,
        timestamp=timestamp,
        content=types.Content(role="model", parts=[types.Part(text=text)]),
        text=text,
        given=Attributes(topics=json.dumps(list(topics)), importance=importance),
    )
