"""Reading memories by key: one, some in pages, how many."""

from adkpg.database import Database
from adkpg.errors import InvalidInput
from adkpg.keys import scope_user, storable
from adkpg.memory import pages, records
from adkpg.memory import statements as reading_statements
from adkpg.memory.filters import NO_FILTERS, SearchFilters
from adkpg.memory.records import Memory


class StoredMemories:
    """What is stored, as it is: no question is asked and nothing is ranked."""

    _database: Database

    async def get_memory(
        self, *, app_name: str, user_id: str | None, memory_id: str
    ) -> Memory | None:
        """Returns a memory, also one that has expired or was superseded; None if there is none.

        Args:
          app_name: The app.
          user_id: The user; None is the app-wide scope.
          memory_id: Its id.
        """
        if not storable(app_name=app_name, user_id=user_id, memory_id=memory_id):
            return None
        row = await self._database.fetch_one(
            reading_statements.select_memory(),
            {"app_name": app_name, "user_id": scope_user(user_id), "memory_id": memory_id},
        )
        return None if row is None else records.memory(row)

    async def list_memories(
        self,
        *,
        app_name: str,
        user_id: str | None,
        filters: SearchFilters | None = None,
        limit: int = 50,
        after: str | None = None,
        live: bool = True,
    ) -> pages.MemoriesPage:
        """Returns some memories of a scope, newest first.

        Args:
          app_name: The app.
          user_id: The user; None is the app-wide scope.
          filters: Which ones.
          limit: At most so many, at least 1.
          after: The ``next`` of the page before; None starts at the newest.
          live: Without those that have expired or were superseded.

        Raises:
          InvalidInput: `limit` is below 1, or `after` did not come from a page.
        """
        if limit < 1:
            raise InvalidInput(f"limit={limit} is below 1; ask for at least one.")
        if not storable(app_name=app_name, user_id=user_id):
            return pages.MemoriesPage([], None)
        filters = filters or NO_FILTERS
        cursor = pages.read_cursor(after) if after is not None else (None, None)
        rows = await self._database.fetch(
            reading_statements.list_memories(
                asked=filters.asked, after_row=after is not None, live_only=live
            ),
            {
                "app_name": app_name,
                "user_id": scope_user(user_id),
                "limit": limit + 1,
                "after_moment": cursor[0],
                "after_position": cursor[1],
                **filters.parameters,
            },
        )
        following = None
        if len(rows) > limit:
            last = rows[limit - 1]
            following = pages.cursor(last["timestamp"], last["position"])
        return pages.MemoriesPage([records.memory(row) for row in rows[:limit]], following)

    async def count_memories(
        self, *, app_name: str, user_id: str | None, filters: SearchFilters | None = None
    ) -> int:
        """Returns how many live memories a scope has; `user_id` None is the app-wide one."""
        if not storable(app_name=app_name, user_id=user_id):
            return 0
        filters = filters or NO_FILTERS
        row = await self._database.fetch_one(
            reading_statements.count_memories(asked=filters.asked),
            {"app_name": app_name, "user_id": scope_user(user_id), **filters.parameters},
        )
        return int(row["memories"]) if row else 0
