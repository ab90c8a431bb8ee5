"""Records: ADK sessions of rows. No I/O."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.adk.sessions.session import Session

from adkpg.sessions import state
from adkpg.timestamps import unix

_SLICE = 100  # sessions that are made in one go
_MARKER = re.compile(r"([0-9a-f-]{36}):([0-9]{1,18}):([0-9a-f-]{36})?")


@dataclass(frozen=True)
class Marker:
    """The incarnation and revision of storage that a live Session stands at.

    As text, ``incarnation:revision:token``, it is the Session's ``_storage_update_marker``.

    Attributes:
      incarnation: The session's; one created again under the same id has another.
      revision: How many events were ever appended.
      token: The last event's, since the number of a revision may come again: storage goes back when
        an asynchronous standby takes over. None before the first event.
    """

    incarnation: str
    revision: int
    token: str | None

    def __str__(self) -> str:
        return f"{self.incarnation}:{self.revision}:{self.token or ''}"

    @classmethod
    def of(cls, session: Session) -> "Marker | None":
        """Returns the marker of a live Session; None if another service or JSON made it."""
        return cls.read(session._storage_update_marker or "")

    @classmethod
    def read(cls, text: str) -> "Marker | None":
        """Reads a marker; None if the text is none."""
        match = _MARKER.fullmatch(text)
        return cls(match[1], int(match[2]), match[3]) if match else None

    def set(self, session: Session) -> None:
        """Marks a live Session as being at this revision."""
        session._storage_update_marker = str(self)


def session(
    *,
    app_name: str,
    row: Mapping[str, Any],
    app_state: str | None,
    user_state: str | None,
) -> Session:
    """Returns a live Session of a stored row, without events; it shares nothing with any other."""
    live = Session(
        id=row["session_id"],
        app_name=app_name,
        user_id=row["user_id"],
        state=state.merge(row["state"], app_state, user_state),
        events=[],
        last_update_time=unix(row["updated_at"]),
    )
    Marker(row["incarnation"], row["revision"], row["revision_token"]).set(live)
    return live


def fitting(
    rows: Sequence[Mapping[str, Any]], most_bytes: int, order: str
) -> tuple[Sequence[Mapping[str, Any]], int]:
    """Returns the rows of a listing that an answer has room for, and how many there would be.

    Newest first, by a time, user and id: each part of the tables sends its own rows so. Where a
    part had no room for all of its own, the listing ends.
    """

    def place(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return row[order], row["user_id"], row["session_id"]

    parts: list[list[Mapping[str, Any]]] = []
    for row in rows:
        if row["number"] == 1:
            parts.append([])
        parts[-1].append(row)
    there = sum(part[0]["listed"] for part in parts)
    ends = {place(part[-1]) for part in parts if len(part) < part[0]["listed"]}
    merged = sorted(rows, key=place, reverse=True)
    size = 0
    for number, row in enumerate(merged):
        size += row["size"]
        if number and size > most_bytes:
            return merged[:number], there
        if place(row) in ends:
            return merged[: number + 1], there
    return merged, there


async def listed(app_name: str, rows: Iterable[Mapping[str, Any]]) -> list[Session]:
    """Returns the Sessions of a listing, without events and with their whole merged state.

    Other tasks are served meanwhile.

    A listing ships each shared state once: the app's on its first row, a user's on the first row
    of that user. Each is read once; Sessions have containers of their own, and share the texts.
    """
    of_app: dict[str, Any] = {}
    of_users: dict[str, dict[str, Any]] = {}
    sessions = []
    for number, row in enumerate(rows, start=1):
        if number % _SLICE == 0:
            await asyncio.sleep(0)
        if row["app_state"] is not None:
            of_app = state.merge(None, row["app_state"], None)
        if row["user_state"] is not None:
            of_users[row["user_id"]] = state.merge(None, None, row["user_state"])
        live = session(app_name=app_name, row=row, app_state=None, user_state=None)
        for shared in (of_app, of_users.get(row["user_id"], {})):
            live.state.update(_copied(shared))
        sessions.append(live)
    return sessions


def _copied(values: dict[str, Any]) -> dict[str, Any]:
    """Returns JSON values in containers of their own, however deep they are nested."""
    copy = dict(values)
    containers: list[Any] = [copy]
    for container in containers:  # it grows by those found inside
        items = container.items() if isinstance(container, dict) else enumerate(container)
        for key, value in items:
            if isinstance(value, (dict, list)):
                container[key] = value.copy()
                containers.append(container[key])
    return copy
