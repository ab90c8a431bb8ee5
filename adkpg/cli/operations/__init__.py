"""``adkpg stats``: what operators ask."""

from adkpg.cli.operations.stats import stats

__all__ = ["stats"]
