"""Extracting: drawing facts as a worker does it."""

import logging
from dataclasses import dataclass

from adkpg.errors import ExtractorUnavailable
from adkpg.facts.service import Facts
from adkpg.memory.queue.jobs import Jobs

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Extracting:
    """Draws facts from the turns that wait for it (see `adkpg.memory.queue.worker.Work`).

    Attributes:
      facts: With an extractor.
      jobs: The queue of its task.
      name: What the log calls it.
    """

    facts: Facts
    jobs: Jobs
    name: str = "extraction"

    async def due_users(self) -> list[tuple[str, str]]:
        """Returns users with turns that no facts were drawn from yet."""
        return await self.jobs.due_users()

    async def work(self, app_name: str, user_id: str) -> int:
        """Draws facts from one batch of turns; returns how many it was.

        Raises:
          ExtractorUnavailable: The extractor does not answer now.
        """
        report = await self.facts.extract(app_name=app_name, user_id=user_id, batches=1)
        if report.unavailable:
            raise ExtractorUnavailable(report.errors[-1], report.usage)
        for error in report.errors:
            logger.warning("Extraction for a user of app %r is tried later: %s", app_name, error)
        return report.turns
