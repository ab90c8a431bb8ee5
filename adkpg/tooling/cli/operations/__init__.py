"""``adkpg apps``, ``adkpg audit``, ``adkpg doctor`` and ``adkpg stats``: what operators ask."""

from adkpg.tooling.cli.operations.apps import apps
from adkpg.tooling.cli.operations.audit import audit
from adkpg.tooling.cli.operations.doctor import doctor
from adkpg.tooling.cli.operations.stats import stats

__all__ = ["apps", "audit", "doctor", "stats"]
