"""``adkpg sessions``: what is stored of conversations."""

import json
from datetime import UTC, datetime
from typing import Any

import click
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from rich.table import Table

from adkpg.cli.connection import database_url, run
from adkpg.database import Database
from adkpg.errors import SessionNotFound
from adkpg.sessions.pages import SessionsPage
from adkpg.sessions.service import DatabaseSessionService
from adkpg.terminal import cell, console, table

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


@click.group()
def sessions() -> None:
    """Look at the stored sessions.

    \b
    Example:
      adkpg sessions list --app my_agent
    """


@sessions.command("list")
@click.option("--app", "app_name", required=True, help="The app's name.")
@click.option("--user", "user_id", help="Only this user's sessions.")
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(min=1),
    help="At most so many sessions.",
)
@click.option("--after", metavar="CURSOR", help="Go on behind the page that printed this cursor.")
@as_json
@database_url
def list_(
    app_name: str,
    user_id: str | None,
    limit: int,
    after: str | None,
    as_json: bool,
    database_url: str | None,
) -> None:
    """List an app's sessions, newest first.

    A user's by last update, a whole app's by creation.

    \b
    Example:
      adkpg sessions list --app my_agent --user alice --limit 5
      adkpg sessions list --app my_agent --json | jq -r '.sessions[].id'
    """

    async def read(database: Database) -> SessionsPage:
        return await DatabaseSessionService(database).list_sessions_page(
            app_name=app_name, user_id=user_id, limit=limit, after=after
        )

    page = run(database_url, read)
    if as_json:
        listed = [_jsonable(session, exclude={"events"}) for session in page.sessions]
        click.echo(json.dumps({"sessions": listed, "next": page.next}))
        return
    shown = table("USER", "SESSION", "LAST UPDATE", "STATE")
    for session in page.sessions:
        shown.add_row(
            cell(session.user_id),
            cell(session.id),
            cell(_moment(session.last_update_time)),
            cell(", ".join(session.state)),
        )
    console().print(shown)
    if page.next is not None:
        click.echo(f"There are more: --after {page.next}")


@sessions.command()
@click.argument("session_id", metavar="ID")
@click.option("--app", "app_name", required=True, help="The app's name.")
@click.option("--user", "user_id", required=True, help="The user's id.")
@click.option(
    "--events",
    "recent",
    default=20,
    show_default=True,
    type=click.IntRange(min=0),
    help="The last so many events.",
)
@as_json
@database_url
def show(
    session_id: str,
    app_name: str,
    user_id: str,
    recent: int,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Show a session's state and last events.

    The state with the user's and the app's, the events in the order they were appended.

    \b
    Example:
      adkpg sessions show 3f2a --app my_agent --user alice --events 50
    """

    async def read(database: Database) -> Session:
        session = await DatabaseSessionService(database).get_session(
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            config=GetSessionConfig(num_recent_events=recent),
        )
        if session is None:
            raise SessionNotFound(
                f"User {user_id!r} of app {app_name!r} has no session {session_id!r}; "
                f"`adkpg sessions list --app {app_name}` shows those that are stored."
            )
        return session

    session = run(database_url, read)
    if as_json:
        click.echo(json.dumps(_jsonable(session)))
        return
    out = console()
    out.print(_facts(session))
    if session.state:
        out.print()
        out.print(_state(session.state))
    if session.events:
        out.print()
        out.print(_events(session.events))


def _facts(session: Session) -> Table:
    shown = table("APP", "USER", "SESSION", "LAST UPDATE")
    shown.add_row(
        cell(session.app_name),
        cell(session.user_id),
        cell(session.id),
        cell(_moment(session.last_update_time)),
    )
    return shown


def _state(state: dict[str, Any]) -> Table:
    shown = table("KEY", "VALUE")
    for key, value in sorted(state.items()):
        shown.add_row(cell(key), cell(json.dumps(value, ensure_ascii=False)))
    return shown


def _events(events: list[Event]) -> Table:
    shown = table("TIME", "AUTHOR", "CONTENT")
    for event in events:
        shown.add_row(cell(_moment(event.timestamp)), cell(event.author), cell(_content(event)))
    return shown


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
