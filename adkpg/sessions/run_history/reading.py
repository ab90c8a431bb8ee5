"""Reading: a session with the events that a run needs."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from google.adk.events.event import Event

from adkpg.database import Source
from adkpg.errors import ConfigurationError
from adkpg.sessions.history import History
from adkpg.sessions.run_history import outline, statements
from adkpg.sessions.run_history.choice import needed
from adkpg.sessions.run_history.outline import Outline
from adkpg.sql import SessionParameters

RunHistory = Literal["whole", "needed"] | int

_WHOLE = 200  # events of a session that is not worth choosing from
_PAGE_EVENTS = 1_000
_PAGE_BYTES = 4_000_000
_SLICE = 2_000  # outlines that are read in one go


class NeededEvents(list[Event]):
    """Some events of a session, as its Session holds them: those that a run needs."""


def checked(run_history: RunHistory) -> RunHistory:
    """Returns how much a run loads.

    Raises:
      ConfigurationError: It is neither ``"whole"`` nor ``"needed"`` nor a number above 0.
    """
    number = isinstance(run_history, int) and not isinstance(run_history, bool)
    if run_history not in ("whole", "needed") and not (number and int(run_history) > 0):
        raise ConfigurationError(
            f"run_history={run_history!r} is neither 'whole' nor 'needed' nor a number of events "
            "above 0; give one of them."
        )
    return run_history


async def read(
    source: Source, place: SessionParameters, run_history: RunHistory
) -> tuple[Any, list[Event]] | None:
    """Returns a session's row and its events, as `NeededEvents` if these are not all.

    A session of few events is one round trip; of others the outline is read first. None if there is
    no such session.
    """
    last = run_history if isinstance(run_history, int) else None
    whole = _WHOLE if last is None else min(last, _WHOLE)
    while True:
        wanted: statements.OutlinedSessionParameters = {**place, "whole": whole}
        row = await source.fetch_one(statements.select_outlined_session(), wanted)
        if row is None:
            return None
        history = History()
        if row["payloads"] is not None:
            await history.add(row["payloads"])
            return row, history.events
        outlines = await _read(row["outlines"])
        chosen = needed(outlines, last=last)
        for page in _pages(chosen):
            its: statements.ChosenEventsParameters = {
                **place,
                "incarnation": row["incarnation"],
                "revision": row["revision"],
                "revision_token": row["revision_token"],
                "seqs": page,
            }
            found = await source.fetch_one(statements.select_chosen_events(), its)
            if found is None or len(found["payloads"]) != len(page):
                break  # it was deleted meanwhile, or is no more what it was
            await history.add(found["payloads"])
        else:
            all_of_them = len(chosen) == len(outlines)
            return row, history.events if all_of_them else NeededEvents(history.events)


async def _read(texts: Sequence[str]) -> list[Outline]:
    outlines: list[Outline] = []
    for start in range(0, len(texts), _SLICE):
        outlines += map(outline.read, texts[start : start + _SLICE])
        await asyncio.sleep(0)
    return outlines


def _pages(chosen: Sequence[Outline]) -> Iterator[list[int]]:
    page: list[int] = []
    size = 0
    for each in chosen:
        page.append(each.seq)
        size += each.size
        if len(page) == _PAGE_EVENTS or size >= _PAGE_BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page


def rewinds() -> bool:
    """Whether the caller is ADK's ``Runner.rewind_async``, or one that overrides it.

    It replays the states and files of all events before an invocation, so it reads a session whole;
    but it asks for it in the very words of a run, and nothing else tells the two apart.
    """
    frame = sys._getframe(1)
    while (caller := frame.f_back) is not None:
        if caller.f_code.co_name == "rewind_async":
            return True
        frame = caller
    return False
