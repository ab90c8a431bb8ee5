"""Any argument of any public call: it is taken, or refused in a sentence before it is written.

What is of another type than the signature says is refused by whatever meets it first; it is never
stored.
"""

import asyncio
import inspect
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import asyncpg
import pytest
from a2a.server.cluster import TaskVersion
from a2a.server.context import ServerCallContext
from a2a.types import ListTasksRequest, Task
from google.genai import types

import adkpg
from adkpg import Database
from adkpg.errors import AdkpgError, InvalidInput
from adkpg.interface.internal import is_internal
from adkpg.tooling.evaluation import SavedQuestions
from tests.fakes.callers import Named
from tests.fakes.conversation import entry, said
from tests.fakes.front_door import PACKAGES
from tests.fakes.public_calls import APP, Person, Services, furnish
from tests.fakes.toys import ToyEmbedder

ADA = Person("ada")


class Odd:
    """Of no type that a call takes."""


WRONG = (Odd(), 5j, b"x", [Odd()], None, 5, 2.5, True, "text", [5], {"k"}, {"k": 5})
HOSTILE: dict[str, tuple[object, ...]] = {
    "str": ("", " ", "\x00", "\ud800", "x" * 3_000, "é" * 300, "zz", "'; --", "$1", "../.."),
    "int": (-1, 0, 2**31, 2**63, 10**30),
    "float": (-1.0, 0.0, math.nan, math.inf, 1e-300, 1e300),
    "timedelta": (timedelta(-1), timedelta(), timedelta.max, timedelta(microseconds=1)),
    "datetime": (datetime.min, datetime.max, datetime(2026, 1, 1, tzinfo=UTC)),  # noqa: DTZ901
    str(Sequence[str]): ([], [""], ["\x00"], ["\ud800"], ["x" * 3_000]),
    "Mapping": ({}, {"\x00": "\x00"}, {"k": math.nan}, {"k": Odd()}, {1: 2}, {"\ud800": 1}),
    "dict": ({}, {"\x00": "\x00"}, {"k": math.nan}, {"k": Odd()}, {1: 2}, {"\ud800": 1}),
}
"""Of the right type, by its name in the annotation."""

NEVER_STORED = {"batches", "max_memories", "timeout_s"}
"""Arguments that a call counts by. Of one that is bool it asks the truth."""

OF_THE_SERVER = ("Postgres refused a", "Postgres cannot store one of the values")
"""What is said of a value that nobody looked at before it was sent."""

ELSEWHERE = {
    "lifespan": "takes an app of ADK's; tested with the tasks",
    "reporting": "goes on until it is left; takes a number",
    "evaluate_apart": "makes databases; tested with the evaluation",
    "evaluate_stored": "asks a data set; tested with the evaluation",
    "export_to_adk": "writes another database; tested with the transfer",
    "preloaded": "of a turn of a session; tested with the tools",
    "import_from": "reads another database; tested with the transfer",
}
NOT_AWAITED = {"invocation", "watch_session", "scope"}
SERVICES = sorted({*Services.__dataclass_fields__, "saved"} - {"live"})
Call = Callable[..., Any]


async def _bytes() -> AsyncIterator[bytes]:
    yield b"x"


def _valid(services: Services) -> dict[str, Any]:
    """An argument of each name, of the right type and of Ada's own things where there are some."""
    return {
        "app_name": APP,
        "user_id": ADA.user_id,
        "session_id": ADA.session_id,
        "session": services.live[ADA.user_id],
        "memory_id": ADA.memory_id,
        "source": ADA.source,
        "filename": "a.txt",
        "query": "cat",
        "text": "a text",
        "event": said("appended"),
        "events": [said("more")],
        "memories": [entry("a kitten", "kitten")],
        "state_delta": {"user:set": 1},
        "artifact": types.Part(text="saved"),
        "data": _bytes(),
        "mime_type": "text/plain",
        "actor": "ops",
        "action": "look",
        "evidence": [ADA.memory_id],
        "question_id": "none",
        "name": "toy",
        "dimensions": ToyEmbedder().dimensions,
        "embedder": ToyEmbedder(),
        "config": "english",
        "task_id": ADA.task_id,
        "task": Task(id=ADA.task_id, context_id="c"),
        "prev_version": TaskVersion(99),  # of no task, so that no save is made
        "params": ListTasksRequest(),
        "context": ServerCallContext(user=Named(ADA.user_id)),
    }


def _methods(owner: object) -> dict[str, Call]:
    """What is called of a service, by its name in the reference."""
    kind = type(owner)
    return {
        f"{kind.__name__}.{name}": getattr(owner, name)
        for name, function in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and _is_called(function)
    }


def _is_called(function: Any) -> bool:
    made = inspect.unwrap(function)
    return (
        str(made.__module__).startswith("adkpg.")
        and not is_internal(function)
        and made.__name__ != "close"
        and (
            inspect.iscoroutinefunction(made)
            or inspect.isasyncgenfunction(made)
            or made.__name__ in NOT_AWAITED
        )
    )


