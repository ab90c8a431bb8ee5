"""Search: one question put to the memories of a user and of the app."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time

from adkpg.database import Database, Prompt, Source, Subject, Transaction
from adkpg.errors import DatabaseUnavailable, ModelError
from adkpg.keys import APP_WIDE
from adkpg.limits import require_rows, require_size
from adkpg.memory import records
from adkpg.memory.filters import parameters_of
from adkpg.memory.records import Memory
from adkpg.memory.search import hits, statements
from adkpg.memory.search.counts import KEPT_S, UNKNOWN, Counts
from adkpg.memory.search.cues import Cues, cues_of
from adkpg.memory.search.hits import ROWS_PER_HIT, Found, Group, Hit, grouped
from adkpg.memory.search.options import SearchOptions
from adkpg.memory.search.ranking import RANKING, Asked, Evidence, Ranked, Ranking
from adkpg.memory.search.reranking import reranked
from adkpg.memory.search.statements import EvidenceParameters
from adkpg.memory.search.updates import newest_first
from adkpg.memory.tokenizer import script_config, searchable
from adkpg.memory.vectors import statements as vector_statements
from adkpg.memory.vectors.vectors import Vectors
from adkpg.outages.deadline import abandon, ended
from adkpg.outages.health import Health
from adkpg.queries import Query, RowT
from adkpg.reranking.guarded import GuardedReranker
from adkpg.timestamps import zone_of

logger = logging.getLogger(__name__)

AskedT = TypeVar("AskedT", bound=Mapping[str, Any])

# A node that is back is asked again soon: while it is away it refuses at once.
_LONGEST_PAUSE_S = 10.0

_MORE_PASSAGES = 20  # times as many are compared where those that were are of few memories


@dataclass(frozen=True)
class _Answer:
    """What the database found.

    Attributes:
      app_name: Where it was asked.
      scopes: Whose memories were, the user's first.
      question: What was asked.
      groups: What hits are made of, the best first.
      most: How many hits at most are wanted.
      words_alone: As in `Reason`.
      own_alone: Likewise.
    """

    app_name: str
    scopes: list[str]
    question: str
    groups: list[Group]
    most: int
    words_alone: str | None
    own_alone: str | None


class Search:
    """Answers questions. It keeps what one answer says of how the next is to be found.

    Args:
      database: Where the memories are.
      vectors: The embedder's; None searches words only.
      reranker: Orders the best hits; None leaves them as they are.
      ranking: The constants.
    """

    def __init__(
        self,
        database: Database,
        vectors: Vectors | None,
        reranker: GuardedReranker | None = None,
        ranking: Ranking = RANKING,
    ) -> None:
        self._database = database
        self._ranking = ranking
        self._vectors = vectors
        self._reranker = reranker
        # By the scopes of a search, when to look again which of them the HNSW index holds.
        self._indexed: dict[tuple[str, ...], tuple[float, frozenset[str]]] = {}
        self._looked_for_waiting: dict[str, float] = {}  # by app, when
        self._counts = Counts()
        self._app_wide: dict[str, Health] = {}  # by app, that of the node that has what it knows
        self._inactive: dict[str, str] = {}  # by app, what is wrong with its model
        self._said_waiting = False

    async def hits(
        self, app_name: str, user_id: str, query: str, options: SearchOptions
    ) -> list[Hit]:
        """Does what `PgVectorMemoryService.search` says.

        Args:
          app_name: The app.
          user_id: The user, or the reserved id of the app-wide scope.
          query: Any text.
          options: How to answer.
        """
        answer = await self._answer(app_name, user_id, query, options)
        return [] if answer is None else await self._hits(answer, options)

    async def entries(
        self, app_name: str, user_id: str, query: str, options: SearchOptions
    ) -> list[MemoryEntry]:
        """Returns the memories of the hits, as ADK has them; its arguments are those of `hits`."""
        answer = await self._answer(app_name, user_id, query, options)
        if answer is None:
            return []
        if self._changes_memories(options):
            return [hit.memory.plain() for hit in await self._hits(answer, options)]
        # No hit need be made, which takes a fifth of the time that a short search takes here.
        return [group.entry() for group in answer.groups[: answer.most]]

    async def _answer(
        self, app_name: str, user_id: str, query: str, options: SearchOptions
    ) -> _Answer | None:
        """Asks; None if there is no question."""
        settings, filters = (
            self._database.settings,
            parameters_of(options.filters, zone_of(options.time_zone)),
        )
        lists = (filters["authors"], filters["session_ids"], filters["topics"])
        sought = [each for texts in lists for each in texts or ()]
        require_size(settings, "max_query_kb", "The question", query, filters["metadata"], *sought)
        require_rows(settings, "top_k", options.top_k)
        text = records.storable_text(query)
        if not text:
            return None
        scopes = [user_id, APP_WIDE] if options.app_wide and user_id != APP_WIDE else [user_id]
        words = searchable(text)[: records.WORDS_LIMIT]
        vectors = self._vectors if options.mode != "text" else None
        query_vector: str | None = None
        words_alone: str | None = None
        if vectors is not None:
            try:
                query_vector = await vectors.of_query(text, app_name=app_name)
            except ModelError as exc:
                if options.mode == "vector":
                    raise
                if vectors.guarded.news("searches", exc):
                    logger.warning("The search answers by words alone: %s", exc)
                vectors, words_alone = None, str(exc)
        cues = _cues(text, options)
        parameters: EvidenceParameters = {
            "app_name": app_name,
            "user_id": user_id,
            "also_user_id": scopes[-1],
            "top_k": options.top_k,
            "invocation_id": options.exclude_invocation_id,
            "query": words,
            "script": script_config(words),
            "config": settings.text_search_config,
            "query_vector": query_vector,
            "model": "" if vectors is None else vectors.embedder.model,
            "dimensions": 0 if vectors is None else vectors.embedder.dimensions,
            "inactive": options.inactive_model,
            "wordiness": cues.wordiness,
            "since": [since for since, _ in cues.times.spans],
            "until": [until for _, until in cues.times.spans],
            "first": cues.times.first,
            "passages": self._ranking.passages,
            "exact_user_ids": scopes,
            "approximate_user_ids": [],
            **filters,
            **UNKNOWN,
        }
        shape = statements.Shape(
            lexical=options.mode != "vector",
            vector=vectors is not None,
            large=vectors is not None and vectors.large,
            filters=options.filters.shape,
            dated=bool(cues.times) and options.mode != "vector",
        )
        asked = Asked(
            lexical=shape.lexical,
            weight=0.0 if vectors is None else vectors.weight(text, self._ranking.foreign),
            by_user=None if cues.speaker is None else cues.speaker == "user",
            wordiness=cues.wordiness,
            half_life_s=None if options.half_life is None else options.half_life.total_seconds(),
            min_relevance=options.min_relevance,
        )
        most = (
            min(self._ranking.gathered, settings.max_results) if options.gather else options.top_k
        )
        wanted = most
        if self._reranker is not None and options.rerank:
            wanted = max(wanted, settings.rerank_candidates)

        async def ask(source: Source) -> tuple[list[Group], str | None]:
            evidence: Evidence | None = None
            answers: list[Any] = []
            ranked: list[Ranked] = []
            own_alone: str | None = None
            groups: list[Group] = []
            known: dict[int, Any] = {}
            looked_for = 0
            for more in ROWS_PER_HIT:
                chosen = math.ceil(more * wanted)
                # As many candidates would be the same ones.
                if evidence is None or looked_for < max(self._ranking.candidates, chosen):
                    looked_for = max(self._ranking.candidates, chosen)
                    wider: EvidenceParameters = {**parameters, "top_k": chosen}
                    answers, own_alone = await self._of_scopes(
                        source, wider, partial(self._evidence, vectors, shape)
                    )
                    evidence = Evidence.of(answers, self._ranking)
                    ranked = evidence.ranked(asked, self._ranking)
                best = ranked[:chosen]
                found = statements.select_found(
                    **filters,
                    invocation_id=options.exclude_invocation_id,
                    app_name=app_name,
                    user_id=user_id,
                    also_user_id=scopes[-1],
                    positions=[each.position for each in best if each.position not in known],
                    query_vector=query_vector,
                    model_id=answers[0]["compared_model"],
                )
                if found.parameters["positions"]:
                    rows, away = await self._of_query(source, found)
                    own_alone = own_alone or away
                    known |= {row["position"]: row for row in rows}
                # What has gone since is left out.
                groups = grouped(
                    [
                        Found(known[each.position], each, evidence)
                        for each in best
                        if each.position in known
                    ],
                    text,
                )
                if len(groups) >= wanted or len(best) < chosen:
                    break
            return groups, own_alone

        subject = Subject(app_name, user_id, memories=True)
        groups, own_alone = await self._database.run.read(ask, subject)
        if vectors is not None and not options.inactive_model:
            words_alone = self._inactive.get(app_name)
        drawn = {group.memory_id: group.drawn for group in groups if group.drawn}
        compared = [group.compared() for group in groups]
        groups = [
            groups[place].scored(score)
            for place, score in newest_first(
                compared, text if shape.lexical else None, drawn, self._ranking
            )
        ]
        return _Answer(app_name, scopes, text, groups[:wanted], most, words_alone, own_alone)

    def _changes_memories(self, options: SearchOptions) -> bool:
        """Whether hits are cut, left out or put in another order before a caller has them."""
        reranks = self._reranker is not None and options.rerank
        return reranks or options.passages or options.gather or options.max_tokens is not None

    async def _hits(self, answer: _Answer, options: SearchOptions) -> list[Hit]:
        settings = self._database.settings
        found = [
            group.hit(words_alone=answer.words_alone, own_alone=answer.own_alone)
            for group in answer.groups
        ]
        # Not by memory_id: a user's memory and the app's may have the same.
        positions = {
            id(hit.memory): group.position for hit, group in zip(found, answer.groups, strict=True)
        }
        if self._reranker is not None and options.rerank:
            most = settings.rerank_candidates
            found = await reranked(self._reranker, answer.question, found, most=most)
        found = found[: answer.most]
        if options.neighbours and found:
            around = found
            found = await self._database.run.read(
                lambda source: self._with_neighbours(source, answer, around, positions, options),
                Subject(answer.app_name, answer.scopes[0], memories=True),
            )
        if options.passages:
            found = list(map(hits.by_passage, found))
        if options.gather:
            places: dict[str | None, int] = {
                each.memory_id: each.position for each in answer.groups
            }
            return hits.gathered(found, options.max_tokens or self._ranking.gathered_tokens, places)
        if options.max_tokens is not None:
            found = hits.within_budget(found, options.max_tokens)
        return found

    async def _evidence(
        self,
        vectors: Vectors | None,
        shape: statements.Shape,
        source: Source,
        parameters: EvidenceParameters,
    ) -> list[Any]:
        app_name = parameters["app_name"]
        scopes = (parameters["user_id"], parameters["also_user_id"])
        known = self._counts.of(app_name, scopes) if shape.lexical else UNKNOWN
        parameters = {**parameters, **known}
        if vectors is not None:
            rows = await self._with_vectors(source, vectors, shape, parameters)
        else:
            rows = await source.fetch(statements.evidence(shape, self._ranking, **parameters))
        if shape.lexical and known is UNKNOWN:
            self._counts.learn(app_name, scopes, rows[0])
        return rows

    async def _of_query(self, source: Source, query: Query[RowT]) -> tuple[list[RowT], str | None]:
        return await self._of_scopes(
            source,
            query.parameters,
            lambda source, own: source.fetch(Query(query.statement, own)),
        )

    async def _of_scopes(
        self,
        source: Source,
        parameters: AskedT,
        ask: Callable[[Source, AskedT], Awaitable[list[Any]]],
    ) -> tuple[list[Any], str | None]:
        """Asks the user's scope and the app's: at once, unless these are on several nodes.

        Args:
          source: What answers.
          parameters: The statement's parameters for both scopes together.
          ask: Asks for rows.

        Returns:
          The rows, the user's first, and why the app's are missing, if they are.
        """
        scopes = (parameters["user_id"], parameters["also_user_id"])
        if scopes[0] == scopes[1] or not await self._database.installation.is_distributed():
            return await ask(source, parameters), None
        own, app_wide = (_of_scope(parameters, scope) for scope in scopes)
        if "positions" in app_wide and not app_wide["positions"]:
            return await ask(source, own), None
        answers, own_alone = await self._of_both(
            parameters["app_name"], lambda: ask(source, own), lambda prompt: ask(prompt, app_wide)
        )
        return list(chain.from_iterable(answers)), own_alone

    async def _of_both(
        self,
        app_name: str,
        own: Callable[[], Awaitable[list[Any]]],
        of_app: Callable[[Source], Awaitable[list[Any]]],
    ) -> tuple[list[list[Any]], str | None]:
        """Asks for rows of the user's and of the app's simultaneously.

        If the app's node is away, the user's answer alone, and for a while the app's is not asked:
        of a node that is lost only its own users wait.

        Args:
          app_name: The app.
          own: Asks for the user's.
          of_app: Asks for the app's, where it is said at once that a node is away.

        Returns:
          The answers, the user's first, and why the app's is missing, if it is.
        """
        node = self._app_wide.setdefault(app_name, Health(longest_pause_s=_LONGEST_PAUSE_S))
        limit_s = self._database.settings.search_timeout_s
        permit = node.admit(limit_s)
        if permit is None:
            return [await own()], node.cause

        prompt = Prompt(self._database)

        async def asked() -> list[Any] | DatabaseUnavailable:
            try:
                return await of_app(prompt)
            except DatabaseUnavailable as exc:
                return exc

        asking = asyncio.create_task(asked())
        answered_at = math.inf
        try:
            answers = [await own()]
            answered_at = time.monotonic()
            left_s = limit_s
            while left_s > 0 and not asking.done():
                if prompt.queued and node.opened_since(permit):
                    await abandon(asking)
                    return answers, node.cause
                await ended(asking, left_s)
                left_s = prompt.left_s(limit_s)
            found = asking.result() if asking.done() and not asking.cancelled() else None
        except BaseException as exc:  # a cancellation, too, leaves no task, and is raised on
            since = max(answered_at, prompt.borrowed_at)
            waited = isinstance(exc, asyncio.CancelledError) and since < time.monotonic()
            if waited and not prompt.queued and node.gave_up(since):
                cause = (
                    f"the memories of app {app_name!r} itself did not come before callers gave up."
                )
                _leave_out(app_name, node, permit, cause)
            else:
                node.withdrawn(permit)
            await abandon(asking)
            raise
        if isinstance(found, list):
            node.answered()
            return [*answers, found], None
        if found is None:
            cause = (
                f"the memories of app {app_name!r} itself did not come within {limit_s:g} s after "
                "the user's own memories; see adkpg doctor, or raise ADKPG_SEARCH_TIMEOUT_S."
            )
        else:
            cause = str(found)
        _leave_out(app_name, node, permit, cause)
        await abandon(asking)
        return answers, cause

    async def _with_vectors(
        self,
        source: Source,
        vectors: Vectors,
        shape: statements.Shape,
        parameters: EvidenceParameters,
    ) -> list[Any]:
        app_name = parameters["app_name"]
        scopes = list(dict.fromkeys((parameters["user_id"], parameters["also_user_id"])))
        key = (app_name, *scopes)
        indexed = await self._held(source, key, parameters)
        candidates = max(self._ranking.candidates, parameters["top_k"])
        # An index cannot be walked so far that filters hide nothing, nor for very many.
        if indexed and not shape.filters and candidates <= vector_statements.MOST_APPROXIMATE:
            shape = replace(shape, approximate=await vectors.numbered_model())
            parameters["approximate_user_ids"] = sorted(indexed)
            parameters["exact_user_ids"] = [each for each in scopes if each not in indexed]

            async def search(transaction: Transaction) -> list[Any]:
                await transaction.fetch(
                    vector_statements.tune_search(
                        app_name=app_name,
                        user_id=parameters["user_id"],
                        ef_search=str(vector_statements.ef_search(candidates)),
                    )
                )
                query = statements.evidence(shape, self._ranking, **parameters)
                return await transaction.fetch(query)

            rows = await source.transact(search)
        else:
            parameters["passages"] = max(parameters["passages"], 5 * candidates)
            rows = await source.fetch(statements.evidence(shape, self._ranking, **parameters))
            while rows[0]["crowded"]:
                parameters["passages"] *= _MORE_PASSAGES
                rows = await source.fetch(statements.evidence(shape, self._ranking, **parameters))
        row = rows[0]
        # Of large scopes no more vectors than some are looked at to tell what is usual.
        most = self._ranking.sampled_of(large=shape.large)
        if not indexed and row["seen"] >= most:
            self._indexed.setdefault(key, (0.0, frozenset()))
        # By vectors alone memories are not counted.
        if row["size"] is None or row["seen"] < min(row["size"], most):
            await self._warn_of_waiting(source, parameters)
        if parameters["inactive"]:
            return rows
        if rows[0]["active_model"] not in (None, (await vectors.numbered_model())[0]):
            await self._say_not_active(vectors, app_name, required=not shape.lexical)
        else:
            self._inactive.pop(app_name, None)
        return rows

    async def _held(
        self, source: Source, key: tuple[str, ...], parameters: EvidenceParameters
    ) -> frozenset[str]:
        """Returns which scopes the HNSW index holds; of large ones, looked up once a minute."""
        if key not in self._indexed:
            return frozenset()
        until_s, held = self._indexed[key]
        if until_s < time.monotonic():
            rows = await source.fetch(
                statements.select_indexed(
                    **_scopes(parameters),
                    model=parameters["model"],
                    dimensions=parameters["dimensions"],
                )
            )
            held = frozenset(row["user_id"] for row in rows)
            self._indexed[key] = time.monotonic() + KEPT_S, held
        return held

    async def _warn_of_waiting(self, source: Source, parameters: EvidenceParameters) -> None:
        """Says once that memories wait for a worker which does not come; looks once a minute."""
        app_name = parameters["app_name"]
        last_s = self._looked_for_waiting.get(app_name, -math.inf)
        if self._said_waiting or time.monotonic() < last_s + KEPT_S:
            return
        self._looked_for_waiting[app_name] = time.monotonic()
        (row,) = await source.fetch(statements.select_waiting(**_scopes(parameters)))
        if row["waiting"]:
            self._said_waiting = True
            logger.warning(
                "Memories of app %r have waited for a vector for over a minute and are found by "
                "their words alone, since no worker came to them; run adkpg worker, or "
                "memory.run_worker() in a task of this process, or see what its log says.",
                app_name,
            )

    async def _say_not_active(self, vectors: Vectors, app_name: str, *, required: bool) -> None:
        """Raises that the app has another model, or says so once and lets words alone answer."""
        if required:
            await vectors.require_active(app_name)
        elif app_name not in self._inactive:
            active = await self._database.run.fetch_one(
                vector_statements.select_active_model(app_name=app_name)
            )
            if active is not None:
                error = vectors.not_active(app_name, active["name"], active["dimensions"])
                self._inactive[app_name] = str(error)
                logger.warning("Searches answer by words alone: %s", error)

    async def _with_neighbours(
        self,
        source: Source,
        answer: _Answer,
        found: list[Hit],
        positions: dict[int, int],
        options: SearchOptions,
    ) -> list[Hit]:
        scopes = answer.scopes
        wanted = statements.select_neighbours(
            app_name=answer.app_name,
            user_id=scopes[0],
            also_user_id=scopes[-1],
            invocation_id=options.exclude_invocation_id,
            positions=[positions[id(hit.memory)] for hit in found],
            reach=options.neighbours,
        )
        rows, _ = await self._of_query(source, wanted)
        around: dict[int, list[Memory]] = {}
        for row in rows:
            around.setdefault(row["of_position"], []).append(records.memory(row))
        return [
            replace(hit, neighbours=tuple(around.get(positions[id(hit.memory)], ())))
            for hit in found
        ]


def _leave_out(app_name: str, node: Health, permit: int, cause: str) -> None:
    """Has searches answer without what an app knows for a while, and says so once."""
    said = node.is_said
    if node.failed(permit, cause) and not said:
        logger.warning(
            "Searches answer without the memories that app %r shares with all its users: %s",
            app_name,
            cause,
        )


def _scopes(parameters: EvidenceParameters) -> statements.ScopesKey:
    return {
        "app_name": parameters["app_name"],
        "user_id": parameters["user_id"],
        "also_user_id": parameters["also_user_id"],
    }


def _of_scope(parameters: AskedT, user_id: str) -> AskedT:
    """Asks one of the scopes, for a database that has them on several nodes."""
    own: Any = {**parameters, "user_id": user_id, "also_user_id": user_id}
    if "exact_user_ids" in parameters:
        own |= {"exact_user_ids": [user_id], "approximate_user_ids": []}
    if "positions" in parameters:
        shared = user_id == APP_WIDE
        own["positions"] = [each for each in parameters["positions"] if (each < 0) == shared]
    return own  # type: ignore[no-any-return] # the same TypedDict, of other values


def _cues(text: str, options: SearchOptions) -> Cues:
    """The times and the speaker that the question names."""
    if options.mode == "vector":
        return Cues()
    now = options.now or datetime.fromtimestamp(
        platform_time.get_time(), zone_of(options.time_zone)
    )
    return cues_of(text, now)
