"""Writing the states that an app's or a user's sessions share."""

from typing import Any

from adkpg import jsontext
from adkpg.database import Database, Transaction
from adkpg.errors import InvalidInput
from adkpg.keys import require_storable
from adkpg.limits import require_size
from adkpg.tooling.transfer.records import SharedState, Unread
from adkpg.tooling.transfer.report import ImportReport
from adkpg.tooling.transfer.writing import statements
from adkpg.tooling.transfer.writing.sessions import Mode

_BATCH = 500

_Key = tuple[str, str | None]


class StateWriter:
    """Takes shared states, and writes or verifies them in batches.

    Of a key that is there already the later value wins, by the times of the two states.

    Args:
      database: Where.
      report: Is told of what differs or cannot be stored.
      mode: What becomes of them.
    """

    def __init__(self, database: Database, report: ImportReport, *, mode: Mode) -> None:
        self._database = database
        self._report = report
        self._mode = mode
        self._waiting: dict[_Key, tuple[SharedState, str]] = {}

    async def add(self, shared: SharedState) -> None:
        """Adds a state; an empty one says nothing."""
        key = (shared.app_name, shared.user_id)
        if not shared.state:
            return
        try:
            require_storable(app_name=shared.app_name, user_id=shared.user_id)
            text = jsontext.write_state(shared.state)
            require_size(self._database.settings, "max_state_mb", "The shared state", text)
        except InvalidInput as exc:
            if self._mode is not Mode.VERIFY:
                self._report.miss(
                    Unread(reason=str(exc), app_name=shared.app_name, user_id=shared.user_id)
                )
            return
        if key in self._waiting or len(self._waiting) >= _BATCH:
            await self.flush()
        self._waiting[key] = (shared, text)

    async def flush(self) -> None:
        """Does what is to be done with what came so far."""
        waiting, self._waiting = self._waiting, {}
        apps = [each for each in waiting.values() if each[0].user_id is None]
        users = [each for each in waiting.values() if each[0].user_id is not None]
        app_names = [shared.app_name for shared, _ in apps]
        apps_of_users = [shared.app_name for shared, _ in users]
        user_ids = [shared.user_id or "" for shared, _ in users]

        async def write(transaction: Transaction) -> None:
            if apps:
                await transaction.fetch(
                    statements.merge_app_states(
                        app_names=app_names,
                        states=[text for _, text in apps],
                        updated=[shared.updated_at for shared, _ in apps],
                    )
                )
            if users:
                await transaction.fetch(
                    statements.merge_user_states(
                        app_names=apps_of_users,
                        user_ids=user_ids,
                        states=[text for _, text in users],
                        updated=[shared.updated_at for shared, _ in users],
                    )
                )

        if self._mode is Mode.WRITE and waiting:
            await self._database.run.transact(write)
        elif self._mode is Mode.VERIFY and waiting:
            stored: dict[_Key, Any] = {}
            for row in await self._database.run.fetch(
                statements.select_app_states(app_names=app_names)
            ):
                stored[row["app_name"], None] = row
            for row in await self._database.run.fetch(
                statements.select_user_states(app_names=apps_of_users, user_ids=user_ids)
            ):
                stored[row["app_name"], row["user_id"]] = row
            for key, (shared, text) in waiting.items():
                self._compare(shared, text, stored.get(key))

    def _compare(self, shared: SharedState, text: str, row: Any) -> None:
        wanted = jsontext.read_state(text)
        held = jsontext.read_state(row["state"]) if row else {}
        went_on = (
            row is not None
            and shared.updated_at is not None
            and row["updated_at"] > shared.updated_at
        )
        missing = [key for key in wanted if key not in held]
        other = (
            [] if went_on else [key for key in wanted if key in held and held[key] != wanted[key]]
        )
        for keys, what in ((missing, "are not stored"), (other, "differ from the source's")):
            if keys:
                whose = "app" if shared.user_id is None else f"user {shared.user_id!r} of app"
                self._report.differing.add(
                    f"The state of {whose} {shared.app_name!r}: keys {sorted(keys)[:5]} {what}."
                )
