"""The HNSW index of a model, for users with very many memories."""

import time

from adkpg.database import Database
from adkpg.errors import ConfigurationError
from adkpg.memory.vectors import statements
from adkpg.scopes import narrowed

_BATCH = 100  # a quarter of a second: each finds its place among all that the index holds
_LONGEST_S = 300.0  # at a time, so that a worker's other chores have theirs


async def build_index(
    database: Database, model_id: int, dimensions: int, *, ahead: bool = False
) -> int:
    """Lists the users above the limit, marks their vectors, builds the index, opens it.

    The order keeps searches right at any moment: none uses the index before it holds every vector
    that is marked, and those that are not are looked at one by one. Idempotent.

    Args:
      database: Where the vectors are.
      model_id: The model's number.
      dimensions: Length of its vectors.
      ahead: Lists the users with that many memories, whether they have vectors of the model yet.

    Returns:
      How many vectors were marked.

    Raises:
      ConfigurationError: This role may not build indexes, or a worker of a cluster is asked.
    """
    database.run.require_every_scope()
    await require_owner(database)
    timeout_s = database.settings.migration_timeout_s
    large = statements.list_approximate_scopes
    if ahead:
        large = statements.list_approximate_scopes_ahead
    await database.run.fetch(
        large(model_id=model_id, exact_limit=database.settings.exact_limit), timeout_s=timeout_s
    )
    mark = statements.mark_approximate(model_id=model_id)
    first = await database.run.fetch_one(mark, timeout_s=timeout_s)
    create = statements.create_index(database.schema, model_id, dimensions)
    while not await index_is_valid(database, model_id):  # a build that was cut leaves half of one
        await drop_index(database, model_id)
        await database.run.execute(create, timeout_s=timeout_s)
    # A vector may have been on its way when its user was listed; the build waited for it.
    late = await database.run.fetch_one(mark, timeout_s=timeout_s)
    await database.run.fetch(statements.open_approximate_scopes(model_id=model_id))
    return sum(found["marked"] for found in (first, late) if found)


async def extend_indexes(database: Database) -> int:
    """Puts fresh vectors into the HNSW indexes; until then a search looks at each of them.

    A worker does it every ten minutes, for five at most. In batches of a transaction each: it may
    be ended anywhere, and many processes may do it simultaneously. Idempotent.

    Returns:
      How many vectors were put in.

    Raises:
      DatabaseError: The server refused; what was put in before stays.
    """
    database.run.require_every_scope()
    ends_at = time.monotonic() + _LONGEST_S
    total = 0
    for listed in await database.run.fetch(statements.select_listed()):
        fresh = statements.mark_fresh(**listed, limit=_BATCH)
        with narrowed(listed["app_name"], listed["user_id"]):
            marked = _BATCH
            while marked == _BATCH and time.monotonic() < ends_at:
                (done,) = await database.run.fetch(fresh)
                marked = done["marked"]
                total += marked
    return total


async def drop_index(database: Database, model_id: int) -> None:
    """Drops a model's index if it has one.

    Raises:
      ConfigurationError: As `require_droppable` says.
    """
    if await index_is_valid(database, model_id) is None:
        return
    await require_owner(database)
    drop = statements.drop_index(database.schema, model_id)
    await database.run.execute(drop, timeout_s=database.settings.migration_timeout_s)


async def require_droppable(database: Database, model_id: int) -> None:
    """Raises if a model has an index that cannot be dropped from here.

    Raises:
      ConfigurationError: This role may not drop it, or a worker of a cluster is asked.
    """
    if await index_is_valid(database, model_id) is not None:
        await require_owner(database)


async def index_is_valid(database: Database, model_id: int) -> bool | None:
    """Returns whether a model's index was built to the end; None if it has none."""
    index = statements.index_name(model_id)
    found = await database.run.fetch_one(
        statements.select_index(schema=database.schema, index=index)
    )
    return None if found is None else bool(found["valid"])


async def require_owner(database: Database) -> None:
    """Raises unless indexes may be built and dropped, by this role and from here.

    Raises:
      ConfigurationError: The tables belong to another role, or a worker of a cluster is asked.
    """
    await database.installation.require_coordinator()
    found = await database.run.fetch_one(statements.select_owner(schema=database.schema))
    if found is not None and not found["may"]:
        raise ConfigurationError(
            f"Role {found['role']!r} may not change the indexes of adkpg's tables, which belong to "
            f"{found['owner']!r}; run this as {found['owner']!r}, the role that migrates."
        )
