"""Calls: one span and one duration for each public call, whatever it calls in turn."""

import json
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, signature
from typing import Any, Protocol, TypeVar

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, use_span

from adkpg.errors import StaleSession
from adkpg.telemetry import instruments

ClassT = TypeVar("ClassT", bound=type)
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_PLACE = ("server.address", "server.port", "db.namespace")
_PORT = 5432
_OPEN: ContextVar["_Open | None"] = ContextVar("adkpg_call", default=None)


@dataclass(frozen=True)
class Call:
    """What a public call is, to traces and metrics.

    Attributes:
      operation: As the conventions for memory name it; None: a call on a database.
      table: The main one, of a call on a database.
    """

    operation: str | None = None
    table: str = ""


SEARCH, UPSERT = Call("search_memory"), Call("upsert_memory")
CREATE, UPDATE, DELETE = Call("create_memory"), Call("update_memory"), Call("delete_memory")


def on(table: str) -> Call:
    """A call on a database, with its main table."""
    return Call(None, table)


def traced(**calls: Call) -> Callable[[ClassT], ClassT]:
    """Makes methods of a class traced calls, by their names; their types stay as they are."""

    def decorate(service: ClassT) -> ClassT:
        for name, call in calls.items():
            setattr(service, name, _traced(vars(service)[name], name, call))
        return service

    return decorate


def traced_function(call: Call) -> Callable[[FunctionT], FunctionT]:
    """Makes a function a traced call: one that is awaited, or one that yields as it is read."""

    def decorate(function: FunctionT) -> FunctionT:
        wrapped: Any = _traced(function, function.__name__, call)
        return wrapped  # type: ignore[no-any-return] # of the same signature

    return decorate


def is_traced(function: object) -> bool:
    """Whether a function is a traced call."""
    return hasattr(function, "__adkpg_call__")


class Stored(Protocol):
    """A memory that a call stores."""

    @property
    def memory_id(self) -> str:
        """Its id; of an event that is stored already, not the one that it has."""

    @property
    def event_id(self) -> str | None:
        """The event that it is of, if it is of one."""

    @property
    def content(self) -> str:
        """What it says, as JSON of ``types.Content``."""


@dataclass
class _Open:
    """A call that is being made.

    Attributes:
      attributes: The metrics': where it goes, and what it is.
      span: Its span.
      stored: The memories that it stores, where its result does not say so.
    """

    attributes: dict[str, str | int]
    span: Span
    stored: Sequence[Stored] | None = None


def _traced(function: Callable[..., Any], name: str, call: Call) -> Any:
    if isasyncgenfunction(function):
        return _traced_generator(function, name, call)
    assert iscoroutinefunction(function), name
    parameters = signature(function).parameters

    @wraps(function)
    async def made(*args: Any, **kwargs: Any) -> Any:
        if not instruments.listened_to() or _OPEN.get() is not None:
            return await function(*args, **kwargs)
        given = dict(zip(parameters, args, strict=False)) | kwargs
        with _span(name, call, given) as span:
            result = await function(*args, **kwargs)
            _note(span, name, call, given, result)
            return result

    made.__adkpg_call__ = call  # type: ignore[attr-defined] # what `is_traced` asks for
    return made


