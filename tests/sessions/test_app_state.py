"""Who writes the state that all users of an app read, and how much of it one of them may."""

import json
from typing import Any

import asyncpg
import pytest

from adkpg import Database, DatabaseSessionService, Settings
from adkpg.errors import InvalidInput
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER

BOB: dict[str, Any] = {"app_name": USER["app_name"], "user_id": "bob"}
FEW = Settings(max_app_state_per_user_kb=10)


@pytest.fixture
async def limited(database_url: str) -> Any:
    async with Database(database_url, settings=FEW) as database:
        yield DatabaseSessionService(database)


async def _write(service: DatabaseSessionService, how: str, **state: Any) -> None:
    delta = {f"app:{key}": value for key, value in state.items()}
    if how == "create_session":
        await service.create_session(**USER, state=delta)
    elif how == "append_event":
        session = await service.create_session(**USER)
        await service.append_event(session, said("x", state=delta))
    else:
        await service.update_state(**USER, state_delta=delta)


WAYS = ["create_session", "append_event", "update_state"]


@pytest.mark.parametrize("how", WAYS)
async def test_one_user_takes_the_room_of_none_else(
    limited: DatabaseSessionService, how: str
) -> None:
    await _write(limited, how, first="x" * 6_000)
    with pytest.raises(InvalidInput, match="ADKPG_MAX_APP_STATE_PER_USER_KB=10 "):
        await _write(limited, how, second="x" * 6_000)
    bob = await limited.create_session(**BOB, state={"app:mine": "y" * 9_000})
    assert bob.state["app:mine"] == "y" * 9_000
    assert len(bob.state["app:first"]) == 6_000
    assert "app:second" not in bob.state
    # What is written smaller again, by whomever, makes room.
    await _write(limited, how, first="x")
    await _write(limited, how, second="x" * 6_000)
    await limited.update_state(**BOB, state_delta={"app:mine": None, "app:second": "z"})
    await _write(limited, how, third="x" * 9_000)


async def test_the_app_itself_has_the_limit_of_states_alone(
    limited: DatabaseSessionService,
) -> None:
    await limited.update_state(app_name=USER["app_name"], state_delta={"app:k": "x" * 500_000})
    await limited.update_state(app_name=USER["app_name"], state_delta={"app:l": "x" * 500_000})
    session = await limited.create_session(**USER, state={"app:mine": 1})
    assert len(json.dumps(session.state)) > 1_000_000


async def test_a_user_without_a_name_is_a_user(limited: DatabaseSessionService) -> None:
    nameless = {"app_name": USER["app_name"], "user_id": ""}
    with pytest.raises(InvalidInput, match="ADKPG_MAX_APP_STATE_PER_USER_KB=10 "):
        await limited.update_state(**nameless, state_delta={"app:k": "x" * 20_000})
    with pytest.raises(InvalidInput, match="ADKPG_MAX_APP_STATE_PER_USER_KB=10 "):
        await limited.create_session(**nameless, state={"app:k": "x" * 20_000})


async def test_no_users_id_is_kept_with_what_they_wrote(
    limited: DatabaseSessionService, connection: asyncpg.Connection
) -> None:
    await limited.create_session(**USER, state={"app:a": 1})
    await limited.update_state(app_name=USER["app_name"], state_delta={"app:b": 2})
    writers = json.loads(await connection.fetchval("SELECT writers FROM app_states"))
    assert set(writers) == {"a", "b"}
    assert 0 <= int(writers["a"]) < 256
    assert writers["b"] is None


@pytest.mark.parametrize("how", WAYS)
async def test_a_deployment_lets_the_app_alone_write(
    database_url: str, connection: asyncpg.Connection, how: str
) -> None:
    alone = Settings(app_state_writers="app")
    async with Database(database_url, settings=alone) as database:
        service = DatabaseSessionService(database)
        with pytest.raises(InvalidInput, match="ADKPG_APP_STATE_WRITERS lets only the app itself"):
            await _write(service, how, rule="evil")
        assert await connection.fetchval("SELECT count(*) FROM app_states") == 0
        await service.update_state(app_name=USER["app_name"], state_delta={"app:rule": "fair"})
        session = await service.create_session(**USER)
        await service.append_event(session, said("x", state={"own": 1, "user:u": 2}))
        assert session.state == {"app:rule": "fair", "own": 1, "user:u": 2}
