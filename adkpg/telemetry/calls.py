"""Calls: one span and one duration for each public call, whatever it calls in turn."""

import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction, signature
from typing import Any, TypeVar

from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from adkpg.errors import StaleSession
from adkpg.telemetry import instruments

ClassT = TypeVar("ClassT", bound=type)
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_PLACE = ("server.address", "server.port", "db.namespace")
_PORT = 5432
_OPEN: ContextVar["_Open | None"] = ContextVar("adkpg_call", default=None)


@dataclass(frozen=True)
class Call:
    """What a public call is, to whoever watches.

    Attributes:
      operation: Of the conventions for memory; None: a call on a database.
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
    """Makes a coroutine function, whose first argument is the Database, a traced call."""

    def decorate(function: FunctionT) -> FunctionT:
        wrapped: Any = _traced(function, function.__name__, call)
        return wrapped  # type: ignore[no-any-return] # of the same signature

    return decorate


def is_traced(function: object) -> bool:
    """Whether a function is a traced call."""
    return hasattr(function, "__adkpg_call__")


@dataclass
class _Open:
    """A call that is being made.

    Attributes:
      attributes: Of the metrics: where it goes, and what it is.
      span: Its span.
      records: How many memories it is about, where its result does not say so.
    """

    attributes: dict[str, str | int]
    span: Span | None = None
    records: int | None = None


def _traced(function: Callable[..., Awaitable[Any]], name: str, call: Call) -> Any:
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


@contextmanager
def _span(name: str, call: Call, given: Mapping[str, Any]) -> Iterator[Span]:
    place = _place(next(iter(given.values()), None))
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
    open_call = _Open(dict(attributes))
    began = time.perf_counter()
    entered = _OPEN.set(open_call)
    try:
        with (
            instruments.tracer.start_as_current_span(
                title,
                kind=SpanKind.CLIENT if place else SpanKind.INTERNAL,
                attributes={**attributes, **_of_arguments(call, given)},
                # Messages of errors name sessions and users.
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            failing(span, open_call.attributes),
        ):
            open_call.span = span
            yield span
    finally:
        _OPEN.reset(entered)
        open_call.attributes.pop("db.query.summary", None)
        duration.record(time.perf_counter() - began, open_call.attributes)


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
    if call is not None and call.span is not None:
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


def accepts(records: int) -> None:
    """Says of how many memories the call is that is being made, if anybody watches."""
    call = _OPEN.get()
    if call is not None:
        call.records = (call.records or 0) + records


def is_open() -> bool:
    """Whether a call is being made that somebody watches."""
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
    where = _where(_place(next(iter(given.values()), None)))
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
    if made is not None and made.records is not None:
        count: int | None = made.records
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
    if call is SEARCH and isinstance(found, Sequence):
        instruments.hits.record(len(found), where)
        cosines = [
            cosine
            for hit in found
            if (cosine := getattr(getattr(hit, "reason", None), "cosine", None)) is not None
        ]
        if cosines:
            instruments.top_cosine.record(max(cosines), where)
        if instruments.shows_content():
            span.set_attribute("gen_ai.memory.records", json.dumps([*map(_record, found)]))


def _record(hit: Any) -> dict[str, Any]:
    memory = getattr(hit, "memory", hit)
    parts = getattr(getattr(memory, "content", None), "parts", None) or []
    record: dict[str, Any] = {"content": "\n".join(part.text for part in parts if part.text)}
    if getattr(memory, "id", None):
        record["id"] = memory.id
    if isinstance(score := getattr(hit, "score", None), float):
        record["score"] = score
    return record
