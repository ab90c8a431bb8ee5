"""Ledger: the stored facts of users, read and changed as a whole."""

import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from google.adk.platform import uuid as platform_uuid
from google.genai import types

from adkpg import jsontext
from adkpg.database import Database, Transaction
from adkpg.errors import ExtractionError
from adkpg.facts import statements
from adkpg.facts.extractor import Extraction, KnownFact, Summary, Turn
from adkpg.facts.merging import Changes, Limits, merged, normalized_topics
from adkpg.memory.attributes import Attributes
from adkpg.memory.drafts import Draft, new_draft
from adkpg.memory.queue import statements as job_statements
from adkpg.memory.write import statements as write_statements
from adkpg.memory.write.apply import apply
from adkpg.memory.write.plan import Plan, new_place
from adkpg.sql import ScopeParameters

_LOCK = "\x01facts"  # in the place of a session id: one writer of a user's facts at a time


@dataclass(frozen=True)
class Known:
    """Facts of a user.

    Attributes:
      live: Those that are known, by time.
      past: Superseded and expired ones, by time.
      rows: Each of them as it is stored, by id.
    """

    live: list[KnownFact] = field(default_factory=list)
    past: list[KnownFact] = field(default_factory=list)
    rows: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """The turns and facts that an extractor is given.

    Attributes:
      turns: Turns of one session, by position.
      digests: The digest of each turn, by its id.
      known: Facts that it is told.
    """

    turns: list[Turn]
    digests: dict[str, str]
    known: list[KnownFact] = field(default_factory=list)


class Changed(ExtractionError):
    """Memories that an extractor was given are gone, or others, so its answer is worth nothing."""


class Ledger:
    """Reads and writes facts and summaries.

    Args:
      database: Where the memories are.
      limits: Bounds of what one extraction may store.
    """

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits

    async def known(self, scope: ScopeParameters, limit: int) -> list[KnownFact]:
        """Returns live facts of a user, at most `limit`."""
        rows = await self._database.fetch(statements.select_known(), {**scope, "limit": limit})
        return _known(rows).live

    async def named(self, scope: ScopeParameters, memory_ids: list[str]) -> list[KnownFact]:
        """Returns those facts of a user that are live, in the order of their ids as given."""
        rows = await self._database.fetch(
            statements.select_named(), {**scope, "memory_ids": memory_ids}
        )
        by_id = {fact.memory_id: fact for fact in _known(rows).live}
        return [by_id[memory_id] for memory_id in memory_ids if memory_id in by_id]

    async def context(
        self, scope: ScopeParameters, session_id: str, rows: Sequence[Any], reach: int
    ) -> Asked:
        """Returns claimed turns of a session, and those before them as already read.

        Args:
          scope: The user.
          session_id: Their session.
          rows: As claimed.
          reach: How many turns before each.
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
        return _asked(found, new)

    async def apply(self, scope: ScopeParameters, asked: Asked, extraction: Extraction) -> Changes:
        """Writes what an extraction changes and ends the turns' jobs, in one transaction.

        The turns are marked as read with it. Turns that were read by somebody else since they were
        claimed count for nothing.

        Raises:
          Changed: A text that the extractor was given is gone, or another.
        """
        async with self._database.transaction() as transaction:
            await transaction.fetch(write_statements.lock_session(), {**scope, "session_id": _LOCK})
            known = _known(
                await transaction.fetch(
                    statements.select_to_merge(),
                    {
                        **scope,
                        "since": min(turn.timestamp for turn in asked.turns),
                        "within_s": self._database.settings.job_lease_s,
                    },
                )
            )
            held = await self._hold(
                transaction, scope, asked, known, self._merged(extraction, asked.turns, known)
            )
            if held is None:
                raise Changed(
                    "Memories were changed while facts were drawn from them; they are read again.",
                    extraction.usage,
                )
            turns = [
                replace(turn, read=turn.read or not held[turn.memory_id]["waiting"])
                for turn in asked.turns
            ]
            changes = self._merged(extraction, turns, known)
            await self._write(transaction, scope, changes, known, held)
            done = [turn.memory_id for turn in turns if not turn.read]
            await transaction.fetch(statements.mark_extracted(), {**scope, "memory_ids": done})
            await transaction.fetch(
                job_statements.end(),
                {
                    **scope,
                    "task": "extract",
                    "positions": [held[memory_id]["position"] for memory_id in done],
                },
            )
        return changes

    async def session(self, scope: ScopeParameters, session_id: str) -> Asked:
        """Returns the turns that a session has in memory."""
        return _asked(
            await self._database.fetch(
                statements.select_session_turns(), {**scope, "session_id": session_id}
            )
        )

    async def summary(self, scope: ScopeParameters, session_id: str) -> Any:
        """Returns the row of a session's summary, with its provenance; None if there is none."""
        return await self._database.fetch_one(
            statements.select_summary(), {**scope, "session_id": session_id}
        )

    async def put_summary(
        self, scope: ScopeParameters, session_id: str, asked: Asked, summary: Summary
    ) -> None:
        """Writes a session's summary in the place of the one before.

        Raises:
          Changed: The session was changed since it was read.
        """
        async with self._database.transaction() as transaction:
            await transaction.fetch(write_statements.lock_session(), {**scope, "session_id": _LOCK})
            origins = list(asked.digests)
            held = await self._hold_provenance(transaction, scope, origins)
            if {memory_id: row["digest"] for memory_id, row in held.items()} != asked.digests:
                raise Changed(
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
                timestamp=max(turn.timestamp for turn in asked.turns),
            )
            replaced = [row["position"] for row in old]
            place = replaced[0] if replaced else new_place(scope["user_id"])
            plan = Plan(delete=replaced, insert=[(place, draft)])
            provenance = {draft.memory_id: tuple(origins)}
            await self._put(transaction, scope, plan, provenance, origins)

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
        scope: ScopeParameters,
        asked: Asked,
        known: Known,
        planned: Changes,
    ) -> dict[str, Any] | None:
        """Locks all that the extractor was given and what is to be changed; returns their rows.

        None if any of it is gone or another. Provenance comes before what was drawn from it, the
        order in which they are erased.
        """
        changed = {fact.memory_id for fact in planned.updated} | set(planned.superseded)
        drawn = [*asked.known, *(fact for fact in known.live if fact.memory_id in changed)]
        origins = {origin for fact in drawn for origin in fact.provenance} | set(asked.digests)
        held = await self._hold_provenance(transaction, scope, sorted(origins))
        given = {fact.memory_id for fact in asked.known}
        facts = await transaction.fetch(
            statements.lock_memories(), {**scope, "memory_ids": sorted(given | changed)}
        )
        if len(held) < len(origins) or len(facts) < len(given | changed):
            return None
        same = all(held[turn]["digest"] == digest for turn, digest in asked.digests.items())
        return held if same else None

    async def _hold_provenance(
        self, transaction: Transaction, scope: ScopeParameters, memory_ids: list[str]
    ) -> dict[str, Any]:
        """Locks memories, by their sessions first as those who erase them; returns their rows."""
        wanted: write_statements.IdsParameters = {**scope, "memory_ids": memory_ids}
        for row in await transaction.fetch(statements.select_session_ids(), wanted):
            await transaction.fetch(
                write_statements.lock_session(), {**scope, "session_id": row["session_id"]}
            )
        rows = await transaction.fetch(statements.lock_memories(), wanted)
        return {row["memory_id"]: row for row in rows}

    async def _write(
        self,
        transaction: Transaction,
        scope: ScopeParameters,
        changes: Changes,
        known: Known,
        held: dict[str, Any],
    ) -> None:
        plan = Plan()
        for fact in (stated := (*changes.updated, *changes.added)):
            row = known.rows.get(fact.memory_id)
            draft = _draft(
                kind="fact",
                memory_id=fact.memory_id,
                text=fact.text,
                topics=fact.topics,
                importance=fact.importance,
                timestamp=fact.timestamp,
                expires_at=row and row["expires_at"],
            )
            if row is not None:
                plan.delete.append(row["position"])
            place = new_place(scope["user_id"]) if row is None else row["position"]
            plan.insert.append((place, draft))
        provenance = {fact.memory_id: fact.provenance for fact in stated}
        await self._put(transaction, scope, plan, provenance, list(held))
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
        scope: ScopeParameters,
        plan: Plan,
        provenance: dict[str, tuple[str, ...]],
        given: list[str],
    ) -> None:
        """Writes facts or summaries, with their provenance among the turns that were given."""
        await apply(transaction, scope, plan, self._database.settings.text_search_config)
        pairs = [(memory_id, origin) for memory_id, ids in provenance.items() for origin in ids]
        if pairs:
            memory_ids, origin_ids = map(list, zip(*pairs, strict=True))
            await transaction.fetch(
                statements.insert_provenance(),
                {**scope, "memory_ids": memory_ids, "origin_ids": origin_ids},
            )
            written: write_statements.IdsParameters = {**scope, "memory_ids": list(provenance)}
            await transaction.fetch(statements.insert_repeated(), {**written, "origin_ids": given})
            await transaction.fetch(statements.end_with_provenance(), written)


