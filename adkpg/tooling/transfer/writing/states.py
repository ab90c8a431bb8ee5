"""Writing the states that an app's or a user's sessions share."""

from collections.abc import Sequence
from typing import Any

from adkpg import jsontext
from adkpg.database import Database, Transaction
from adkpg.errors import InvalidInput
from adkpg.keys import require_storable
from adkpg.limits import require_size
from adkpg.tooling.transfer.records import AppState, Unread, UserState
from adkpg.tooling.transfer.report import ImportReport
from adkpg.tooling.transfer.writing import statements
from adkpg.tooling.transfer.writing.refusals import written

_BATCH = 500
_CHARACTERS = 4_000_000

_Given = tuple[AppState | UserState, str]


class StateWriter:
    """Takes shared states, and writes them in batches.

    If a key is there already, the later value wins, by the times of the two states.

    Args:
      database: Where.
      report: Is told of what differs or cannot be stored.
      writing: Whether they are written; else they are looked at alone.
    """

    def __init__(self, database: Database, report: ImportReport, *, writing: bool) -> None:
        self._database = database
        self._report = report
        self._writing = writing
        self._waiting: dict[tuple[str, str | None], _Given] = {}
        self._characters = 0

    async def add(self, shared: AppState | UserState) -> None:
        """Adds a state; an empty one says nothing."""
        user_id = _user(shared)
        if not shared.state:
            return
        try:
            require_storable(app_name=shared.app_name, user_id=user_id)
            text = jsontext.write_state(shared.state)
            require_size(self._database.settings, "max_state_mb", "The shared state", text)
        except InvalidInput as exc:
            self._miss(shared, str(exc))
            return
        key = (shared.app_name, user_id)
        full = len(self._waiting) >= _BATCH or self._characters >= _CHARACTERS
        if full or key in self._waiting:
            await self.flush()
        self._waiting[key] = (shared, text)
        self._characters += len(text)

    def _miss(self, shared: AppState | UserState, reason: str) -> None:
        self._report.miss(Unread(reason=reason, app_name=shared.app_name, user_id=_user(shared)))

    async def flush(self) -> None:
        """Writes what came so far."""
        waiting, self._waiting = [*self._waiting.values()], {}
        self._characters = 0
        if not waiting or not self._writing:
            return
        stored: dict[tuple[str, str | None], Any] = {}
        refused: list[tuple[_Given, str]] = []

        async def work(transaction: Transaction) -> None:
            async def apps(given: Sequence[_Given]) -> None:
                query = statements.merge_app_states(
                    app_names=[shared.app_name for shared, _ in given],
                    states=[text for _, text in given],
                    updated=[shared.updated_at for shared, _ in given],
                )
                for row in await transaction.fetch(query):
                    stored[row["app_name"], None] = row

            async def users(given: Sequence[_Given]) -> None:
                query = statements.merge_user_states(
                    app_names=[shared.app_name for shared, _ in given],
                    user_ids=[_user(shared) or "" for shared, _ in given],
                    states=[text for _, text in given],
                    updated=[shared.updated_at for shared, _ in given],
                )
                for row in await transaction.fetch(query):
                    stored[row["app_name"], row["user_id"]] = row

            refused.clear()
            for write, kind in ((apps, AppState), (users, UserState)):
                rows = [each for each in waiting if isinstance(each[0], kind)]
                await written(
                    transaction, rows, write, lambda row, reason: refused.append((row, reason))
                )

        await self._database.run.transact(work)
        for (shared, _), reason in refused:
            self._miss(shared, reason)
        lost = [shared for (shared, _), _ in refused]
        for shared, text in waiting:
            if shared not in lost:
                self._compare(shared, text, stored.get((shared.app_name, _user(shared))))

    def _compare(self, shared: AppState | UserState, text: str, row: Any) -> None:
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
                user_id = _user(shared)
                whose = "app" if user_id is None else f"user {user_id!r} of app"
                self._report.differing.add(
                    f"The state of {whose} {shared.app_name!r}: keys {sorted(keys)[:5]} {what}."
                )


def _user(shared: AppState | UserState) -> str | None:
    return shared.user_id if isinstance(shared, UserState) else None
