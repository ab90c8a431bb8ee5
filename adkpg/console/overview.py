"""Overview: apps, their users and sessions, how they grow, and what waits."""

from starlette.requests import Request
from starlette.responses import Response

from adkpg import operations
from adkpg.console import forms, plots
from adkpg.console.page import Console, everybody, query_of

_DAYS = 30


async def overview(console: Console, request: Request) -> Response:
    """Shows all apps."""
    days = forms.whole(query_of(request), "days", _DAYS)
    with everybody():
        apps = (await operations.statistics(console.database, users=1, exact=False)).apps
        growth = await operations.growth(console.database, days=days, exact=False)
    return console.page(
        request,
        "overview.html",
        apps=apps,
        estimated=any(app.estimated for app in apps),
        most={
            name: max((getattr(app, name) for app in apps), default=0)
            for name in ("users", "sessions", "events", "memories")
        },
        plots={
            noun: plots.columns([(str(each.day), getattr(each, noun)) for each in growth])
            for noun in ("sessions", "events", "memories")
        },
        days=days,
    )


async def app(console: Console, request: Request) -> Response:
    """Shows an app: its users, its newest sessions and its growth."""
    fields = query_of(request)
    app_name = forms.required(fields, "app")
    part = fields.get("part", "").strip()
    days = forms.whole(fields, "days", _DAYS)
    with everybody():
        users = await operations.list_users(
            console.database,
            app_name=app_name,
            part=part,
            limit=25,
            cursor=fields.get("users") or None,
        )
        sessions = await console.sessions.list_sessions_page(
            app_name=app_name, limit=15, cursor=fields.get("sessions") or None
        )
        growth = await operations.growth(
            console.database, app_name=app_name, days=days, exact=False
        )
    return console.page(
        request,
        "app.html",
        app_name=app_name,
        part=part,
        users=users,
        sessions=sessions,
        later=bool(fields.get("users") or fields.get("sessions")),
        plots={
            noun: plots.columns([(str(each.day), getattr(each, noun)) for each in growth])
            for noun in ("sessions", "events", "memories")
        },
        days=days,
    )
