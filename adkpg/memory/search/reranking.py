"""Reranking: a reranker's look at the best hits of a search."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from adkpg.errors import RerankingError
from adkpg.memory import records
from adkpg.memory.search.hits import Hit
from adkpg.reranking.guarded import GuardedReranker

logger = logging.getLogger(__name__)


async def reranked(reranker: GuardedReranker, question: str, hits: Sequence[Hit]) -> list[Hit]:
    """Returns the hits in a reranker's order; in their own, if it fails or is late.

    Its scores are scaled to [0, 1] over the hits, and recency and importance are factors of them,
    as they are of the fused score. Hits that it scores alike stay as they are.

    Args:
      reranker: Is shown ``author: text`` of each, of a long one the passage that matched.
      question: What was asked.
      hits: The best first.
    """
    if not hits:
        return []
    try:
        scores = await reranker.scores(question, [_passage(hit) for hit in hits])
    except RerankingError as exc:
        if reranker.news(exc):
            logger.warning("The search keeps its own order: %s", exc)
        why = str(exc)
        return [replace(hit, reason=replace(hit.reason, fused_alone=why)) for hit in hits]
    lowest, highest = min(scores), max(scores)
    found = [
        replace(hit, reason=replace(hit.reason, rerank=score))
        for hit, score in zip(hits, scores, strict=True)
    ]
    if lowest == highest:
        return found
    span = highest / 2 - lowest / 2  # halves, since the whole may be beyond a float
    scaled = [
        replace(
            hit,
            score=(score / 2 - lowest / 2) / span * hit.reason.recency * hit.reason.importance,
        )
        for hit, score in zip(found, scores, strict=True)
    ]
    return sorted(scaled, key=lambda hit: -hit.score)


def _passage(hit: Hit) -> str:
    """Returns what a hit says, as it is embedded; of a long memory, the part that matched."""
    text = hit.reason.passage or records.text_of(hit.memory.content)
    return f"{hit.memory.author}: {text}" if hit.memory.author else text
