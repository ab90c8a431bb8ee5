"""``adkpg sessions``: what is stored of conversations."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

import adkpg
from adkpg.tooling.cli.answers import answer
from adkpg.tooling.cli.connection import connected, database_url, run
from adkpg.tooling.cli.options import (
    ALL_USERS,
    MOST,
    app,
    app_or_all,
    as_json,
    cursor,
    limit,
    span,
    user,
    whose,
)
from adkpg.tooling.cli.removal import Removal, removes
from adkpg.tooling.terminal import printable
from adkpg.tooling.terminal import show as show_table

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session


@click.group()
def sessions() -> None:
    """Look at the stored sessions, and delete them.

    \b
    Example:
      adkpg sessions list --app my_agent
      adkpg sessions prune --app my_agent --all-users --older-than 90d
    """


@sessions.command("list")
@app
@whose(ALL_USERS, missing=ALL_USERS)
@limit("sessions")
@cursor
@as_json
@connected
async def list_(
    database: adkpg.Database,
    app_name: str,
    user_id: str | adkpg.Users,
    limit: int,
    cursor: str | None,
    *,
    as_json: bool,
) -> None:
    """List an app's sessions, newest first.

    One user's are sorted by their last update, a whole app's by their creation. EVENTS counts those
    that are stored, and FIRST WORDS are the first that were said.

    \b
    Example:
      adkpg sessions list --app my_agent --user alice --limit 5
      adkpg sessions list --app my_agent --json | jq -r '.sessions[].id'
    """
    from adkpg.sessions.listing.openings import openings

    of_user = user_id if isinstance(user_id, str) else None
    page = await adkpg.DatabaseSessionService(database).list_sessions_page(
        app_name=app_name, user_id=of_user, limit=limit, cursor=cursor
    )
    begun = await openings(database.run, app_name, page.items)
    listed = [
        {**_jsonable(session, exclude={"events"}), "eventCount": opening.events}
        | ({"firstWords": opening.words} if opening.words else {})
        for session, opening in zip(page.items, begun, strict=True)
    ]
    rows = [
        (session.user_id, session.id, _moment(session.last_update_time), began.events, began.words)
        for session, began in zip(page.items, begun, strict=True)
    ]
    answer(
        {"sessions": listed, "next_cursor": page.next_cursor},
        ("USER", "SESSION", "LAST UPDATE", "EVENTS", "FIRST WORDS"),
        rows,
        as_json=as_json,
        nothing=f"No session of {'' if of_user is None else f'user {of_user!r} of '}app "
        f"{app_name!r} is stored.",
        footer="By creation, the newest first; with --user by last update."
        if of_user is None and len(listed) > 1
        else None,
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
      adkpg sessions show trip-1 --app my_agent --user alice --events 50
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


@sessions.command()
@click.argument("session_ids", metavar="ID...", nargs=-1, required=True)
@app
@user
@click.option("--forget", is_flag=True, help="Also erase the memories of these sessions.")
@removes
@database_url
def delete(
    session_ids: tuple[str, ...],
    app_name: str,
    user_id: str,
    forget: bool,
    database_url: str | None,
    **consent: bool,
) -> None:
    """Delete sessions with their events and saved files.

    The user's and the app's state stay, and memories unless --forget is given.

    \b
    Example:
      adkpg sessions delete trip-1 --app my_agent --user alice
      adkpg sessions delete trip-1 trip-2 --app my_agent --user alice \\
        --forget --yes
    """

    def remove(dry_run: bool) -> list[Session]:
        async def each(database: adkpg.Database) -> list[Session]:
            from google.adk.sessions.base_session_service import GetSessionConfig

            service = adkpg.DatabaseSessionService(database)
            stored = [
                await service.get_session(
                    app_name=app_name,
                    user_id=user_id,
                    session_id=session_id,
                    config=GetSessionConfig(num_recent_events=0),
                )
                for session_id in dict.fromkeys(session_ids)
            ]
            found = [session for session in stored if session is not None]
            for session in [] if dry_run else found:
                await service.delete_session(
                    app_name=app_name, user_id=user_id, session_id=session.id, forget=forget
                )
            return found

        return run(database_url, each)

    Removal(
        remove=remove,
        show=lambda found: show_table(_COLUMNS, [*map(_row, found)]),
        jsonable=lambda found: {"deleted": [session.id for session in found]},
        question="Delete these sessions for good?",
        nothing=f"User {printable(user_id)} of app {printable(app_name)} has no such session.",
    ).carry_out(**consent)


@sessions.command()
@app_or_all
@whose(ALL_USERS)
@click.option(
    "--older-than", type=span, help="Delete sessions whose last event is older than this."
)
@click.option(
    "--events-only", is_flag=True, help="Delete only the old events; sessions and state stay."
)
@click.option(
    "--user-state",
    "user_states",
    is_flag=True,
    help="Also delete the old user: state of users who have no session left.",
)
@removes
@database_url
def prune(
    app_name: str | None,
    user_id: str | adkpg.Users,
    older_than: timedelta | None,
    events_only: bool,
    user_states: bool,
    database_url: str | None,
    **consent: bool,
) -> None:
    """Delete expired sessions, and old ones.

    Expired sessions are always deleted, others by age, with their events and saved files. Memories
    stay, and so does the user: state, unless --user-state is given.

    \b
    Example:
      adkpg sessions prune --all-apps --all-users --dry-run
      adkpg sessions prune --app my_agent --all-users --older-than 90d
      adkpg sessions prune --app my_agent --user alice --older-than 30d \\
        --events-only --yes
    """

    def remove(dry_run: bool) -> list[adkpg.erasure.PrunedSessions]:
        return run(
            database_url,
            lambda database: adkpg.erasure.prune_sessions(
                database,
                app_name=app_name,
                user_id=user_id,
                older_than=older_than,
                events_only=events_only,
                user_states=user_states,
                dry_run=dry_run,
            ),
        )

    Removal(
        remove=remove,
        show=_show_pruned,
        jsonable=lambda pruned: {"pruned": [asdict(each) for each in pruned]},
        question="Delete these events for good?" if events_only else "Delete these for good?",
        nothing="There is no session to delete."
        if not events_only
        else "There is no event to delete.",
    ).carry_out(**consent)


def _show_pruned(pruned: list[adkpg.erasure.PrunedSessions]) -> None:
    rows = [
        (each.app_name, each.user_id, each.sessions, each.events, each.states) for each in pruned
    ]
    show_table(("APP", "USER", "SESSIONS", "EVENTS", "USER STATES"), rows)


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
