"""Erasing for good: a person, a session, and memories that expired or are too many."""

from adkpg.erasure.person import Erased, forget
from adkpg.erasure.pruning import Pruned, erase_expired, prune

__all__ = ["Erased", "Pruned", "erase_expired", "forget", "prune"]
