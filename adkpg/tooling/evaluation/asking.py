"""Asking: a system's answers to questions, and the places of what answers them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from adkpg.memory import records
from adkpg.memory.search import hits
from adkpg.memory.search.options import SearchOverrides
from adkpg.memory.service import PgVectorMemoryService
from adkpg.tooling.evaluation.dataset import Question, Store
from adkpg.tooling.evaluation.embedder import MeasuredEmbedder
from adkpg.tooling.evaluation.figures import DEPTH, RESAMPLES, Outcome, Report
from adkpg.tooling.evaluation.texts import folded

Told = Callable[[str, int, int], None]
"""Is told what is done, how much, and of how much."""


def silent(what: str, done: int, total: int) -> None:
    """Shows nothing."""


@dataclass(frozen=True)
class Found:
    """A hit, as figures need it.

    Attributes:
      names: Ids that evidence may name it by.
      text: What it says.
      cost: What it costs a model, in tokens.
      short_cost: What its passage alone costs, if it has one; else None.
      session_id: Where it was said; None if the system does not tell.
    """

    names: frozenset[str]
    text: str
    cost: int
    short_cost: int | None = None
    session_id: str | None = None


@dataclass(frozen=True)
class Recalled:
    """What came back for a question.

    Attributes:
      hits: The best first.
      search_s: How long the search took, without the question's embedding.
      embedding_s: How long that took.
      words_alone: Whether vectors had no part though they were asked for.
      own_alone: Whether what the app knows had no part though it was asked for, as its hits say.
      fused_alone: Whether a reranker had no part though it was asked for.
    """

    hits: tuple[Found, ...]
    search_s: float
    embedding_s: float = 0.0
    words_alone: bool = False
    own_alone: bool = False
    fused_alone: bool = False


class System(Protocol):
    """Whatever recalls."""

    async def ask(self, user_id: str | None, question: Question) -> Recalled:
        """Asks a user's memory for the `DEPTH` best hits."""


class Memory:
    """A memory service, asked in one way.

    Args:
      service: The service.
      app_name: The app that is asked about.
      embedder: The service's, if it is measured: the question's embedding is then timed apart.
      overrides: How to search, such as ``mode``.
    """

    def __init__(
        self,
        service: PgVectorMemoryService,
        app_name: str,
        *,
        embedder: MeasuredEmbedder | None = None,
        overrides: SearchOverrides | None = None,
    ) -> None:
        self._service = service
        self._app_name = app_name
        self._overrides: SearchOverrides = {**(overrides or {}), "top_k": DEPTH}
        self._embedder = None if self._overrides.get("mode") == "text" else embedder

    async def ask(self, user_id: str | None, question: Question) -> Recalled:
        """Does what `System.ask` says; what is gathered comes by its score, not in time's order."""
        if self._embedder is not None:
            await self._embedder.embed_query(question.text)  # the search below finds it there
        overrides: SearchOverrides = {**self._overrides, "now": question.moment}
        begin = time.perf_counter()
        found = await self._service.search(
            app_name=self._app_name,
            user_id=user_id,
            query=question.text,
            **overrides,
        )
        search_s = time.perf_counter() - begin
        if self._overrides.get("gather"):
            found = sorted(found, key=lambda hit: hit.score, reverse=True)
        return Recalled(
            hits=tuple(_found(hit) for hit in found),
            search_s=search_s,
            embedding_s=self._embedder.seconds[question.text] if self._embedder else 0.0,
            words_alone=any(hit.reason.words_alone for hit in found),
            own_alone=any(hit.reason.own_alone for hit in found),
            fused_alone=any(hit.reason.fused_alone for hit in found),
        )


def _found(hit: hits.Hit) -> Found:
    memory = hit.memory
    names = {memory.id, memory.event_id, *hit.folded}
    return Found(
        names=frozenset(name for name in names if name),
        text=records.text_of(memory.content),
        cost=hits.tokens(memory),
        short_cost=hits.tokens(hits.by_passage(hit).memory),
        session_id=memory.session_id,
    )


