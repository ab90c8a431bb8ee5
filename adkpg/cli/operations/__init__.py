"""``adkpg doctor`` and ``adkpg stats``: what operators ask."""

from adkpg.cli.operations.doctor import doctor
from adkpg.cli.operations.stats import stats

__all__ = ["doctor", "stats"]
