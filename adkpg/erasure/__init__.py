"""Erasing for good: a person, a session, and memories that expired or are too many."""

from adkpg.erasure.erasing import Erased, forget
from adkpg.erasure.pruning import Pruned, erase_expired, prune
from adkpg.erasure.retention import PrunedSessions, prune_sessions
from adkpg.erasure.tidying import Tidied, tidy

__all__ = [
    "Erased",
    "Pruned",
    "PrunedSessions",
    "Tidied",
    "erase_expired",
    "forget",
    "prune",
    "prune_sessions",
    "tidy",
]