@dataclass(frozen=True)
class Asked:
    """What one system did with all questions.

    Attributes:
      outcomes: Those of the questions that something answers, in their order.
      foreign: Numbers of hits of the same questions, asked of another store.
      unanswerable: Numbers of hits of the questions that nothing answers.
    """

    outcomes: tuple[Outcome, ...]
    foreign: tuple[int, ...]
    unanswerable: tuple[int, ...]

    def report(self, resamples: int = RESAMPLES) -> Report:
        """Returns the figures."""
        return Report.of(
            self.outcomes,
            foreign=self.foreign,
            unanswerable=self.unanswerable,
            resamples=resamples,
        )


async def ask(
    name: str,
    system: System,
    stores: Sequence[Store],
    *,
    user_id: str | None = None,
    told: Told = silent,
) -> Asked:
    """Asks a system all questions of some stores, one after the other.

    Args:
      name: What the progress calls it.
      system: What is asked.
      stores: One that has conversations is remembered as the user of its name; each of its
        questions is asked of the next one, too, where nothing answers it. What is said to be asked
        at no time is asked at the end of the conversation.
      user_id: Whose memories other questions are about that do not say it themselves; None is what
        the app knows.
      told: Is told the progress.
    """
    total = sum(len(store.questions) for store in stores)
    outcomes: list[Outcome] = []
    foreign: list[int] = []
    unanswerable: list[int] = []
    done = 0
    told(f"{name}: questions asked", done, total)
    for place, store in enumerate(stores):
        other = stores[(place + 1) % len(stores)]
        sessions = {turn.id: chat.id for chat in store.chats for turn in chat.turns}
        end = max((turn.moment for chat in store.chats for turn in chat.turns), default=None)
        for question in store.questions:
            question = replace(question, moment=question.moment or end)
            own = store.name if store.chats else question.user_id or user_id
            recalled = await system.ask(own, question)
            if question.answerable:
                outcomes.append(outcome(question, recalled, sessions))
                if store.chats and other is not store:
                    foreign.append(len((await system.ask(other.name, question)).hits))
            else:
                unanswerable.append(len(recalled.hits))
            done += 1
            told(f"{name}: questions asked", done, total)
    return Asked(tuple(outcomes), tuple(foreign), tuple(unanswerable))


def outcome(question: Question, recalled: Recalled, sessions: Mapping[str, str]) -> Outcome:
    """Returns the places of what answers a question.

    Args:
      question: One that something answers.
      recalled: What came back.
      sessions: By turn, the session that it lies in; empty where unknown.
    """
    first: dict[str, int] = {}
    first_session: dict[str, int] = {}
    for rank, hit in enumerate(recalled.hits, 1):
        for name in hit.names:
            first.setdefault(name, rank)
            session_id = hit.session_id or sessions.get(name)
            if session_id is not None:
                first_session.setdefault(session_id, rank)
    by_name = first_session if question.level == "session" else first
    texts = [folded(hit.text) for hit in recalled.hits] if question.contains else []
    ranks = [by_name.get(name) for name in question.evidence]
    for wanted in map(folded, question.contains):
        ranks.append(next((rank for rank, text in enumerate(texts, 1) if wanted in text), None))
    return Outcome(
        category=question.category,
        ranks=tuple(ranks),
        session_ranks=tuple(first_session.get(name) for name in question.sessions),
        costs=tuple(hit.cost for hit in recalled.hits),
        short_costs=tuple(hit.short_cost or hit.cost for hit in recalled.hits),
        search_s=recalled.search_s,
        embedding_s=recalled.embedding_s,
        words_alone=recalled.words_alone,
        own_alone=recalled.own_alone,
        fused_alone=recalled.fused_alone,
    )
