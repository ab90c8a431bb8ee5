"""History: a session's events, read and parsed in parts, so that none is too long to be read.

A reader keeps at most one page of texts besides the events that it made of them, and other tasks of
the event loop are served between two slices of a page.
"""

import asyncio
import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from google.adk.events.event import Event

from adkpg.database import Source
from adkpg.jsontext import read_events
from adkpg.keys import SessionKey
from adkpg.sessions import reading_statements

# What is parsed in one go, in some 10 to 20 ms.
_SLICE_EVENTS = 200
_SLICE_CHARACTERS = 1_000_000
_MANY = 1_000


@dataclass
class History:
    """Events in append order.

    Attributes:
      events: The events.
      size: Bytes of their texts.
    """

    events: list[Event] = field(default_factory=list)
    size: int = 0

    async def add(self, payloads: Sequence[str]) -> None:
        """Parses further events, and lets other tasks go on meanwhile."""
        for part in _slices(payloads):
            if self.events:
                await asyncio.sleep(0)
            if len(self.events) >= _MANY and not gc.get_freeze_count():
                # They are old by now, also to the collector: else it would look again and again
                # through all of them, which takes a second for some 200,000 events.
                gc.freeze()
                gc.unfreeze()
            self.events += read_events(part)
            self.size += sum(map(sys.getsizeof, part))


async def read(
    source: Source,
    place: SessionKey,
    row: Mapping[str, Any],
    *,
    after: datetime | None = None,
) -> History | None:
    """Returns the events that a session's row begins with, and those that it had no room for.

    All are of one moment: events never change, and none is read that came later. None if the
    session was deleted meanwhile, or is no more what it was: read it again.

    Args:
      source: Where.
      place: The session.
      row: From `select_session`, or from a statement that reads as it does.
      after: As the row was asked for.
    """
    history, page = History(), row
    await history.add(page["payloads"])
    while (next_seq := page["next_seq"]) is not None:
        found = await source.fetch_one(
            reading_statements.select_further_events(
                **place,
                incarnation=row["incarnation"],
                revision=row["revision"],
                revision_token=row["revision_token"],
                next_seq=next_seq,
                after=after,
            )
        )
        if found is None:
            return None
        page = found
        await history.add(page["payloads"])
    return history


def _slices(payloads: Sequence[str]) -> Iterator[Sequence[str]]:
    start = characters = 0
    for end, payload in enumerate(payloads, start=1):
        characters += len(payload)
        if end - start == _SLICE_EVENTS or characters >= _SLICE_CHARACTERS or end == len(payloads):
            yield payloads[start:end]
            start, characters = end, 0
