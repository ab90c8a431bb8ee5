"""People: what is remembered of a person, or of an app, and what may be done about it."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from adkpg.erasure import forget
from adkpg.errors import AdkpgError, InvalidInput
from adkpg.memory.filters import KINDS, SearchFilters
from adkpg.memory.records import Memory, text_of
from adkpg.scopes import scope
from adkpg.tooling.console import forms
from adkpg.tooling.console.listing import sessions_of
from adkpg.tooling.console.page import Console, back_to, form_of, person, query_of
from adkpg.tooling.transfer import export

logger = logging.getLogger(__name__)

_ROWS = 100
_FACTS = 500
VIEWS = {
    "memories": "Memories",
    "timeline": "Timeline",
    "facts": "Facts",
    "profile": "Profile",
    "sessions": "Sessions",
}
_GROUPS: dict[str, Callable[[Memory], list[str]]] = {
    "session": lambda memory: [memory.session_id or "(no session)"],
    "kind": lambda memory: [memory.kind],
    "topic": lambda memory: memory.topics or ["(no topic)"],
    "author": lambda memory: [memory.author or "(no author)"],
    "day": lambda memory: [(memory.timestamp or "")[:10]],
    "importance": lambda memory: [f"{memory.importance:.1f}"],
}


class _Download(StreamingResponse):
    """A file that is sent while it is made; what fails breaks it off, and it looks cut."""

    async def stream_response(self, send: Send) -> None:
        """Sends it; without its last message the server closes the connection."""
        try:
            await super().stream_response(send)
        except AdkpgError as exc:
            logger.error("A download broke off: %s", exc)


async def show(console: Console, request: Request) -> Response:
    """Shows one view of a person."""
    fields = query_of(request)
    view = fields.get("view", "memories")
    if view not in VIEWS:
        raise InvalidInput(f"There is no view {view[:40]!r}; choose one of {', '.join(VIEWS)}.")
    with person(fields) as (app_name, user_id):
        # Only the first page counts: later pages of 50,000 memories would cost as much each time.
        values: dict[str, Any] = {
            "live": None
            if fields.get("cursor")
            else await console.memory.count_memories(app_name=app_name, user_id=user_id)
        }
        if view in ("memories", "timeline"):
            values |= await _memories(console, fields, app_name, user_id, view)
        elif user_id is None:
            raise InvalidInput("An app has no facts or sessions of its own; choose its memories.")
        elif view == "facts":
            values |= await _facts(console, app_name, user_id)
        elif view == "profile":
            values["profile"] = await console.facts.profile(app_name=app_name, user_id=user_id)
            values["topics"] = await console.facts.topics(app_name=app_name, user_id=user_id)
        else:
            values |= await sessions_of(console, fields, app_name, user_id)
    return console.page(
        request,
        "person.html",
        app_name=app_name,
        user_id=user_id,
        view=view,
        views=VIEWS if user_id is not None else {"memories": "Memories", "timeline": "Timeline"},
        fields=fields,
        filtered=bool(fields.keys() - {"app", "user", "view", "cursor"}),
        text_of=lambda found: text_of(found.content),
        **values,
    )


async def memory(console: Console, request: Request) -> Response:
    """Shows one memory, where it was said again, what it replaced, and forms to change it."""
    fields = query_of(request)
    memory_id = forms.required(fields, "memory")
    with person(fields) as (app_name, user_id):
        same = await console.memory.same_as(app_name=app_name, user_id=user_id, memory_id=memory_id)
        if not same:
            return await _memory_of_app(console, request, app_name, memory_id)
        found, *again = same
        history: list[Memory] = []
        provenance: tuple[Memory, ...] = ()
        if found.kind == "fact" and user_id is not None:
            history = await console.facts.history(
                app_name=app_name, user_id=user_id, memory_id=memory_id
            )
            provenance = await _provenance(console, app_name, user_id, memory_id)
    return console.page(
        request,
        "memory.html",
        app_name=app_name,
        user_id=user_id,
        memory=found,
        text=text_of(found.content),
        again=again,
        history=[each for each in history if each.id != found.id],
        provenance=provenance,
        text_of=lambda each: text_of(each.content),
    )


async def _memory_of_app(
    console: Console, request: Request, app_name: str, memory_id: str
) -> Response:
    """Leads to a memory of the app itself: searches of its users find it too.

    Raises:
      InvalidInput: There is none.
    """
    with scope(app_name=app_name, user_id=None):
        found = await console.memory.get_memory(
            app_name=app_name, user_id=None, memory_id=memory_id
        )
    if found is None or "user" not in query_of(request):
        raise InvalidInput(f"There is no memory {memory_id[:100]!r}; it may have been deleted.")
    return back_to(request, "memory", app=app_name, memory=memory_id)


async def update(console: Console, request: Request) -> Response:
    """Changes a memory; what a form leaves empty stays."""
    fields = form_of(request)
    memory_id = forms.required(fields, "memory")
    text = fields.get("text", "").replace("\r\n", "\n").strip()
    with person(fields) as (app_name, user_id):
        before = await console.memory.get_memory(
            app_name=app_name, user_id=user_id, memory_id=memory_id
        )
        if before is None:
            raise InvalidInput(f"There is no memory {memory_id[:100]!r}; it may have been deleted.")
        changed: dict[str, Any] = {
            "importance": forms.decimal(fields, "importance"),
            "expires_at": forms.time(fields, "expires_at"),
            "never_expires": bool(fields.get("never_expires")),
        }
        if text and text != text_of(before.content).replace("\r\n", "\n").strip():
            changed["text"] = text
        if "topics" in fields and forms.words(fields, "topics") != before.topics:
            changed["topics"] = forms.words(fields, "topics")
        async with console.changing(
            request,
            app_name=app_name,
            user_id=user_id,
            action="update_memory",
            subject=memory_id,
        ):
            await console.memory.update_memory(
                app_name=app_name, user_id=user_id, memory_id=memory_id, **changed
            )
    return back_to(request, "memory", app=app_name, user=user_id, memory=memory_id)


async def delete(console: Console, request: Request) -> Response:
    """Deletes a memory and its repetitions, and says how many went."""
    fields = form_of(request)
    memory_id = forms.required(fields, "memory")
    with person(fields) as (app_name, user_id), console.acting(request):
        gone = await console.memory.delete_memory(
            app_name=app_name, user_id=user_id, memory_id=memory_id
        )
    return console.page(
        request,
        "deleted.html",
        app_name=app_name,
        user_id=user_id,
        memory_id=memory_id,
        gone=len(gone),
    )


async def download(console: Console, request: Request) -> Response:
    """Answers with everything that is stored of a person, as `adkpg export` writes it."""
    fields = query_of(request)
    app_name, user_id = forms.required(fields, "app"), forms.required(fields, "user")

    async def lines() -> AsyncIterator[bytes]:
        with scope(app_name=app_name, user_id=user_id), console.acting(request):
            async for line in export(console.database, app_name=app_name, user_id=user_id):
                yield line.encode(errors="replace") + b"\n"

    async def following() -> AsyncIterator[bytes]:
        for line in first:
            yield line
        async for line in written:
            yield line

    written = lines()
    # What is refused is said on a page; the second line is the first that is the database's.
    first = [await anext(written), await anext(written)]
    name = quote(f"{app_name}-{user_id}.jsonl", safe="")
    return _Download(
        following(),
        media_type="application/x-ndjson",
        headers={"Content-Disposition": f"attachment; filename*=UTF-8''{name}"},
    )


async def preview(console: Console, request: Request) -> Response:
    """Shows what would go if a person were forgotten."""
    return await _forget(console, request, query_of(request), done=False)


async def erase(console: Console, request: Request) -> Response:
    """Forgets a person, whose id the form must repeat; shows the form again if it does not."""
    fields = form_of(request)
    again = fields.get("again", "")
    done = again == forms.required(fields, "user")
    return await _forget(console, request, fields, done=done, wrong=None if done else again)


async def _forget(
    console: Console,
    request: Request,
    fields: Mapping[str, str],
    *,
    done: bool,
    wrong: str | None = None,
) -> Response:
    app_name, user_id = forms.required(fields, "app"), forms.required(fields, "user")
    with scope(app_name=app_name, user_id=user_id), console.acting(request):
        erased = await forget(
            console.database, app_name=app_name, user_id=user_id, dry_run=not done
        )
    return console.page(
        request,
        "forget.html",
        200 if wrong is None else 400,
        app_name=app_name,
        user_id=user_id,
        erased=erased,
        done=done,
        again=wrong,
    )


def filters_of(fields: Mapping[str, str]) -> SearchFilters:
    """Returns the filters that a form asks for.

    Raises:
      InvalidInput: A value cannot be read.
    """
    kinds = forms.words(fields, "kinds")
    return SearchFilters(
        after=forms.time(fields, "after"),
        before=forms.time(fields, "before"),
        authors=forms.words(fields, "authors"),
        session_ids=forms.words(fields, "sessions"),
        kinds=kinds,
        topics=forms.words(fields, "topics"),
    )


async def _memories(
    console: Console,
    fields: Mapping[str, str],
    app_name: str,
    user_id: str | None,
    view: str,
) -> dict[str, Any]:
    by = fields.get("by") or ("day" if view == "timeline" else "")
    if by and by not in _GROUPS:
        raise InvalidInput(f"Memories cannot be grouped by {by[:40]!r}; try {', '.join(_GROUPS)}.")
    page = await console.memory.list_memories(
        app_name=app_name,
        user_id=user_id,
        filters=filters_of(fields),
        limit=_ROWS,
        cursor=fields.get("cursor") or None,
        live=not fields.get("dead"),
    )
    groups: dict[str, list[Memory]] = {}
    for each in page.items:
        for name in _GROUPS[by](each) if by else [""]:
            groups.setdefault(name, []).append(each)
    ordered = list(groups.items())
    if by == "importance":
        ordered.sort(key=lambda group: group[0], reverse=True)
    return {"page": page, "groups": ordered, "by": by, "kinds": KINDS, "groupings": list(_GROUPS)}


async def _facts(console: Console, app_name: str, user_id: str) -> dict[str, Any]:
    """All facts with what they rest on, and those that they replaced."""
    most = min(_FACTS, console.database.settings.max_results)
    profile = await console.facts.profile(app_name=app_name, user_id=user_id, limit=most)
    every = await console.memory.list_memories(
        app_name=app_name,
        user_id=user_id,
        filters=SearchFilters(kinds=("fact",)),
        limit=most,
        live=False,
    )
    replaced: dict[str, list[Memory]] = {}
    for each in every.items:
        if each.superseded_by is not None:
            replaced.setdefault(each.superseded_by, []).append(each)
    live = {fact.memory.id for fact in profile.facts}
    gone = [each for each in every.items if each.superseded_by is None and each.id not in live]
    return {"profile": profile, "replaced": replaced, "gone": gone, "most": most}


async def _provenance(
    console: Console, app_name: str, user_id: str, memory_id: str
) -> tuple[Memory, ...]:
    most = min(_FACTS, console.database.settings.max_results)
    profile = await console.facts.profile(app_name=app_name, user_id=user_id, limit=most)
    found = [fact.provenance for fact in profile.facts if fact.memory.id == memory_id]
    return found[0] if found else ()
