"""Cuts: what a search left out, and by which rule, found by asking again with one rule less."""

from dataclasses import dataclass, replace
from typing import Any

from adkpg.memory.filters import NO_FILTERS, SearchFilters
from adkpg.memory.records import Memory, text_of
from adkpg.memory.search.hits import Hit
from adkpg.memory.search.options import MAX_TOP_K, SearchOptions
from adkpg.memory.service import PgVectorMemoryService

_MORE = 40
_DEAD = 500
_SHOWN = 60


@dataclass(frozen=True)
class Cut:
    """A memory that was left out.

    Attributes:
      memory: The memory.
      rule: Which rule left it out, in words.
      score: What it would have had; None if that is not known.
      other: The id of the memory that the rule is about, which is named after it.
    """

    memory: Memory
    rule: str
    score: float | None
    other: str | None = None


async def cuts(
    memory: PgVectorMemoryService,
    *,
    app_name: str,
    user_id: str | None,
    query: str,
    options: SearchOptions,
    hits: list[Hit],
) -> list[Cut]:
    """Returns what came near and was left out, rule by rule.

    Args:
      memory: The service that answered.
      app_name: The app.
      user_id: The user; None is the app-wide scope.
      query: The question.
      options: How it was asked.
      hits: What the search returned.
    """
    found: list[Cut] = []
    known = {hit.memory.id for hit in hits}
    most = min(options.top_k + _MORE, MAX_TOP_K, memory.database.settings.max_results)

    async def further(rule: str, asked: SearchOptions) -> None:
        """Notes what is found now and was not before."""
        for hit in await _search(memory, app_name, user_id, query, asked):
            if hit.memory.id not in known:
                known.add(hit.memory.id)
                found.append(Cut(hit.memory, rule, hit.score))
            await folded(hit)

    async def folded(hit: Hit) -> None:
        for each in hit.folded:
            if each in known:
                continue
            known.add(each)
            near = await memory.get_memory(app_name=app_name, user_id=user_id, memory_id=each)
            if near is not None:
                found.append(Cut(near, "says the same as", None, hit.memory.id))

    for hit in hits:
        await folded(hit)
    if options.max_tokens is not None or options.gather:
        options = replace(options, max_tokens=None, gather=False)
        await further("does not fit the budget of tokens", options)
    wider = replace(options, top_k=most)
    await further(f"comes after the best {options.top_k} (top_k)", wider)
    lower = replace(wider, min_relevance=0.0)
    if options.min_relevance > 0:
        await further(f"is below min_relevance {options.min_relevance:g}", lower)
    if options.filters.asked:
        unfiltered = replace(lower, filters=NO_FILTERS)
        for hit in await _search(memory, app_name, user_id, query, unfiltered):
            alike = [
                await memory.get_memory(app_name=app_name, user_id=user_id, memory_id=each)
                for each in hit.folded
            ]
            for each in (hit.memory, *filter(None, alike)):
                if each.id not in known:
                    known.add(each.id)
                    rule = f"is cut by the filter of {_filter_of(each, options.filters)}"
                    found.append(Cut(each, rule, hit.score))
    found += await _dead(memory, app_name, user_id, query, known)
    return found[:_SHOWN]


async def _search(
    memory: PgVectorMemoryService,
    app_name: str,
    user_id: str | None,
    query: str,
    options: SearchOptions,
) -> list[Hit]:
    return await memory.search(
        app_name=app_name, user_id=user_id, query=query, **arguments(options)
    )


def arguments(options: SearchOptions) -> Any:
    """Returns options as a search takes them by name; those that are None are the service's."""
    return {name: value for name, value in vars(options).items() if value is not None}


def _filter_of(memory: Memory, filters: SearchFilters) -> str:
    """Names the first filter that a memory does not meet."""
    said = memory.timestamp or ""
    after, before = (filters.parameters.get(name) for name in ("after", "before"))
    if after is not None and said < after.isoformat():
        return "the earliest time"
    if before is not None and said >= before.isoformat():
        return "the latest time"
    if filters.kinds and memory.kind not in filters.kinds:
        return "kinds"
    if filters.authors and memory.author not in filters.authors:
        return "authors"
    if filters.session_ids and memory.session_id not in filters.session_ids:
        return "sessions"
    if filters.topics and not set(filters.topics) & set(memory.topics):
        return "topics"
    return "metadata"


async def _dead(
    memory: PgVectorMemoryService,
    app_name: str,
    user_id: str | None,
    query: str,
    known: set[str | None],
) -> list[Cut]:
    """Returns those of the newest memories that are over and have a word of the question."""
    words = {word for word in query.casefold().split() if len(word) > 2}
    limit = min(_DEAD, memory.database.settings.max_results)
    every, live = [
        await memory.list_memories(app_name=app_name, user_id=user_id, limit=limit, live=only)
        for only in (False, True)
    ]
    living = {each.id for each in live.items}
    last = min((each.timestamp or "" for each in live.items), default="")
    found = []
    for each in every.items:
        if each.id in known or each.id in living:
            continue
        if each.superseded_by is None and each.expires_at is None:
            continue
        if live.next_cursor is not None and (each.timestamp or "") < last:
            continue
        if words & set(text_of(each.content).casefold().split()):
            over = (
                f"ended at {each.expires_at}" if each.superseded_by is None else "was superseded by"
            )
            found.append(Cut(each, over, None, each.superseded_by))
    return found
