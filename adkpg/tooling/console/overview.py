"""Overview: the apps, their users and sessions, who is looked for, and what waits."""

from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from adkpg.memory.queue.jobs import Jobs, WorkKind
from adkpg.sessions.listing.openings import openings
from adkpg.tooling import operations
from adkpg.tooling.console import forms
from adkpg.tooling.console.page import Console, everybody, query_of
from adkpg.tooling.operations.people import app_names

_MOST_APPS = 1_000
_USERS = 25


async def overview(console: Console, request: Request) -> Response:
    """Shows all apps, and what they have if that is asked for: to count reads much.

    A text finds the apps whose name contains it, and the users of all apps whose id does.
    """
    fields = query_of(request)
    counts = bool(fields.get("count"))
    part = fields.get("find", "").strip()
    with everybody():
        backlogs = [
            await Jobs(console.database, work=work).backlog() for work in get_args(WorkKind)
        ]
        names = await app_names(console.database, most=_MOST_APPS)
        apps = (await operations.statistics(console.database, users=1)).apps if counts else ()
        users = None
        if part:
            users = await operations.list_users(
                console.database,
                app_name=None,
                part=part,
                limit=_USERS,
                cursor=fields.get("users") or None,
            )

    def sought(name: str) -> bool:
        return part.casefold() in name.casefold()

    return console.page(
        request,
        "overview.html",
        names=names,
        part=part,
        users=users,
        found_names=list(filter(sought, names)),
        found_apps=[each for each in apps if sought(each.app_name)],
        most_apps=_MOST_APPS,
        backlogs=backlogs,
        apps=apps,
        most={
            name: max((getattr(app, name) for app in apps), default=0)
            for name in ("users", "sessions", "events", "memories")
        },
    )


async def app(console: Console, request: Request) -> Response:
    """Shows an app: its users and its newest sessions."""
    fields = query_of(request)
    app_name = forms.required(fields, "app")
    part = fields.get("part", "").strip()
    with everybody():
        users = await operations.list_users(
            console.database,
            app_name=app_name,
            part=part,
            limit=_USERS,
            cursor=fields.get("users") or None,
        )
        sessions = await console.sessions.list_sessions_page(
            app_name=app_name, limit=15, cursor=fields.get("sessions") or None
        )
        begun = await openings(console.database.run, app_name, sessions.items)
    return console.page(
        request,
        "app.html",
        app_name=app_name,
        part=part,
        users=users,
        sessions=sessions,
        openings=begun,
        later=bool(fields.get("users") or fields.get("sessions")),
    )
