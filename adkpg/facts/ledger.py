"""Ledger: the stored facts of users, read and changed as a whole."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from google.adk.platform import uuid as platform_uuid
from google.genai import types

from adkpg import jsontext
from adkpg.database import Database, Transaction
from adkpg.errors import ModelError
from adkpg.facts import statements
from adkpg.facts.extractor import Extraction, KnownFact, Summary, Turn, Usage
from adkpg.facts.merging import Changes, Limits, merged, normalized_topics
from adkpg.keys import ScopeKey
from adkpg.memory.attributes import Attributes
from adkpg.memory.drafts import new_draft
from adkpg.memory.queue import statements as job_statements
from adkpg.memory.write import statements as write_statements
from adkpg.memory.write.apply import apply
from adkpg.memory.write.plan import Plan, new_place

_LOCK = "\x01facts"  # in the place of a session id: one writer of a user's facts at a time


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


class Changed(ModelError):
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

    async def known(
        self, scope: ScopeKey, *, limit: int, memory_ids: list[str] | None = None
    ) -> list[KnownFact]:
        """Returns live facts of a user by time, those with these ids or any."""
        rows = await self._database.run.fetch(
            statements.select_known(**scope, memory_ids=memory_ids, limit=limit)
        )
        return [_fact(row) for row in rows]

    async def turns(
        self,
        scope: ScopeKey,
        session_id: str,
        *,
        claimed: Sequence[Any] | None = None,
        reach: int = 0,
    ) -> Asked:
        """Returns turns that a session has in memory.

        Args:
          scope: The user.
          session_id: Their session.
          claimed: Rows of the turns to read; None is all of the session's.
          reach: How many turns before each of `claimed` come along, as already read.
        """
        rows = await self._database.run.fetch(
            statements.select_turns(
                **scope,
                session_id=session_id,
                positions=None if claimed is None else [row["position"] for row in claimed],
                reach=reach,
            )
        )
        new = {row["memory_id"] for row in (rows if claimed is None else claimed)}
        turns = [
            Turn(
                memory_id=row["memory_id"],
                event_id=row["event_id"],
                author=row["author"],
                timestamp=row["timestamp"],
                text=row["body"].removeprefix(f"{row['author']}: " if row["author"] else ""),
                read=row["memory_id"] not in new,
            )
            for row in rows
        ]
        return Asked(turns, {row["memory_id"]: row["digest"] for row in rows})

    async def apply(self, scope: ScopeKey, asked: Asked, extraction: Extraction) -> Changes:
        """Writes what an extraction changes and ends the turns' jobs, in one transaction.

        The turns are marked as read with it. Turns that another process has read since they were
        claimed count for nothing.

        Raises:
          Changed: A text that the extractor was given is gone, or another.
        """

        async def apply(transaction: Transaction) -> Changes:
            await transaction.fetch(write_statements.lock_session(**scope, session_id=_LOCK))
            rows = await transaction.fetch(
                statements.select_to_merge(
                    **scope,
                    since=min(turn.timestamp for turn in asked.turns),
                    within_s=self._database.settings.job_lease_s,
                )
            )
            live = [_fact(row) for row in rows if row["live"]]
            change = partial(
                merged,
                extraction,
                known=live,
                new_id=platform_uuid.new_uuid,
                past=[_fact(row) for row in rows if not row["live"]],
                limits=self._limits,
            )
            planned = change(asked.turns)
            changed = {fact.memory_id for fact in planned.updated} | planned.superseded.keys()
            facts = [*asked.known, *(fact for fact in live if fact.memory_id in changed)]
            held = await self._hold(transaction, scope, asked, facts, extraction.usage)
            turns = [
                replace(turn, read=turn.read or not held[turn.memory_id]["waiting"])
                for turn in asked.turns
            ]
            changes = change(turns)
            await self._write(
                transaction,
                scope,
                (*changes.updated, *changes.added),
                {row["memory_id"]: (row["position"], row["expires_at"]) for row in rows},
                list(held),
            )
            superseded = {
                **changes.superseded,
                **{new.memory_id: new.superseded_by for new in changes.added if new.superseded_by},
            }
            if superseded:
                await transaction.fetch(
                    statements.supersede(
                        **scope,
                        memory_ids=list(superseded),
                        related_ids=list(superseded.values()),
                    )
                )
            done = [turn.memory_id for turn in turns if not turn.read]
            await transaction.fetch(statements.mark_extracted(**scope, memory_ids=done))
            await transaction.fetch(
                job_statements.end(
                    **scope,
                    work="extract",
                    positions=[held[memory_id]["position"] for memory_id in done],
                )
            )
            return changes

        return await self._database.run.transact(apply)

    async def summary(self, scope: ScopeKey, session_id: str) -> Any:
        """Returns the row of a session's summary, with its provenance; None if there is none."""
        return await self._database.run.fetch_one(
            statements.select_summary(**scope, session_id=session_id)
        )

    async def put_summary(
        self, scope: ScopeKey, session_id: str, asked: Asked, summary: Summary
    ) -> None:
        """Writes a session's summary in the place of the one before.

        Raises:
          Changed: The session was changed since it was read.
        """

        async def put(transaction: Transaction) -> None:
            await transaction.fetch(write_statements.lock_session(**scope, session_id=_LOCK))
            held = await self._hold(transaction, scope, asked, (), summary.usage)
            old = await transaction.fetch(statements.select_summary(**scope, session_id=session_id))
            stated = KnownFact(
                memory_id=old[0]["memory_id"] if old else platform_uuid.new_uuid(),
                text=summary.text,
                importance=0.5,
                topics=normalized_topics(summary.topics, self._limits),
                provenance=tuple(held),
                timestamp=max(turn.timestamp for turn in asked.turns),
            )
            places = {row["memory_id"]: (row["position"], None) for row in old}
            await self._write(
                transaction,
                scope,
                [stated],
                places,
                list(held),
                kind="summary",
                session_id=session_id,
            )

        await self._database.run.transact(put)

    async def _hold(
        self,
        transaction: Transaction,
        scope: ScopeKey,
        asked: Asked,
        facts: Sequence[KnownFact],
        usage: Usage,
    ) -> dict[str, Any]:
        """Locks turns and facts, with what the facts were drawn from; returns the rows of origins.

        Sessions come first, as with those who erase memories of them, and provenance before what
        was drawn from it.

        Raises:
          Changed: Any of it is gone, or a turn is another.
        """
        origins = {origin for fact in facts for origin in fact.provenance} | asked.digests.keys()
        wanted = sorted(origins)
        for row in await transaction.fetch(
            statements.select_session_ids(**scope, memory_ids=wanted)
        ):
            await transaction.fetch(
                write_statements.lock_session(**scope, session_id=row["session_id"])
            )
        held = {
            row["memory_id"]: row
            for row in await transaction.fetch(statements.lock_memories(**scope, memory_ids=wanted))
        }
        known = {fact.memory_id for fact in facts}
        there = await transaction.fetch(statements.lock_memories(**scope, memory_ids=sorted(known)))
        if (
            len(held) < len(origins)
            or len(there) < len(known)
            or any(held[turn]["digest"] != digest for turn, digest in asked.digests.items())
        ):
            raise Changed(
                "Memories were changed while the extractor read them, and nothing was written; "
                "read them again.",
                usage,
            )
        return held

    async def _write(
        self,
        transaction: Transaction,
        scope: ScopeKey,
        facts: Sequence[KnownFact],
        places: Mapping[str, tuple[int, datetime | None]],
        given: list[str],
        *,
        kind: str = "fact",
        session_id: str = "",
    ) -> None:
        """Writes facts or summaries, with their provenance.

        Args:
          transaction: Holds their provenance.
          scope: The user.
          facts: As they are to be.
          places: Position and end of those that are stored already, by id.
          given: Ids of the turns whose words they may repeat.
          kind: What they are.
          session_id: The session that they sum up.
        """
        plan = Plan()
        for fact in facts:
            place, expires_at = places.get(fact.memory_id, (None, None))
            draft = new_draft(
                kind=kind,
                memory_id=fact.memory_id,
                session_id=session_id,
                author=None,
                timestamp=fact.timestamp,
                content=types.Content(role="model", parts=[types.Part(text=fact.text)]),
                text=fact.text,
                given=Attributes(
                    topics=json.dumps(fact.topics),
                    importance=fact.importance,
                    expires_at=expires_at,
                ),
            )
            if place is not None:
                plan.delete.append(place)
            plan.insert.append((new_place(scope["user_id"]) if place is None else place, draft))
        await apply(transaction, scope, plan, self._database.settings)
        pairs = [(fact.memory_id, origin) for fact in facts for origin in fact.provenance]
        if pairs:
            memory_ids, origins = map(list, zip(*pairs, strict=True))
            await transaction.fetch(
                statements.insert_provenance(**scope, memory_ids=memory_ids, related_ids=origins)
            )
            written = [fact.memory_id for fact in facts]
            await transaction.fetch(
                statements.insert_repeated(**scope, memory_ids=written, related_ids=given)
            )
            await transaction.fetch(statements.end_with_provenance(**scope, memory_ids=written))


def _fact(row: Any) -> KnownFact:
    return KnownFact(
        memory_id=row["memory_id"],
        text=row["body"],
        importance=row["importance"],
        topics=tuple(jsontext.read(row["topics"])),
        provenance=tuple(row["provenance"]),
        timestamp=row["timestamp"],
        superseded_by=row["superseded_by"],
    )