def _traced_generator(
    function: Callable[..., AsyncGenerator[Any, None]], name: str, call: Call
) -> Any:
    parameters = signature(function).parameters

    @wraps(function)
    async def made(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        async with aclosing(function(*args, **kwargs)) as source:
            if not instruments.listened_to() or _OPEN.get() is not None:
                async for each in source:
                    yield each
                return
            given = dict(zip(parameters, args, strict=False)) | kwargs
            with _begun(name, call, given) as opened:
                while True:
                    # What happens between two items is the reader's, and no part of the call.
                    with _within(opened):
                        try:
                            each = await anext(source)
                        except StopAsyncIteration:
                            return
                    yield each

    made.__adkpg_call__ = call  # type: ignore[attr-defined] # what `is_traced` asks for
    return made


@contextmanager
def _span(name: str, call: Call, given: Mapping[str, Any]) -> Iterator[Span]:
    with _begun(name, call, given) as opened, _within(opened):
        yield opened.span


@contextmanager
def _begun(name: str, call: Call, given: Mapping[str, Any]) -> Iterator[_Open]:
    """Begins a call's span, which ends with the block, and measures how long that takes."""
    place = _place(_owner(given))
    if call.operation is None:
        title = f"{name} {call.table}".strip()
        attributes: dict[str, str | int] = {
            "db.system.name": "postgresql",
            "db.operation.name": name,
            "db.query.summary": title,
            **place,
        }
        if call.table:
            attributes["db.collection.name"] = call.table
        duration = instruments.database_duration
    else:
        title = call.operation
        place.pop("db.namespace", None)
        attributes = {"gen_ai.operation.name": call.operation, **place}
        duration = instruments.memory_duration
    span = instruments.tracer.start_span(
        title,
        kind=SpanKind.CLIENT if place else SpanKind.INTERNAL,
        attributes={**attributes, **_of_arguments(call, given)},
    )
    opened = _Open(dict(attributes), span)
    began = time.perf_counter()
    try:
        yield opened
    finally:
        span.end()
        opened.attributes.pop("db.query.summary", None)
        duration.record(time.perf_counter() - began, opened.attributes)


@contextmanager
def _within(opened: _Open) -> Iterator[None]:
    """What runs in the block is the call's: its span is the current one, and it has no other."""
    entered = _OPEN.set(opened)
    try:
        with (
            # Messages of errors name sessions and users.
            use_span(opened.span, record_exception=False, set_status_on_exception=False),
            failing(opened.span, opened.attributes),
        ):
            yield
    finally:
        _OPEN.reset(entered)


@contextmanager
def failing(span: Span, attributes: dict[str, str | int] | None = None) -> Iterator[None]:
    """Says of an exception, a cancellation too, what it is and no more."""

    def say(_kind: object, exc: BaseException | None, _trace: object) -> None:
        if exc is None:
            return
        said: dict[str, str | int] = {"error.type": type(exc).__name__}
        status = getattr(exc.__cause__ or exc, "sqlstate", None)
        if isinstance(status, str):
            said["db.response.status_code"] = status
        span.set_attributes(said)
        span.set_status(Status(StatusCode.ERROR))
        if attributes is not None:
            attributes.update(said)
            if isinstance(exc, StaleSession):
                instruments.stale_appends.add(1, _where(attributes))

    with ExitStack() as leaving:
        leaving.push(say)
        yield


def retried() -> None:
    """Counts a repetition of a call."""
    if instruments.listened_to():
        call = _OPEN.get()
        instruments.retries.add(1, {} if call is None else _where(call.attributes))


def fell_back(reason: str) -> None:
    """Counts a read that the standby could not answer."""
    if instruments.listened_to():
        call = _OPEN.get()
        where = {} if call is None else _where(call.attributes)
        instruments.fallbacks.add(1, {**where, "adkpg.reason": reason})


def answered_by(place: Mapping[str, str | int]) -> None:
    """Says of the call that is being made that another server answered it, if anybody watches."""
    call = _OPEN.get()
    if call is not None:
        said = {name: place[name] for name in ("server.address", "server.port") if name in place}
        if "server.port" in call.attributes:
            said.setdefault("server.port", _PORT)
        call.attributes.update(said)
        call.span.set_attributes(said)


@contextmanager
def borrowing(place: Mapping[str, str | int]) -> Iterator[None]:
    """Measures how long a call waits for a connection, also for one that it does not get."""
    began = time.perf_counter()
    try:
        yield
    finally:
        pool = {"db.client.connection.pool.name": str(place.get("server.address", "adkpg"))}
        instruments.connection_wait.record(time.perf_counter() - began, pool)


def accepts(stored: Sequence[Stored]) -> None:
    """Says which memories the call stores that is being made, if anybody watches."""
    call = _OPEN.get()
    if call is not None:
        call.stored = [*(call.stored or ()), *stored]


def is_open() -> bool:
    """Whether a call is being made that a trace or metric observes."""
    return _OPEN.get() is not None


@contextmanager
def statement(sql: str, place: Mapping[str, str | int] | None = None) -> Iterator[None]:
    """A statement within a call, as a span of its own: the kind it is, and no parameters.

    Args:
      sql: The statement.
      place: Where it goes, if the call does not say so.
    """
    call = _OPEN.get()
    assert call is not None, "ask is_open() first: it costs less"
    where = call.attributes if place is None else place
    attributes: dict[str, str | int] = {
        "db.system.name": "postgresql",
        "db.query.text": sql,
        **{name: where[name] for name in _PLACE if name in where},
    }
    with (
        instruments.tracer.start_as_current_span(
            "postgresql",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span,
        failing(span),
    ):
        yield


@contextmanager
def embedding(model: str, dimensions: int) -> Iterator[None]:
    """A call of an embedder within a call, as a span of its own."""
    with (
        instruments.tracer.start_as_current_span(
            f"embeddings {model}",
            kind=SpanKind.CLIENT,
            attributes={
                "gen_ai.operation.name": "embeddings",
                "gen_ai.request.model": model,
                "gen_ai.embeddings.dimension.count": dimensions,
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span,
        failing(span),
    ):
        yield


def _owner(given: Mapping[str, Any]) -> object:
    """Who has the database: the service, or what is given first, or a memory service."""
    return given.get("memory") or next(iter(given.values()), None)


def _place(owner: object) -> dict[str, str | int]:
    """Where a service's database, or the one that is given, is."""
    database = getattr(owner, "_database", None) or owner
    place = getattr(database, "place", None)
    return dict(place) if isinstance(place, Mapping) else {}


def _where(attributes: Mapping[str, str | int]) -> dict[str, str | int]:
    return {name: attributes[name] for name in ("server.address",) if name in attributes}


def _of_arguments(call: Call, given: Mapping[str, Any]) -> dict[str, str]:
    session = given.get("session")
    said = {
        "gen_ai.conversation.id": given.get("session_id") or getattr(session, "id", None),
        "adkpg.app_name": given.get("app_name") or getattr(session, "app_name", None),
    }
    if call.operation is not None:
        said["gen_ai.memory.store.id"] = said.pop("adkpg.app_name")
        said["gen_ai.memory.record.id"] = given.get("memory_id")
        if instruments.shows_content():
            said["gen_ai.memory.query.text"] = given.get("query")
    return {name: value for name, value in said.items() if isinstance(value, str) and value}


def _note(span: Span, name: str, call: Call, given: Mapping[str, Any], result: Any) -> None:
    """Says what a call came to."""
    where = _where(_place(_owner(given)))
    if name == "append_event" and not getattr(result, "partial", False):
        instruments.events.add(1, where)
    if call.operation is None:
        if name in ("create_session", "fork_session") and isinstance(
            made := getattr(result, "id", None), str
        ):
            span.set_attribute("gen_ai.conversation.id", made)
        return
    found = getattr(result, "memories", result)
    made = _OPEN.get()
    stored = None if made is None else made.stored
    if stored is not None:
        count: int | None = len(stored)
    elif isinstance(found, Sequence) and not isinstance(found, str):
        count = len(found)
    elif isinstance(result, bool | int):
        count = int(result)
    elif call is UPDATE:
        count = int(result is not None)
    else:
        count = None
    if count is not None:
        span.set_attribute("gen_ai.memory.record.count", count)
    if call is CREATE and stored is not None and len(stored) == 1:
        span.set_attribute("gen_ai.memory.record.id", stored[0].memory_id)
    if instruments.shows_content():
        _show(span, call, stored, result)
    if call is SEARCH and isinstance(found, Sequence):
        instruments.hits.record(len(found), where)
        cosines = [
            cosine
            for hit in found
            if (cosine := getattr(getattr(hit, "reason", None), "cosine", None)) is not None
        ]
        if cosines:
            instruments.top_cosine.record(max(cosines), where)


def _show(span: Span, call: Call, stored: Sequence[Stored] | None, result: Any) -> None:
    """Says which memories a call found or stored, in their words."""
    found = getattr(result, "memories", result)
    if stored is not None:
        records = [*map(_stored_record, stored)]
    elif call is SEARCH and isinstance(found, Sequence):
        records = [*map(_record, found)]
    elif call is UPDATE and result is not None:
        records = [_record(result)]
    else:
        return
    span.set_attribute("gen_ai.memory.records", json.dumps(records))


def _stored_record(stored: Stored) -> dict[str, Any]:
    parts = json.loads(stored.content).get("parts") or []
    record: dict[str, Any] = {"content": _text(part.get("text") for part in parts)}
    if stored.event_id is None:
        record["id"] = stored.memory_id
    return record


def _text(texts: Iterable[str | None]) -> str:
    return "\n".join(filter(None, texts))


def _record(hit: Any) -> dict[str, Any]:
    memory = getattr(hit, "memory", hit)
    parts = getattr(getattr(memory, "content", None), "parts", None) or []
    record: dict[str, Any] = {"content": _text(part.text for part in parts)}
    if getattr(memory, "id", None):
        record["id"] = memory.id
    if isinstance(score := getattr(hit, "score", None), float):
        record["score"] = score
    return record
