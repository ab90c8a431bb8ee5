"""Any sequence of invocations, lapses and deletions does what one holder and some results do."""

import asyncio
import contextvars
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from adkpg import DatabaseSessionService, Invocation
from adkpg.errors import Busy, InvocationLost
from adkpg.tooling.testing import said, texts
from tests.fakes.conversation import USER

pytestmark = pytest.mark.property

T = TypeVar("T")


@dataclass
class Block:
    """An ``async with`` that has begun and not ended, in a context of its own."""

    number: int
    key: str | None
    context: contextvars.Context
    manager: Any
    run: Invocation


class InvocationsMachine(RuleBasedStateMachine):
    """Begins and ends blocks in any order, and compares with who should hold the session."""

    runner: asyncio.Runner
    sessions: DatabaseSessionService
    connection: asyncpg.Connection
    numbers = itertools.count()

    @initialize()
    def begin_all(self) -> None:
        self.place: dict[str, Any] = {**USER, "session_id": f"s{next(self.numbers)}"}
        self.blocks: list[Block] = []
        self.holder: int | None = None
        self.lapsed = False
        self.results: dict[str, int] = {}
        self.said: list[str] = []
        self.do(self.sessions.create_session(**self.place))

    def do(self, work: Coroutine[Any, Any, T], context: contextvars.Context | None = None) -> T:
        return self.runner.run(work, context=contextvars.Context() if context is None else context)

    def sql(self, statement: str) -> None:
        self.do(self.connection.execute(statement, self.place["session_id"]))

    async def append(self, text: str) -> None:
        session = await self.sessions.get_session(**self.place)
        assert session is not None
        await self.sessions.append_event(session, said(text))

    @rule(key=st.sampled_from([None, "a", "b"]))
    def begin(self, key: str | None) -> None:
        context = contextvars.Context()
        manager: Any = self.sessions.invocation(**self.place, timeout_s=0, key=key)
        number = next(self.numbers)
        free = self.holder is None or self.lapsed
        if key not in self.results and not free:
            with pytest.raises(Busy):
                self.do(manager.__aenter__(), context)
            return
        run = self.do(manager.__aenter__(), context)
        self.blocks.append(Block(number, key, context, manager, run))
        if key is not None and key in self.results:
            assert (run.done, run.result) == (True, self.results[key])
            return
        assert not run.done
        run.finish(number)
        self.holder, self.lapsed = number, False

    @precondition(lambda self: self.blocks)
    @rule(data=st.data())
    def append_within(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(self.blocks))
        text = f"of {block.number}"
        if block.number == self.holder:
            self.do(self.append(text), block.context)
            self.said.append(text)
        else:
            with pytest.raises(InvocationLost):
                self.do(self.append(text), block.context)

    @rule()
    def append_outside(self) -> None:
        self.do(self.append("outside"))
        self.said.append("outside")

    @precondition(lambda self: self.blocks)
    @rule(data=st.data(), fails=st.booleans())
    def end(self, data: st.DataObject, fails: bool) -> None:
        block = data.draw(st.sampled_from(self.blocks))
        self.blocks.remove(block)
        error = ZeroDivisionError() if fails else None
        ending = block.manager.__aexit__(type(error) if error else None, error, None)
        held = block.number == self.holder
        if not held and not fails and block.key is not None and not block.run.done:
            with pytest.raises(InvocationLost):
                self.do(ending, block.context)
            return
        self.do(ending, block.context)
        if held:
            self.holder = None
            if block.key is not None and not fails:
                self.results[block.key] = block.number

    @precondition(lambda self: self.holder is not None)
    @rule()
    def lapse(self) -> None:
        self.sql("UPDATE sessions SET invocation_expires_at = now() WHERE session_id = $1")
        self.lapsed = True

    @precondition(lambda self: self.results)
    @rule()
    def expire(self) -> None:
        self.sql("UPDATE invocation_results SET expires_at = now() WHERE session_id = $1")
        self.results.clear()

    @rule()
    def create_again(self) -> None:
        self.do(self.sessions.delete_session(**self.place))
        self.do(self.sessions.create_session(**self.place))
        self.holder = None
        self.results.clear()
        self.said.clear()

    @invariant()
    def what_was_accepted_is_stored(self) -> None:
        session = self.do(self.sessions.get_session(**self.place))
        assert texts(session) == self.said

    def teardown(self) -> None:
        for block in getattr(self, "blocks", []):
            error = ZeroDivisionError()
            self.do(block.manager.__aexit__(ZeroDivisionError, error, None), block.context)


def test_invocations_do_what_the_model_does(database_url: str) -> None:
    with asyncio.Runner() as runner:
        sessions = DatabaseSessionService(database_url)

        async def connected() -> asyncpg.Connection:
            connection = await asyncpg.connect(database_url)
            await connection.execute("SET search_path = adkpg, public")
            return connection

        InvocationsMachine.runner = runner
        InvocationsMachine.sessions = sessions
        InvocationsMachine.connection = runner.run(connected())
        run_state_machine_as_test(InvocationsMachine, settings=settings(stateful_step_count=15))
        runner.run(InvocationsMachine.connection.close())
        runner.run(sessions.close())
