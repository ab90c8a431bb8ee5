"""``adkpg sessions``: what is stored of conversations."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

import adkpg
from adkpg.cli.answers import answer
from adkpg.cli.connection import connected
from adkpg.cli.options import MOST, app, as_json, cursor, limit, user
from adkpg.terminal import show as show_table

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session


@click.group()
def sessions() -> None:
    """Look at the stored sessions.

    \b
    Example:
      adkpg sessions list --app my_agent
    """


@sessions.command("list")
@app
@click.option("--user", "user_id", help="Only this user's sessions.")
@limit("sessions")
@cursor
@as_json
@connected
async def list_(
    database: adkpg.Database,
    app_name: str,
    user_id: str | None,
    limit: int,
    cursor: str | None,
    *,
    as_json: bool,
) -> None:
    """List an app's sessions, newest first.

    One user's are sorted by their last update, a whole app's by their creation.

    \b
    Example:
      adkpg sessions list --app my_agent --user alice --limit 5
      adkpg sessions list --app my_agent --json | jq -r '.sessions[].id'
    """
    page = await adkpg.DatabaseSessionService(database).list_sessions_page(
        app_name=app_name, user_id=user_id, limit=limit, cursor=cursor
    )
    listed = [_jsonable(session, exclude={"events"}) for session in page.sessions]
    answer(
        {"sessions": listed, "next_cursor": page.next_cursor},
        _COLUMNS,
        [*map(_row, page.sessions)],
        as_json=as_json,
        nothing=f"No session of app {app_name!r} is stored.",
    )


@sessions.command()
@click.argument("session_id", metavar="ID")
@app
@user
@click.option(
    "--events",
    "recent",
    default=20,
    show_default=True,
    type=click.IntRange(0, MOST),
    help="At most this many events, the last ones.",
)
@as_json
@connected
async def show(
    database: adkpg.Database,
    session_id: str,
    app_name: str,
    user_id: str,
    recent: int,
    *,
    as_json: bool,
) -> None:
    """Show a session's state and last events.

    The state includes the user's and the app's; events come in the order they were appended.

    \b
    Example:
      adkpg sessions show 3f2a --app my_agent --user alice --events 50
    """
    from google.adk.sessions.base_session_service import GetSessionConfig

    session = await adkpg.DatabaseSessionService(database).get_session(
        app_name=app_name,
        user_id=user_id,
        session_id=session_id,
        config=GetSessionConfig(num_recent_events=recent),
    )
    if session is None:
        raise adkpg.errors.SessionNotFound(
            f"User {user_id!r} of app {app_name!r} has no session {session_id!r}; "
            f"`adkpg sessions list --app {app_name}` shows those that are stored."
        )
    answer(_jsonable(session), _COLUMNS, [_row(session)], as_json=as_json, nothing="")
    if as_json:
        return
    if session.state:
        click.echo()
        state = sorted(session.state.items())
        show_table(("KEY", "VALUE"), [(key, _json(value)) for key, value in state], full=True)
    if session.events:
        click.echo()
        said = [(_moment(each.timestamp), each.author, _content(each)) for each in session.events]
        show_table(("TIME", "AUTHOR", "CONTENT"), said, full=True)


_COLUMNS = ("USER", "SESSION", "LAST UPDATE", "STATE")


def _row(session: Session) -> tuple[str, ...]:
    time = _moment(session.last_update_time)
    return (session.user_id, session.id, time, ", ".join(session.state))


def _content(event: Event) -> str:
    """One line for each part: its text, its tool call or answer, or the kind of what it holds."""
    lines = []
    for part in (event.content.parts if event.content else None) or []:
        if part.text is not None:
            lines.append(part.text)
        elif part.function_call is not None:
            lines.append(f"call {part.function_call.name}({_json(part.function_call.args)})")
        elif part.function_response is not None:
            answer = _json(part.function_response.response)
            lines.append(f"answer of {part.function_response.name}: {answer}")
        else:
            lines.append(f"[{', '.join(part.model_dump(exclude_none=True))}]")
    if event.actions.state_delta:
        lines.append(f"state: {_json(event.actions.state_delta)}")
    return "\n".join(lines)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _moment(seconds: float) -> str:
    """A moment in UTC, or the number itself where no calendar holds it."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def _jsonable(session: Session, exclude: set[str] | None = None) -> dict[str, Any]:
    return session.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=exclude)
