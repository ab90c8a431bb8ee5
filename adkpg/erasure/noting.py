"""Noting: entries of the audit about what goes in batches, one for each app."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from adkpg.audit import Audit
from adkpg.database import Database
from adkpg.keys import APP_WIDE


@asynccontextmanager
async def noting(
    database: Database, *, action: str, user_id: str | None
) -> AsyncIterator[Callable[[Iterable[str]], Awaitable[None]]]:
    """Yields what notes that rows of some apps are about to go; at the end, how that ended.

    Args:
      database: Where.
      action: What is done.
      user_id: Whose rows go; None are those of many, which is noted of the app.
    """
    audit = Audit(database)
    begun: set[str] = set()
    async with AsyncExitStack() as entries:

        async def begin(app_names: Iterable[str]) -> None:
            for app_name in sorted(set(app_names) - begun):
                begun.add(app_name)
                await entries.enter_async_context(
                    audit.recording(
                        app_name=app_name,
                        user_id=None if user_id == APP_WIDE else user_id,
                        action=action,
                    )
                )

        yield begin
