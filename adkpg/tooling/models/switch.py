"""The switch: the one transaction that changes the model an app is searched with."""

from dataclasses import dataclass

from adkpg.database import Database, Transaction
from adkpg.errors import ConfigurationError
from adkpg.tooling.models import statements


@dataclass(frozen=True)
class Lacking:
    """How many of an app's memories have no vector of a model.

    Attributes:
      memories: All that the app has.
      lacking: Those without.
    """

    memories: int
    lacking: int


async def lacking(database: Database, app_name: str, model_id: int) -> Lacking:
    """Counts an app's memories and those without a vector of a model."""
    row = await database.run.fetch_one(
        statements.count_covered(app_name=app_name, model_id=model_id),
        timeout_s=database.settings.migration_timeout_s,
    )
    assert row is not None
    return Lacking(row["memories"], row["memories"] - row["covered"])


async def switch(
    database: Database, app_name: str, model_id: int, *, queue: bool
) -> tuple[int | None, int]:
    """Makes a model the active one of an app, and queues the memories that lack its vector.

    Vectors are stored before it or after it, never meanwhile: `vector_statements.store_vectors`
    holds the app's settings, and stores nothing of a model that is not active. Memories that are
    written meanwhile are queued by their own statement. Idempotent.

    Args:
      database: Where the app is.
      app_name: The app.
      model_id: The model's number.
      queue: Whether memories may lack a vector.

    Returns:
      The model that was active before, and how many memories lack a vector. If those may not be,
      nothing was changed.

    Raises:
      ConfigurationError: The model was dropped meanwhile.
    """
    database.run.require_every_scope()
    timeout_s = database.settings.migration_timeout_s  # an app may have millions of memories

    async def switch(transaction: Transaction) -> tuple[int | None, int]:
        if not await transaction.fetch(
            statements.hold_model(model_id=model_id), timeout_s=timeout_s
        ):
            raise ConfigurationError(
                f"The model that app {app_name!r} was to be searched with was dropped meanwhile; "
                "add it again."
            )
        before = (await transaction.fetch(statements.lock_app(app_name=app_name)))[0]["model_id"]
        (found,) = await transaction.fetch(
            statements.lock_lacking(app_name=app_name, model_id=model_id), timeout_s=timeout_s
        )
        missing: int = found["lacking"]
        if missing and not queue:
            return before, missing
        for query in (
            statements.queue_lacking(app_name=app_name, model_id=model_id),
            statements.renew_jobs(app_name=app_name),
            statements.end_covered_jobs(app_name=app_name, model_id=model_id),
            statements.set_active(app_name=app_name, model_id=model_id),
        ):
            await transaction.fetch(query, timeout_s=timeout_s)
        return before, missing

    return await database.run.transact(switch)
