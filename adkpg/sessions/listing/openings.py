"""How the sessions of a page began."""

from collections.abc import Sequence
from dataclasses import dataclass

from google.adk.events.event import Event
from google.adk.sessions.session import Session

from adkpg.database import Source
from adkpg.jsontext import read_events
from adkpg.sessions import life_statements

_AT_ONCE = 100  # each id is looked up with each user


@dataclass(frozen=True)
class Opening:
    """How a session began.

    Attributes:
      events: How many events are stored of it.
      words: The first text that was said in it; empty if its first events have none, or long ones.
    """

    events: int
    words: str


async def openings(source: Source, app_name: str, sessions: Sequence[Session]) -> list[Opening]:
    """Returns how each of an app's sessions began, in their order."""
    found: dict[tuple[str, str], Opening] = {}
    for start in range(0, len(sessions), _AT_ONCE):
        some = sessions[start : start + _AT_ONCE]
        wanted = life_statements.select_openings(
            app_name=app_name,
            user_ids=list({session.user_id for session in some}),
            session_ids=list({session.id for session in some}),
        )
        for row in await source.fetch(wanted):
            brief = [payload for payload in row["payloads"] or () if payload is not None]
            words = next(filter(None, map(_text, read_events(brief))), "")
            found[row["user_id"], row["session_id"]] = Opening(row["events"], words)
    return [found.get((each.user_id, each.id), Opening(0, "")) for each in sessions]


def _text(event: Event) -> str:
    parts = (event.content.parts if event.content else None) or []
    return "\n".join(part.text for part in parts if part.text and not part.thought)
