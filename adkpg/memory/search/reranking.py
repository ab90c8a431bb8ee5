"""Reranking: a reranker's look at the best hits of a search."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from adkpg.errors import ModelError
from adkpg.memory import records
from adkpg.memory.search.hits import Hit
from adkpg.reranking.guarded import GuardedReranker

logger = logging.getLogger(__name__)


async def reranked(
    reranker: GuardedReranker, question: str, hits: Sequence[Hit], *, most: int
) -> list[Hit]:
    """Returns the hits with the best in a reranker's order; in their own, if it fails or is late.

    Its scores are scaled to [0, 1] over what it saw, and recency and importance are factors of
    them, as they are of the fused score. Hits that it scores alike stay as they are, and so do
    those that it did not see, below all others.

    Args:
      reranker: Is shown ``author: text`` of each, of a long one the passage that matched.
      question: What was asked.
      hits: The best first.
      most: How many it sees.
    """
    seen, rest = hits[:most], list(hits[most:])
    if not seen:
        return rest
    try:
        scores = await reranker.scores(question, [_passage(hit) for hit in seen])
    except ModelError as exc:
        if reranker.news(exc):
            logger.warning("The search keeps its own order: %s", exc)
        why = str(exc)
        return [replace(hit, reason=replace(hit.reason, fused_alone=why)) for hit in hits]
    found = [
        replace(hit, reason=replace(hit.reason, rerank=score))
        for hit, score in zip(seen, scores, strict=True)
    ]
    lowest, highest = min(scores), max(scores)
    if lowest < highest:
        below = max((hit.score for hit in rest), default=0.0)
        span = highest / 2 - lowest / 2  # halves, since the whole may be beyond a float
        for place, score in enumerate(scores):
            reason = found[place].reason
            scaled = (score / 2 - lowest / 2) / span * reason.recency * reason.importance
            found[place] = replace(found[place], score=below + scaled)
        found.sort(key=lambda hit: -hit.score)
    return found + rest


def _passage(hit: Hit) -> str:
    """Returns what a hit says, as it is embedded; of a long memory, the part that matched."""
    text = hit.reason.passage or records.text_of(hit.memory.content)
    return f"{hit.memory.author}: {text}" if hit.memory.author else text