def _known(rows: Sequence[Any]) -> Known:
    known = Known()
    for row in rows:
        fact = KnownFact(
            memory_id=row["memory_id"],
            text=row["body"],
            importance=row["importance"],
            topics=tuple(jsontext.read(row["topics"])),
            provenance=tuple(row["provenance"]),
            timestamp=row["timestamp"],
            superseded_by=row["superseded_by"],
        )
        (known.live if row["live"] else known.past).append(fact)
        known.rows[fact.memory_id] = row
    return known


def _asked(rows: Sequence[Any], new: AbstractSet[str] | None = None) -> Asked:
    """Returns turns as an extractor is given them; all of them are new if none is named."""
    turns = []
    for row in rows:
        spoken: str = row["body"]
        turns.append(
            Turn(
                memory_id=row["memory_id"],
                event_id=row["event_id"],
                author=row["author"],
                timestamp=row["timestamp"],
                text=spoken.removeprefix(f"{row['author']}: ") if row["author"] else spoken,
                read=new is not None and row["memory_id"] not in new,
            )
        )
    return Asked(turns, {row["memory_id"]: row["digest"] for row in rows})


def _draft(
    *,
    kind: str,
    memory_id: str,
    text: str,
    topics: Sequence[str],
    importance: float,
    timestamp: datetime,
    session_id: str = "",
    expires_at: datetime | None = None,
) -> Draft:
    return new_draft(
        kind=kind,
        memory_id=memory_id,
        session_id=session_id,
        author=None,
        timestamp=timestamp,
        content=types.Content(role="model", parts=[types.Part(text=text)]),
        text=text,
        given=Attributes(
            topics=json.dumps(list(topics)), importance=importance, expires_at=expires_at
        ),
    )
