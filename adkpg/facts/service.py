"""Facts: what is known of persons, kept up to date by an extractor."""

import asyncio
import logging
import textwrap
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from adkpg import scopes
from adkpg.embedding.failures import retry_after_s
from adkpg.errors import (
    ConfigurationError,
    ModelError,
    ModelUnavailable,
)
from adkpg.facts import statements
from adkpg.facts.extractor import (
    KnownFact,
    MemoryExtractor,
    Summarizer,
    Turn,
    Usage,
)
from adkpg.facts.ledger import Changed, Ledger
from adkpg.facts.merging import Limits
from adkpg.keys import ScopeKey, require_storable, storable
from adkpg.limits import require_rows
from adkpg.memory import records
from adkpg.memory.filters import SearchFilters
from adkpg.memory.queue.claims import Claims
from adkpg.memory.records import Memory, text_of
from adkpg.memory.service import PgVectorMemoryService
from adkpg.memory.statements import select_profile
from adkpg.memory.vectors.vectors import Vectors
from adkpg.outages.deadline import Overdue, answer_within
from adkpg.outages.proof import harmless, require_answer
from adkpg.telemetry.calls import UPSERT, on, traced

logger = logging.getLogger(__name__)

_TOGETHER = 2  # attempts after which a turn is read alone, so that it fails alone
_QUERY_CHARS = 1_000
_CLAIMED_FOR_ONE_SESSION = 1_000
_QUEUED_TOGETHER = 5_000  # by one statement, so that none takes as long as a whole app
_FIRST_POSITION = -(2**63)

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class ExtractionReport:
    """Counts of an extraction; sums with ``+``.

    Attributes:
      turns: Turns that facts were drawn from; they are not read again.
      failed: Turns that were given back after a failure.
      added: New facts.
      updated: Facts that were completed or corrected.
      superseded: Facts that are true no longer, those among the new ones included.
      dropped: How many operations of the extractor did nothing, by reason.
      usage: The tokens spent, on failures too.
      errors: What the failures say.
      unavailable: Whether the extractor does not answer now, whatever it is asked.
    """

    turns: int = 0
    failed: int = 0
    added: int = 0
    updated: int = 0
    superseded: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)
    errors: tuple[str, ...] = ()
    unavailable: bool = False

    def __add__(self, other: "ExtractionReport") -> "ExtractionReport":
        return ExtractionReport(
            self.turns + other.turns,
            self.failed + other.failed,
            self.added + other.added,
            self.updated + other.updated,
            self.superseded + other.superseded,
            self.dropped + other.dropped,
            self.usage + other.usage,
            self.errors + other.errors,
            self.unavailable or other.unavailable,
        )


@dataclass(frozen=True)
class ProfileFact:
    """One fact and what it rests on.

    Attributes:
      memory: The fact.
      provenance: The memories it was drawn from, by time.
    """

    memory: Memory
    provenance: tuple[Memory, ...]

    @property
    def text(self) -> str:
        """Its words."""
        return text_of(self.memory.content)


@dataclass(frozen=True)
class Profile:
    """The facts about a person.

    Attributes:
      facts: Live facts, the most important and then the latest first.
    """

    facts: tuple[ProfileFact, ...]

    @property
    def text(self) -> str:
        """The facts as a list of one line each; they are data, never instructions."""
        return "\n".join(f"- {fact.text}" for fact in self.facts)


@dataclass(frozen=True)
class SessionSummary:
    """The summary of a session.

    Attributes:
      memory: The summary; None if the session has nothing in memory.
      usage: The tokens spent; none if the summary was there already.
    """

    memory: Memory | None
    usage: Usage = field(default_factory=Usage)