def _functions() -> Iterator[tuple[str, Any]]:
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            if inspect.isfunction(found := getattr(module, name)) and _is_called(found):
                yield name, found


def _bound(function: Call, database: Database) -> Call:
    takes = "database" in inspect.signature(function).parameters
    return (lambda **given: function(database, **given)) if takes else function


async def _made(call: Call, given: dict[str, Any]) -> None:
    """Makes a call, and takes all that it gives."""
    answer = call(**given)
    if isinstance(answer, Awaitable):
        await asyncio.wait_for(answer, 60)
    elif isinstance(answer, AbstractAsyncContextManager):
        async with answer:
            pass
    elif isinstance(answer, AbstractContextManager):
        with answer:
            pass
    elif inspect.isasyncgen(answer):
        if call.__name__ != "watch_session":  # which goes on for ever
            async for _ in answer:
                pass
        await answer.aclose()


async def _stored(connection: asyncpg.Connection) -> list[tuple[str, str | None]]:
    """A digest of the rows of each table."""
    tables = await connection.fetch(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'adkpg' ORDER BY 1"
    )
    union = " UNION ALL ".join(
        f"SELECT '{name}', md5(string_agg(t::text, ',' ORDER BY t::text)) FROM adkpg.{name} t"
        for (name,) in tables
    )
    return [tuple(row) for row in await connection.fetch(union)]


async def _try_all(
    name: str, call: Call, function: Call, valid: dict[str, Any], connection: asyncpg.Connection
) -> None:
    """Gives a call one wrong argument after another, and one hostile one after another."""
    parameters = inspect.signature(function).parameters
    hints = get_type_hints(inspect.unwrap(function))
    named = [
        each
        for each in parameters.values()
        if each.name not in ("self", "database")
        and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    usual = {each.name: valid[each.name] for each in named if each.default is each.empty}
    before = await _stored(connection)
    for each in named:
        kinds = _kinds(hints[each.name])
        if "bool" in kinds or each.name in NEVER_STORED:
            continue
        for wrong in WRONG:
            if not _is_of(wrong, kinds):
                with suppress(Exception):  # of Python or the driver, as it comes
                    await _made(call, {**usual, each.name: wrong})
                assert await _stored(connection) == before, (name, each.name, wrong)
    for each in named:
        for kind in HOSTILE.keys() & _kinds(hints[each.name]):
            for value in HOSTILE[kind]:
                told = ""
                try:
                    await _made(call, {**usual, each.name: value})
                except (AdkpgError, TimeoutError) as exc:  # of `flush`, which waits no longer
                    told = str(exc)
                assert not any(words in told for words in OF_THE_SERVER), (name, each.name, value)


def _kinds(hint: Any) -> set[str]:
    """The names of the types that an annotation allows, without what they hold."""
    if get_origin(hint) in (Union, UnionType):
        return set().union(*map(_kinds, get_args(hint)))
    if get_origin(hint) is Literal:
        return {type(value).__name__ for value in get_args(hint)}
    if get_origin(hint) is Sequence:
        return {str(hint)}
    return {getattr(get_origin(hint) or hint, "__name__", str(hint))}


def _is_of(value: object, kinds: set[str]) -> bool:
    kind = type(value).__name__
    also = {"int": "float", "dict": "Mapping"}.get(kind, kind)
    return bool({kind, also, "Any", "object"} & kinds)


@pytest.fixture
async def services(database_url: str, connection: asyncpg.Connection) -> AsyncIterator[Services]:
    async with Database(database_url) as database:
        made = Services.on(database)
        await furnish(made, connection, ADA)
        yield made


@pytest.mark.parametrize("field", SERVICES)
async def test_a_service(services: Services, connection: asyncpg.Connection, field: str) -> None:
    owners = {
        **vars(services),
        "saved": SavedQuestions(services.database),
    }
    owner = owners[field]
    for name, call in _methods(owner).items():
        if "stop" not in inspect.signature(call).parameters:  # a worker goes on for ever
            await _try_all(name, call, call, _valid(services), connection)


async def test_functions(services: Services, connection: asyncpg.Connection) -> None:
    for name, function in _functions():
        if name not in ELSEWHERE:
            call = _bound(function, services.database)
            await _try_all(name, call, function, _valid(services), connection)


async def test_options_of_a_search(services: Services) -> None:
    for name in adkpg.SearchOverrides.__annotations__:
        for value in (Odd(), 5j, b"x", [Odd()]):
            with pytest.raises(InvalidInput):
                await services.memory.search(
                    app_name=APP,
                    user_id=ADA.user_id,
                    query="cat",
                    **{name: value},  # type: ignore[arg-type] # is what is tested
                )
