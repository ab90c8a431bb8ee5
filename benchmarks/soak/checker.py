"""Checker: what a history of appends and reads must never show, in the manner of Jepsen's lists.

Each value is appended once, so the final list of a session tells the order in which the appends
took effect, and every read must be a prefix of it that fits the clock: it holds what was
acknowledged before it began, and nothing that was not asked for before it ended.
"""

import math
from collections.abc import Iterator

from benchmarks.soak.history import History, Read, Session


def violations(history: History) -> list[str]:
    """Returns a sentence for everything that must not be; none of a history that holds."""
    found = list(history.violations)
    for session_id, session in history.sessions.items():
        found += [f"{session_id}: {what}" for what in _of_session(session)]
    return found


def _of_session(session: Session) -> Iterator[str]:
    final = session.final
    if final is None:
        if session.appends:
            yield "nobody read it at the end, so nothing is known of it"
        return
    place = {value: number for number, value in enumerate(final)}
    if len(place) < len(final):
        doubled = sorted({value for value in final if final.count(value) > 1})
        yield f"doubled: {doubled}"
    if invented := [value for value in final if value not in session.appends]:
        yield f"stored and never appended: {invented}"
    acknowledged = [each for each in session.appends.values() if each.ended is not None]
    if lost := [each.value for each in acknowledged if each.value not in place]:
        yield f"acknowledged and lost: {lost}"
    yield from _reordered(session, final)
    for read in session.reads:
        yield from _wrong_read(session, final, place, read)
    for live in session.live:
        if live != final:
            yield f"a live object differs: {_difference(live, final)}"


def _reordered(session: Session, final: tuple[str, ...]) -> Iterator[str]:
    """No append may come before one that had been acknowledged when it began."""
    first_end, first = math.inf, ""
    for value in reversed(final):
        append = session.appends.get(value)
        if append is None:
            continue
        if first_end < append.began:
            yield f"{value} began after {first} had ended, and is stored before it"
        if append.ended is not None and append.ended < first_end:
            first_end, first = append.ended, value


def _wrong_read(
    session: Session, final: tuple[str, ...], place: dict[str, int], read: Read
) -> Iterator[str]:
    if read.values != final[: len(read.values)]:
        yield f"a read is no prefix: {_difference(read.values, final)}"
        return
    stale = [
        each.value
        for each in session.appends.values()
        if each.ended is not None
        and each.ended < read.began
        and place.get(each.value, -1) >= len(read.values)
    ]
    if stale:
        yield f"a stale read lacks what was acknowledged before: {stale}"
    early = [
        value
        for value in read.values
        if value in session.appends and session.appends[value].began > read.ended
    ]
    if early:
        yield f"a read holds what was appended after it: {early}"


def _difference(found: tuple[str, ...], final: tuple[str, ...]) -> str:
    for number, value in enumerate(found):
        other = final[number] if number < len(final) else None
        if value != other:
            return f"at {number} it has {value}, stored is {other}"
    return f"it ends after {len(found)} of {len(final)}"