@traced(
    extract=UPSERT,
    extract_pending=UPSERT,
    summarize=UPSERT,
    enable=on("app_settings"),
    disable=on("app_settings"),
    profile=on("memories"),
    topics=on("memories"),
    history=on("memories"),
)
class Facts:
    """Draws short facts from turns, merges them with what is known, and answers from them.

    A fact is a memory of kind ``fact``: recalled by every search, or by ``kinds=("fact",)`` alone.
    It names the turns it was drawn from, its provenance, and goes when one of them is erased or
    replaced, and ends when the first of them ends. A fact that is true no longer stays for audit
    (`history`) and is not recalled.

    Nothing is extracted until `enable` switches it on for an app; then each new turn waits for
    `extract_pending`, which a worker calls, or `extract`.

    Args:
      memory: Where the turns are remembered.
      extractor: Draws facts from turns. None only reads facts that are known.
      max_known: Most known facts that one request to the extractor carries, at least 1.
      batch_turns: Most turns of one session that one request asks about, at least 1.
      context_turns: How many turns before those come along to be understood by, from 0.
      limits: Bounds of what one request may store.

    Raises:
      ConfigurationError: An argument is out of range.
    """

    def __init__(
        self,
        memory: PgVectorMemoryService,
        *,
        extractor: MemoryExtractor | None = None,
        max_known: int = 60,
        batch_turns: int = 40,
        context_turns: int = 6,
        limits: Limits | None = None,
    ) -> None:
        if min(max_known, batch_turns) < 1 or context_turns < 0:
            raise ConfigurationError(
                "Facts need max_known and batch_turns of at least 1, and context_turns of at "
                "least 0."
            )
        self._memory = memory
        self._extractor = extractor
        self._max_known = max_known
        self._batch_turns = batch_turns
        self._context_turns = context_turns
        self._database = memory.database
        embedder = memory.embedder
        self._vectors = None if embedder is None else Vectors(memory.database, embedder)
        self._claims = Claims(memory.database, work="extract")
        self._ledger = Ledger(memory.database, limits or Limits())
        self._breaker = memory.database.breakers.of(extractor)

    def __repr__(self) -> str:
        drawn = None if self._extractor is None else type(self._extractor).__name__
        return f"Facts({self._memory!r}, extractor={drawn})"

    async def enable(self, app_name: str, *, past: bool = True) -> int:
        """Switches extraction on for an app, in all processes. Idempotent.

        Args:
          app_name: The app.
          past: Whether turns that are remembered already, and were never read, are read too.

        Returns:
          How many turns of the past wait now that did not before.

        Raises:
          InvalidInput: The name cannot be stored.
        """
        require_storable(app_name=app_name)
        self._database.run.require_every_scope()
        await self._database.run.fetch(statements.switch(app_name=app_name, on=True))
        queued, place = 0, ("", _FIRST_POSITION)
        while past:
            rows = await self._database.run.fetch(
                statements.queue_unread(
                    app_name=app_name,
                    after_user_id=place[0],
                    after_position=place[1],
                    limit=_QUEUED_TOGETHER,
                )
            )
            queued += sum(row["new"] for row in rows)
            if len(rows) < _QUEUED_TOGETHER:
                break
            place = (rows[-1]["user_id"], rows[-1]["position"])
        return queued

    async def disable(self, app_name: str) -> None:
        """Switches extraction off for an app, in all processes. Idempotent.

        Ends the wait of turns; facts that are known stay.

        Raises:
          InvalidInput: The name cannot be stored.
        """
        require_storable(app_name=app_name)
        self._database.run.require_every_scope()
        await self._database.run.fetch(statements.switch(app_name=app_name, on=False))
        some = statements.end_waiting(app_name=app_name, limit=_QUEUED_TOGETHER)
        while len(await self._database.run.fetch(some)) == _QUEUED_TOGETHER:
            pass

    async def extract(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str | None = None,
        batches: int | None = None,
    ) -> ExtractionReport:
        """Draws facts from the turns of one user that are due.

        The extractor is asked session by session, outside of any transaction. Its answer about one
        is written in one transaction, which also marks the turns as read: no turn is read twice.
        After a failure they wait for longer and longer, and the report tells why. An extractor that
        does not answer, or not within ``ADKPG_EXTRACTION_TIMEOUT_S``, is not asked for a while, by
        any caller. The pause grows from a second to five minutes.

        Args:
          app_name: The app.
          user_id: The user.
          session_id: This session only.
          batches: Most claims of `batch_turns` turns each; None takes all that is due.

        Raises:
          ConfigurationError: There is no extractor.
          DatabaseError: The server refused a statement or was lost; the turns wait on.
        """
        extractor = self._required()
        report = ExtractionReport()
        if not storable(app_name=app_name, user_id=user_id, session_id=session_id):
            return report
        if self._breaker.pause_s():
            return ExtractionReport(errors=(str(self._away()),), unavailable=True)
        limit = self._batch_turns if session_id is None else _CLAIMED_FOR_ONE_SESSION
        claims = 0
        while rows := await self._claims.claim(app_name, user_id, limit):
            left = list(rows)
            claims += 1
            try:
                for batch in self._batches(rows, session_id):
                    report += await self._read(extractor, app_name, user_id, batch)
                    left = [row for row in left if row not in batch]
                    if report.unavailable:
                        break
            finally:  # other sessions; or cancelled, or the model is down
                await self._claims.release(left)
            if session_id is not None or report.failed or len(rows) < limit or claims == batches:
                break
        if report.turns > report.failed:  # also if a lost answer hides what was written
            await self._embed(app_name, user_id)
        return report

    async def extract_pending(self) -> ExtractionReport:
        """Draws facts from all users' turns that are due, as `extract` does; for a worker.

        An extractor that does not answer ends it early.

        Raises:
          ConfigurationError: There is no extractor.
          DatabaseError: The server refused a statement or was lost; the turns wait on.
        """
        self._required()
        report = ExtractionReport()
        for app_name, user_id in await self._claims.due_users():
            with scopes.narrowed(app_name, user_id):
                report += await self.extract(app_name=app_name, user_id=user_id)
            if report.unavailable:
                break
        return report

    async def profile(
        self,
        *,
        app_name: str,
        user_id: str,
        topics: Sequence[str] | None = None,
        limit: int = 100,
    ) -> Profile:
        """Returns what is known of a person, the most important and then the latest first.

        Args:
          app_name: The app.
          user_id: The user.
          topics: Facts about any of these only.
          limit: Most facts, at least 1.

        Raises:
          InvalidInput: `limit` is below 1 or above ``ADKPG_MAX_RESULTS``, or `topics` is not a list
            of texts.
        """
        require_rows(self._database.settings, "limit", limit)
        about = SearchFilters(topics=topics or ()).parameters.get("topics")
        if not storable(app_name=app_name, user_id=user_id):
            return Profile(())
        scope: ScopeKey = {"app_name": app_name, "user_id": user_id}
        rows = await self._database.run.fetch(
            select_profile(**scope, topics=about, before=None, limit=limit)
        )
        provenance: dict[str, list[Memory]] = {row["memory_id"]: [] for row in rows}
        for row in await self._database.run.fetch(
            statements.select_provenance(**scope, memory_ids=list(provenance))
        ):
            provenance[row["of_memory_id"]].append(records.memory(row))
        return Profile(
            tuple(
                ProfileFact(records.memory(row), tuple(provenance[row["memory_id"]]))
                for row in rows
            )
        )

    async def topics(self, *, app_name: str, user_id: str) -> list[tuple[str, int]]:
        """Returns the topics of a user's live memories of any kind and how many each has."""
        if not storable(app_name=app_name, user_id=user_id):
            return []
        rows = await self._database.run.fetch(
            statements.count_topics(app_name=app_name, user_id=user_id)
        )
        return [(row["topic"], row["memories"]) for row in rows]

    async def history(self, *, app_name: str, user_id: str, memory_id: str) -> list[Memory]:
        """Returns a fact with what it replaced and what replaced it, in the order of their time.

        Each says in `superseded_by` what is true instead, and in `expires_at` since when that is
        known. Empty if there is no such fact.
        """
        if not storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            return []
        rows = await self._database.run.fetch(
            statements.select_history(app_name=app_name, user_id=user_id, memory_id=memory_id)
        )
        return [records.memory(row) for row in rows]

    async def summarize(self, *, app_name: str, user_id: str, session_id: str) -> SessionSummary:
        """Remembers what a session was about, as a memory of kind ``summary``.

        Its provenance is the session's turns: when one is erased or replaced, it goes. A summary of
        the same turns is returned as it is, without asking the model; one of fewer is replaced.

        Raises:
          ConfigurationError: The extractor cannot sum up, or there is none.
          ModelError: No usable answer, or the session changed meanwhile; nothing was written.
          InvalidInput: An id cannot be stored.
        """
        if not isinstance(self._extractor, Summarizer):
            raise ConfigurationError(
                "Facts need an extractor with a method summarize; give a FactExtractor."
            )
        require_storable(app_name=app_name, user_id=user_id, session_id=session_id)
        scope: ScopeKey = {"app_name": app_name, "user_id": user_id}
        asked = await self._ledger.turns(scope, session_id)
        if not asked.turns:
            return SessionSummary(None)
        old = await self._ledger.summary(scope, session_id)
        if old is not None and set(old["provenance"]) == asked.digests.keys():
            return SessionSummary(records.memory(old))
        summary = await self._answer(partial(self._extractor.summarize, asked.turns))
        await self._ledger.put_summary(scope, session_id, asked, summary)
        await self._embed(app_name, user_id)
        stored = await self._ledger.summary(scope, session_id)
        return SessionSummary(None if stored is None else records.memory(stored), summary.usage)

    def _required(self) -> MemoryExtractor:
        if self._extractor is None:
            raise ConfigurationError(
                "Facts have no extractor; give one, like FactExtractor('gemini-3.5-flash')."
            )
        return self._extractor

    def _batches(self, rows: Sequence[Any], session_id: str | None) -> list[list[Any]]:
        """Returns turns to be read together: of one session, in its order, the oldest first."""
        batches: list[list[Any]] = []
        sessions: dict[str, list[Any]] = {}
        for row in (row for row in rows if session_id in (None, row["session_id"])):
            batch = sessions.get(row["session_id"], [])
            if row["attempts"] > _TOGETHER:
                batches.append([row])
            elif batch and len(batch) < self._batch_turns:
                batch.append(row)
            else:
                sessions[row["session_id"]] = [row]
                batches.append(sessions[row["session_id"]])
        return sorted(batches, key=lambda batch: batch[0]["timestamp"])

    async def _read(
        self, extractor: MemoryExtractor, app_name: str, user_id: str, rows: Sequence[Any]
    ) -> ExtractionReport:
        """Draws facts from claimed turns of one session."""
        scope: ScopeKey = {"app_name": app_name, "user_id": user_id}
        asked = await self._ledger.turns(
            scope, rows[0]["session_id"], claimed=rows, reach=self._context_turns
        )
        # Erased or expired since they were claimed.
        await self._claims.complete([row for row in rows if row["memory_id"] not in asked.digests])
        if all(turn.read for turn in asked.turns):
            return ExtractionReport(turns=len(rows))
        try:
            asked = replace(asked, known=await self._related(scope, asked.turns))
            extraction = await self._answer(partial(extractor.extract, asked.turns, asked.known))
            changes = await self._ledger.apply(scope, asked, extraction)
        except ModelError as exc:
            refused = not isinstance(exc, (ModelUnavailable, Changed))
            await self._claims.fail(rows, exc, refused=refused)
            return ExtractionReport(
                failed=len(rows),
                usage=exc.usage if isinstance(exc.usage, Usage) else Usage(),
                errors=(str(exc),),
                unavailable=isinstance(exc, ModelUnavailable),
            )
        past = sum(fact.superseded_by is not None for fact in changes.added)
        return ExtractionReport(
            turns=len(rows),
            added=len(changes.added),
            updated=len(changes.updated),
            superseded=len(changes.superseded) + past,
            dropped=Counter(changes.dropped),
            usage=extraction.usage,
        )

    async def _related(self, scope: ScopeKey, turns: Sequence[Turn]) -> list[KnownFact]:
        """Returns the known facts that an extractor is told: all, or those nearest to the turns."""
        known = await self._ledger.known(scope, limit=self._max_known + 1)
        if len(known) <= self._max_known:
            return known
        ranked: dict[str, None] = {}
        said = "\n".join(turn.text[:_QUERY_CHARS] for turn in turns if not turn.read)
        for query in textwrap.wrap(said, _QUERY_CHARS):
            for hit in await self._memory.search(
                **scope,
                query=query,
                filters=SearchFilters(kinds=("fact",)),
                top_k=self._max_known,
                min_relevance=0.0,
                app_wide=False,
            ):
                ranked |= dict.fromkeys((str(hit.memory.id), *hit.folded))
        return await self._ledger.known(
            scope, limit=self._max_known, memory_ids=list(ranked)[: self._max_known]
        )

    async def _embed(self, app_name: str, user_id: str) -> None:
        if self._vectors is not None:
            await self._vectors.embed_quietly(app_name, user_id)

    def _away(self) -> ModelUnavailable:
        error = ModelUnavailable(
            f"{type(self._extractor).__name__} is away and not asked for another "
            f"{self._breaker.pause_s():.0f} s: {self._breaker.cause}"
        )
        error.asked = False
        return error

    async def _answer(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Returns the extractor's answer; whatever else than an ModelError it raises is one.

        Raises:
          ModelUnavailable: It does not answer now, not in time, or did not a moment ago.
        """
        timeout_s = self._database.settings.extraction_timeout_s
        permit = self._breaker.admit(timeout_s)
        if permit is None:
            raise self._away()
        try:
            answer = await answer_within(self._asked(ask), timeout_s)
        except asyncio.CancelledError:
            self._breaker.withdrawn(permit)
            raise
        except ModelUnavailable as exc:
            self._breaker.failed(permit, str(exc), at_least_s=retry_after_s(exc))
            raise
        except ModelError:
            self._breaker.answered()
            raise
        except (Overdue, ConnectionAbortedError) as exc:
            silent = ModelUnavailable(
                f"{type(self._extractor).__name__} gave no answer within {timeout_s:g} s; see why "
                "it is slow, or raise ADKPG_EXTRACTION_TIMEOUT_S."
                if isinstance(exc, Overdue)
                else f"{type(self._extractor).__name__} gave up by itself; see why it cancels."
            )
            self._breaker.failed(permit, str(silent))
            raise silent from exc
        self._breaker.answered()
        return answer

    async def _asked(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Asks; a failure without an answer is an outage unless a harmless turn is read."""
        try:
            return await self._called(ask)
        except ModelUnavailable:
            raise
        except ModelError as exc:
            if exc.__cause__ is not None and not isinstance(exc.__cause__, ModelError):
                turn = Turn("harmless", None, "user", datetime.now(UTC), harmless())
                await require_answer(
                    lambda: self._called(partial(self._required().extract, [turn], []))
                )
            raise

    async def _called(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            return await ask()
        except ModelError:
            raise
        except Exception as exc:
            raise ModelError(
                f"{type(self._extractor).__name__} failed with {type(exc).__name__}; fix the "
                "fault that its error, the cause of this one, names."
            ) from exc


@dataclass(frozen=True)
class Extracting:
    """Draws facts from the turns that wait for it (see `adkpg.memory.queue.worker.Work`).

    Attributes:
      facts: With an extractor.
      name: What the log calls it.
    """

    facts: Facts
    name: str = "extraction"

    def pause_s(self) -> float:
        """Returns for how many seconds the extractor is not asked, since it is away."""
        return self.facts._breaker.pause_s()

    def forgive(self) -> None:
        """Has an extractor that is away asked again now."""
        self.facts._breaker.forgive()

    async def due_users(self) -> list[tuple[str, str]]:
        """Returns users with turns that no facts were drawn from yet."""
        return await self.facts._claims.due_users()

    async def work(self, app_name: str, user_id: str) -> int:
        """Draws facts from one batch of turns; returns how many it was.

        Raises:
          ModelUnavailable: The extractor does not answer now.
        """
        if self.pause_s():
            raise self.facts._away()
        report = await self.facts.extract(app_name=app_name, user_id=user_id, batches=1)
        if report.unavailable:
            raise ModelUnavailable(report.errors[-1], report.usage)
        for error in report.errors:
            logger.warning("Extraction for a user of app %r is tried later: %s", app_name, error)
        return report.turns
