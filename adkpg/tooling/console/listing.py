"""Listing: a person's sessions, by their last update or by what was said in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.adk.events.event import Event

from adkpg.pages import cursor_of
from adkpg.sessions.listing.openings import openings
from adkpg.tooling.console import forms
from adkpg.tooling.console.masks import masked_event
from adkpg.tooling.console.page import Console
from adkpg.tooling.console.transcript import moment, parts_of

_ROWS = 50
_BEFORE = 60
_LENGTH = 240


@dataclass(frozen=True)
class Said:
    """An event that has the words that were looked for.

    Attributes:
      event_id: Its id.
      author: Who said it.
      when: As ISO 8601.
      text: What stands around the first of the words.
    """

    event_id: str
    author: str
    when: str
    text: str


async def sessions_of(
    console: Console, fields: Mapping[str, str], app_name: str, user_id: str
) -> dict[str, Any]:
    """Returns what the page of a user's sessions shows: sessions, or events that have some words.

    Raises:
      InvalidInput: A field cannot be read.
    """
    query = fields.get("q", "").strip()
    after, before = forms.time(fields, "after"), forms.time(fields, "before")
    cursor = fields.get("cursor") or None
    if query:
        events = await console.sessions.search_events(
            app_name=app_name,
            user_id=user_id,
            query=query,
            session_id=fields.get("session") or None,
            after=after,
            before=before,
            limit=_ROWS,
            cursor=cursor,
        )
        found: dict[str, list[Said]] = {}
        for each in events.items:
            if (text := excerpt(each.event, query)) is not None:
                said = Said(each.event.id, each.event.author, moment(each.event.timestamp), text)
                found.setdefault(each.session_id, []).append(said)
        return {"query": query, "found": found, "next_cursor": events.next_cursor}
    if cursor is None and before is not None:
        cursor = cursor_of(before, user_id, "")  # the place before the first session of that time
    page = await console.sessions.list_sessions_page(
        app_name=app_name, user_id=user_id, limit=_ROWS, cursor=cursor
    )
    sessions = [
        each for each in page.items if after is None or each.last_update_time >= after.timestamp()
    ]
    return {
        "query": "",
        "sessions": sessions,
        "openings": await openings(console.database.run, app_name, sessions),
        "next_cursor": page.next_cursor if len(sessions) == len(page.items) else None,
    }


def excerpt(event: Event, query: str) -> str | None:
    """Returns the text around a query's first word in what the console shows of an event.

    Args:
      event: An event that a search found.
      query: Its words. The event must have all of them without its credentials, so that no search
        tells what a masked one is.

    Returns:
      None if a word is missing.
    """
    shown = masked_event(event)
    heard = (shown.get(key) or {} for key in ("inputTranscription", "outputTranscription"))
    texts = [
        *(f"{part.title} {part.text}".strip() for part in parts_of(shown)),
        *(str(each.get("text") or "") for each in heard),
    ]
    words = query.casefold().split()
    said = "\n".join(texts).casefold()
    if not all(word in said for word in words):
        return None
    text = next(each for each in texts if words[0] in each.casefold())
    start = max(text.casefold().find(words[0]) - _BEFORE, 0)
    end = start + _LENGTH
    return f"{'…' if start else ''}{text[start:end]}{'…' if len(text) > end else ''}"
