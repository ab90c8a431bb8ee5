"""The floor: adkpg's own statements on a raw asyncpg pool, with the least work around them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import asyncpg
from google.adk.events.event import Event
from pydantic import TypeAdapter

from adkpg.queries import Query
from adkpg.sessions import reading_statements, statements
from adkpg.sessions.state import merge, split
from benchmarks.contenders.sessions.contender import APP, Seen, content
from benchmarks.contenders.sessions.ours import Adkpg

_EVENTS = TypeAdapter(list[Event])
_STATE_LIMIT = 8_000_000
_MOST_BYTES = 64_000_000


@dataclass
class _Live:
    user_id: str
    session_id: str
    incarnation: str
    revision: int
    token: str | None
    events: list[Event] = field(default_factory=list)
    row: Mapping[str, Any] | None = None


class _Service:
    def __init__(self, pool: Any, *, merge: bool) -> None:
        self._pool = pool
        self._merge = merge

    async def _fetch(self, query: Query[Any]) -> Sequence[Any]:
        sql, arguments = query.statement.text("adkpg"), query.statement.arguments(query.parameters)
        rows: Sequence[Any] = await self._pool.fetch(sql, *arguments)
        return rows

    async def create(self, user_id: str, session_id: str, state: dict[str, Any]) -> _Live:
        delta = split(state)
        incarnation = str(uuid4())
        await self._fetch(
            statements.create_session(
                app_name=APP,
                user_id=user_id,
                session_id=session_id,
                incarnation=incarnation,
                session_state=delta.session or "{}",
                initial_state=delta.session,
                app_delta=delta.app,
                user_delta=delta.user,
                state_limit=_STATE_LIMIT,
                writer_limit=_STATE_LIMIT,
                timestamp=datetime.now(UTC),
                ttl=None,
                expires_at=None,
            )
        )
        return _Live(user_id, session_id, incarnation, 0, None)

    async def append(self, live: _Live, event: Event) -> None:
        delta = split(event.actions.state_delta)
        token = str(uuid4())
        (row,) = await self._fetch(
            statements.append_event(
                app_name=APP,
                user_id=live.user_id,
                session_id=live.session_id,
                event_id=event.id,
                timestamp=datetime.fromtimestamp(event.timestamp, UTC),
                payload=event.model_dump_json(exclude_none=True),
                session_delta=delta.session,
                app_delta=delta.app,
                user_delta=delta.user,
                state_limit=_STATE_LIMIT,
                writer_limit=_STATE_LIMIT,
                incarnation=live.incarnation,
                revision=live.revision,
                revision_token=live.token,
                token=token,
                merge=self._merge,
                holder=None,
            )
        )
        live.revision, live.token = row["answer"], token

    async def get(self, user_id: str, session_id: str) -> _Live:
        (row,) = await self._fetch(
            reading_statements.select_session(
                app_name=APP, user_id=user_id, session_id=session_id, after=None
            )
        )
        payloads, next_seq = list(row["payloads"]), row["next_seq"]
        marker = (row["incarnation"], row["revision"], row["revision_token"])
        while next_seq is not None:
            (page,) = await self._fetch(
                reading_statements.select_further_events(
                    app_name=APP,
                    user_id=user_id,
                    session_id=session_id,
                    incarnation=row["incarnation"],
                    revision=row["revision"],
                    revision_token=row["revision_token"],
                    next_seq=next_seq,
                    after=None,
                )
            )
            payloads += page["payloads"]
            next_seq = page["next_seq"]
        events = _EVENTS.validate_json(f"[{','.join(payloads)}]")
        return _Live(user_id, session_id, *marker, events, row)

    async def list_sessions(self, user_id: str, limit: int) -> Sequence[str]:
        rows = await self._fetch(
            reading_statements.list_sessions(
                app_name=APP,
                user_id=user_id,
                after_time=None,
                after_session_id=None,
                limit=limit,
                most_bytes=_MOST_BYTES,
            )
        )
        return [row["session_id"] for row in rows]

    def prepared(self, event: Event) -> Event:
        return event

    def seen(self, live: _Live) -> Seen:
        assert live.row is not None
        state = merge(live.row["state"], live.row["app_state"], live.row["user_state"])
        return Seen([(event.id, content(event)) for event in live.events], state)


class Floor:
    """The very statements that adkpg sends; a read ends with one `validate_json`."""

    name = "floor"
    distribution = ""
    keeps_state = True
    lists = True
    note = "adkpg's statement on a raw asyncpg pool"

    async def prepare(self, url: str) -> None:
        await Adkpg().prepare(url)

    @asynccontextmanager
    async def open(
        self, url: str, pool_size: int, *, shared: bool = False
    ) -> AsyncIterator[_Service]:
        async def keep(connection: Any) -> None:
            """Spares the round trip that asyncpg's pool resets a returned connection with."""

        async with asyncpg.create_pool(
            url, min_size=pool_size, max_size=pool_size, reset=keep
        ) as pool:
            yield _Service(pool, merge=shared)
