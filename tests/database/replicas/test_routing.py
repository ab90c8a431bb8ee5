"""Which public calls a standby answers, by the services themselves: all others never ask it."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.errors import ReadOnly
from adkpg.interface.internal import is_internal
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER, entry
from tests.fakes.replicated import Replicated, documented
from tests.fakes.replication import until

pytestmark = pytest.mark.fault

NO_CALLS = {"close", "flush", "run_worker", "warm"}  # of this process, or without an end
READ_ON_PRIMARY = {"get_initial_state"}
GIVEN = {"user_id", "memory_id", "text"}  # also where a call has a default
FINDS_NOTHING_TO_DO = {"embed_pending"}


def calls(service: object) -> set[str]:
    """Returns a service's public calls that are awaited."""
    return {
        name
        for name, member in inspect.getmembers(service)
        if not name.startswith("_")
        and not is_internal(member)
        and inspect.iscoroutinefunction(inspect.unwrap(member))
    } - NO_CALLS


async def prepared(both: Replicated, name: str) -> dict[str, Any]:
    """Stores what a call is about, on the primary, and returns arguments by their names."""
    async with Database(both.primary_url) as database:
        own = DatabaseSessionService(database)
        live = await own.create_session(**USER, session_id=name)
        await own.append_event(live, said("plums"))
        theirs = PgVectorMemoryService(database)
        await theirs.add_memory(**USER, memories=[entry("I like plums", f"memory-{name}")])
    await both.caught_up()
    return {
        **USER,
        "session_id": name,
        "session": live,
        "event": said("more"),
        "events": [said("more", id="e")],
        "memories": [entry("I like pears")],
        "memory_id": f"memory-{name}",
        "text": "I like apples",
        "query": "plums",
        "state_delta": {"user:x": 1},
    }


def bound(call: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns those arguments that a call needs, or that make it do something."""
    wanted = inspect.signature(call).parameters.values()
    return {
        each.name: arguments[each.name]
        for each in wanted
        if each.name in arguments and (each.default is each.empty or each.name in GIVEN)
    }


async def test_a_standby_is_asked_by_the_documented_calls_alone(both: Replicated) -> None:
    async with both.database() as database:
        sessions, memory = DatabaseSessionService(database), PgVectorMemoryService(database)
        found = set()
        for service in (sessions, memory):
            for name in sorted(calls(service)):
                arguments = await prepared(both, name)
                call = getattr(service, name)

                async def asks(
                    call: Callable[..., Any] = call, arguments: dict[str, Any] = arguments
                ) -> bool:
                    before = both.standby.round_trips
                    await call(**bound(call, arguments))
                    return both.standby.round_trips > before

                if name in documented():
                    await until(asks)
                    found.add(name)
                else:
                    # It would be asked: nothing that was written here is missing there.
                    assert database.run.replica is not None
                    await database.run.replica.close()  # ends the look that others wanted
                    assert not await asks(), f"{name} asked the standby"
        assert found == documented()


async def test_every_call_on_a_standby_reads_or_says_that_it_takes_no_writes(
    both: Replicated,
) -> None:
    async with Database(both.standby_url) as database:
        sessions, memory = DatabaseSessionService(database), PgVectorMemoryService(database)
        for service in (sessions, memory):
            for name in sorted(calls(service)):
                arguments = await prepared(both, name)
                call = getattr(service, name)
                if name in documented() | READ_ON_PRIMARY | FINDS_NOTHING_TO_DO:
                    await call(**bound(call, arguments))
                    continue
                with pytest.raises(ReadOnly, match="is a standby or was set read-only"):
                    await call(**bound(call, arguments))
