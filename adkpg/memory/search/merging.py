"""Merging: the answers of a user's scope and the app's, where these are on several nodes. Pure.

Each is an answer of its own, whose scores are scaled over its own candidates. Here they are scaled
anew, over both: by the best score of words, and between the least and the greatest cosine.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from adkpg.memory.search.ranking import RANKING

Row = Mapping[str, Any]
"""A row as `adkpg.memory.search.statements.search` returns it."""


def merged(answers: Sequence[Sequence[Row]], top_k: int) -> list[Row]:
    """Returns the rows of several scopes as one answer, the best first.

    Args:
      answers: Of each scope its rows, as the search returned them.
      top_k: The most rows to return.

    Returns:
      The rows; the only scope's as they are, if no other one has any, and then one row at least.
    """
    filled = [rows for rows in answers if rows[0]["memory_id"] is not None]
    if len(filled) < 2:
        return list((filled or answers)[0])
    rows = [dict(row) for answer in filled for row in answer]
    best = max(row["lexical"] for row in rows)
    cosines = [row["cosine"] for row in rows if row["cosine"] is not None]
    for row in rows:
        told = row["dated"] + row["said_by"]
        if not best:
            score = row["cosine"]
        elif not cosines:
            score = row["lexical"] + best * told
        else:
            score = row["lexical"] / best + RANKING.vector * _meaning(row["cosine"], cosines) + told
        row["score"] = score * row["recency"] * row["importance_factor"]
    rows.sort(key=lambda row: (row["score"], row["timestamp"], row["position"]), reverse=True)
    return list(rows[:top_k])


def _meaning(cosine: float | None, cosines: Sequence[float]) -> float:
    low, high = min(cosines), max(cosines)
    return 0.0 if cosine is None or high == low else (cosine - low) / (high - low)
