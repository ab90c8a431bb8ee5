"""Operating: what waits, dead letters, models, sizes, health, and who changed what."""

from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response

from adkpg.errors import InvalidInput
from adkpg.keys import Users
from adkpg.memory.queue.jobs import Jobs, WorkKind
from adkpg.tooling import operations
from adkpg.tooling.console import forms
from adkpg.tooling.console.page import Console, back_to, everybody, form_of, person, query_of
from adkpg.tooling.filled import filled

_KINDS: tuple[WorkKind, ...] = get_args(WorkKind)


async def show(console: Console, request: Request) -> Response:
    """Shows everything that an operator looks after."""
    fields = query_of(request)
    examines = bool(fields.get("examine"))  # which reads the keys of all memories
    with everybody():
        queues = {work: Jobs(console.database, work=work) for work in _KINDS}
        values: dict[str, Any] = {
            "backlogs": [await jobs.backlog() for jobs in queues.values()],
            "dead": {
                work: await jobs.dead(limit=50, cursor=fields.get(f"{work}_cursor") or None)
                for work, jobs in queues.items()
            },
            "models": await console.models.list_models() if examines else None,
            "tables": await operations.table_sizes(console.database),
            "examination": await operations.examine(console.database) if examines else None,
        }
    tables, empty = filled(values["tables"], lambda table: table.rows)
    return console.page(request, "operations.html", filled=tables, empty=empty, **values)


async def retry(console: Console, request: Request) -> Response:
    """Makes a dead letter due again: the work of one memory."""
    fields = form_of(request)
    work, memory_id = _kind(forms.required(fields, "work")), forms.required(fields, "memory")
    with person(fields) as (app_name, user_id):
        async with console.changing(
            request, app_name=app_name, user_id=user_id, action="retry", subject=memory_id
        ):
            await Jobs(console.database, work=work).revive(
                app_name=app_name,
                user_id=Users.APP_WIDE if user_id is None else user_id,
                memory_id=memory_id,
            )
    return back_to(request, "operations")


async def retry_all(console: Console, request: Request) -> Response:
    """Makes all dead letters of an app due again."""
    fields = form_of(request)
    work, app_name = _kind(forms.required(fields, "work")), forms.required(fields, "app")
    with everybody():
        async with console.changing(
            request, app_name=app_name, user_id=None, action="retry_all", subject=work
        ):
            await Jobs(console.database, work=work).revive(app_name=app_name)
    return back_to(request, "operations")


async def audit(console: Console, request: Request) -> Response:
    """Shows who changed what."""
    fields = query_of(request)
    app_name = fields.get("app") or None
    with everybody():
        page = await console.audit.entries(
            app_name=app_name, limit=100, cursor=fields.get("cursor") or None
        )
    return console.page(request, "audit.html", page=page, app_name=app_name)


def _kind(name: str) -> WorkKind:
    for kind in _KINDS:
        if kind == name:
            return kind
    raise InvalidInput(
        f"There is no kind of work {name[:40]!r}; choose one of {', '.join(_KINDS)}."
    )
