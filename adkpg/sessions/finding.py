"""Finding: events of a user's sessions by the words that were said in them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Any

from google.adk.events.event import Event

from adkpg import jsontext
from adkpg.database import Source
from adkpg.errors import InvalidInput
from adkpg.jsontext import read_events
from adkpg.keys import ScopeKey
from adkpg.limits import page_rows, require_size
from adkpg.pages import Page, cursor_of, place_of
from adkpg.sessions import life_statements
from adkpg.settings import Settings
from adkpg.timestamps import moment

_PAGE = 100
_MOST_WORDS = 32
_LOOKED_AT = 100  # characters of a word that the server looks for


@dataclass(frozen=True)
class FoundEvent:
    """An event that has all words.

    Attributes:
      session_id: Where it was said.
      event: The event.
    """

    session_id: str
    event: Event


async def find(
    source: Source,
    settings: Settings,
    scope: ScopeKey,
    *,
    query: str,
    session_id: str | None,
    authors: Sequence[str] | None,
    after: date | str | float | None,
    before: date | str | float | None,
    limit: int,
    cursor: str | None,
) -> Page[FoundEvent]:
    """Reads a page of events; `DatabaseSessionService.search_events` says of which."""
    limit = page_rows(settings, limit)
    require_size(settings, "max_query_kb", "The question", query)
    words = list(dict.fromkeys(jsontext.mended(query).casefold().split()))
    if not words:
        raise InvalidInput("The query has no word; give at least one.")
    if len(words) > _MOST_WORDS:
        raise InvalidInput(f"The query has {len(words)} words; give at most {_MOST_WORDS}.")
    last: Any = (None, None, None)
    if cursor is not None:
        last = place_of(cursor, datetime, str, int)
    patterns = ["\x1f".join(_patterns(word[:_LOOKED_AT])) for word in words]
    since = None if after is None else moment("after", after)
    until = None if before is None else moment("before", before)
    find_next = life_statements.find_events
    if session_id is not None:
        find_next = partial(life_statements.find_events_of_session, session_id=session_id)
    found: list[FoundEvent] = []
    places: list[Any] = []
    while True:
        rows = await source.fetch(
            find_next(
                **scope,
                patterns=patterns,
                after=since,
                before=until,
                last_time=last[0],
                last_session_id=last[1],
                last_seq=last[2],
                limit=_PAGE,
            )
        )
        for row, event in zip(rows, read_events([row["payload"] for row in rows]), strict=True):
            said = "\n".join(_texts(event)).casefold()
            by_them = authors is None or event.author in authors
            if by_them and all(word in said for word in words):
                if len(found) == limit:
                    return Page(found, cursor_of(*places[-1]))
                found.append(FoundEvent(row["session_id"], event))
                places.append(_place(row))
        if len(rows) < _PAGE:
            return Page(found, None)
        last = _place(rows[-1])


def _place(row: Mapping[str, Any]) -> tuple[datetime, str, int]:
    return row["timestamp"], row["session_id"], row["seq"]


def _patterns(word: str) -> Iterator[str]:
    """What a word is like in JSON, whatever its case; the server folds ASCII for certain."""
    for variant in dict.fromkeys((word, word.upper(), word.title(), word.swapcase())):
        written = json.dumps(variant, ensure_ascii=False)[1:-1]
        yield f"%{''.join(map(_escaped, written))}%"


def _escaped(character: str) -> str:
    return f"\\{character}" if character in "\\%_" else character


def _texts(event: Event) -> Iterator[str]:
    """Everything that an event says: texts, calls and answers of tools, transcriptions."""
    yield from _leaves(event.content.model_dump(exclude_none=True) if event.content else None)
    for heard in (event.input_transcription, event.output_transcription):
        if heard is not None and heard.text:
            yield heard.text


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)
