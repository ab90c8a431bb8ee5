"""With row-level security an app's state is read by its users and written by the app alone."""

from typing import Any

import pytest

import adkpg
from adkpg import Database, DatabaseSessionService, Settings
from adkpg.errors import InvalidInput, PermissionDenied
from adkpg.tooling.testing import said
from tests.fakes.roles import guarded_roles

STRICT = Settings(row_level_security=True, app_state_writers="app")
LOOSE = Settings(row_level_security=True, app_state_writers="users")
ADA: dict[str, Any] = {"app_name": "app", "user_id": "ada"}


async def test_users_read_it_and_the_app_alone_writes_it(database_url: str) -> None:
    async with guarded_roles(database_url) as roles:
        async with Database(database_url, settings=STRICT) as database:
            await database.upgrade()
        async with Database(roles.url("serve"), settings=STRICT) as database:
            service = DatabaseSessionService(database)
            with adkpg.scope(app_name="app", user_id=None):
                await service.update_state(app_name="app", state_delta={"app:rule": "fair"})
            with adkpg.scope(**ADA):
                session = await service.create_session(**ADA)
                assert session.state == {"app:rule": "fair"}
                for writing in (
                    service.append_event(session, said("x", state={"app:rule": "evil"})),
                    service.create_session(**ADA, state={"app:rule": "evil"}),
                    service.update_state(**ADA, state_delta={"app:rule": "evil"}),
                ):
                    with pytest.raises(InvalidInput, match="ADKPG_APP_STATE_WRITERS"):
                        await writing
                await service.append_event(session, said("goes on", state={"own": 1}))
                read = await service.get_session(**ADA, session_id=session.id)
                assert read is not None
                assert read.state == {"app:rule": "fair", "own": 1}


async def test_the_server_holds_a_client_of_other_settings_to_it(database_url: str) -> None:
    async with guarded_roles(database_url) as roles:
        for settings, allowed in ((STRICT, False), (LOOSE, True), (STRICT, False)):
            async with Database(database_url, settings=settings) as database:
                await database.upgrade()
            async with Database(roles.url("serve"), settings=LOOSE) as database:
                service = DatabaseSessionService(database)
                with adkpg.scope(**ADA):
                    if allowed:
                        made = await service.create_session(**ADA, state={"app:rule": "mine"})
                        assert made.state == {"app:rule": "mine"}
                    else:
                        with pytest.raises(PermissionDenied, match="let only the app itself write"):
                            await service.create_session(**ADA, state={"app:rule": "evil"})
