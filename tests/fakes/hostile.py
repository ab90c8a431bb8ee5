"""Scripts wherever people and agents can write, and a reader that finds them in a page."""

from html.parser import HTMLParser
from typing import Any

import asyncpg
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from adkpg import Database, DatabaseArtifactService, DatabaseSessionService, PgVectorMemoryService
from adkpg.audit import Audit
from adkpg.memory.records import Memory
from adkpg.tooling.evaluation import SavedQuestions

SCRIPT = "<script>window.ran = 1</script>"
IMAGE = '"><img src=x onerror="window.ran = 2">'
LINK = "javascript:window.ran=3"
BREAK = "'-alert(1)-'</title></textarea></style><svg onload=window.ran=4>"
ALL = f"{SCRIPT}{IMAGE} {LINK} {BREAK} {{{{ 7 * 7 }}}}"

APP, USER, SESSION = f"app{IMAGE}", f"ana{SCRIPT}", f"s{BREAK}"
SCOPE: dict[str, Any] = {"app_name": APP, "user_id": USER}
SCOPED: dict[str, Any] = {"app": APP, "user": USER}
PAGES: list[tuple[str, dict[str, Any]]] = [
    ("/", {}),
    ("/", {"count": 1}),
    ("/", {"find": "ana"}),
    ("/", {"find": ALL}),
    ("/app", {"app": APP}),
    ("/app", {"app": APP, "part": ALL}),
    ("/session", {**SCOPED, "session": SESSION}),
    ("/session", {**SCOPED, "session": SESSION, "preload": 1}),
    ("/session", {**SCOPED, "session": SESSION, "event": f"user{IMAGE}"}),
    ("/session/live", {**SCOPED, "session": SESSION, "known": 0}),
    ("/session/preload", {**SCOPED, "session": SESSION, "number": 1}),
    ("/session", {**SCOPED, "session": ALL}),
    *(
        ("/person", {**SCOPED, "view": view})
        for view in ("memories", "timeline", "facts", "profile", "sessions")
    ),
    *(("/person", {**SCOPED, "by": by}) for by in ("session", "topic", "author")),
    ("/person", {**SCOPED, "view": "sessions", "q": "window"}),
    ("/person", {**SCOPED, "view": "sessions", "q": ALL, "session": SESSION}),
    ("/person", {**SCOPED, "topics": ALL, "kinds": "note"}),
    ("/person", {**SCOPED, "view": ALL}),
    ("/memory", {**SCOPED, "memory": f"fact{IMAGE}"}),
    ("/memory", {**SCOPED, "memory": ALL}),
    ("/forget", SCOPED),
    ("/lab", SCOPED),
    ("/operations", {"examine": 1}),
    ("/audit", {}),
    ("/audit", {"app": APP}),
    ("/lab", {**SCOPED, "q": "note fact window", "compare": 1, "b_mode": "text"}),
    ("/lab", {**SCOPED, "q": ALL, "topics": ALL, "evaluate": 1}),
    ("/lab", {**SCOPED, "q": "note", "a_mode": ALL}),
    ("/" + IMAGE, {}),
]


async def store(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """Stores scripts in every name and text that there is."""
    sessions = DatabaseSessionService(database)
    session = await sessions.create_session(
        **SCOPE, session_id=SESSION, state={ALL: ALL, f"user:{ALL}": {ALL: [ALL]}}
    )
    parts = [
        types.Part(text=ALL),
        types.Part(text=ALL, thought=True),
        types.Part.from_function_call(name=ALL, args={ALL: ALL}),
        types.Part.from_function_response(name=ALL, response={ALL: ALL}),
        types.Part(file_data=types.FileData(file_uri=LINK, display_name=ALL, mime_type=ALL)),
    ]
    for author in ("user", ALL):
        await sessions.append_event(
            session,
            Event(
                id=f"{author}{IMAGE}",
                author=author,
                branch=ALL,
                invocation_id=ALL,
                error_message=ALL,
                content=types.Content(role="user", parts=parts),
                actions=EventActions(
                    state_delta={f"{ALL}2": ALL},
                    artifact_delta={ALL: 1},
                    transfer_to_agent=ALL,
                    rewind_before_invocation_id=ALL if author == "user" else None,
                ),
            ),
        )
    await memory.add_session_to_memory(session)
    await DatabaseArtifactService(database).save_artifact(
        **SCOPE, session_id=SESSION, filename=ALL, artifact=types.Part(text=ALL)
    )
    for kind in ("note", "fact"):
        content = types.Content(parts=[types.Part(text=f"{kind} {ALL}")])
        await memory.add_memory(
            **SCOPE,
            memories=[
                Memory(id=f"{kind}{IMAGE}", content=content, kind=kind, topics=[ALL], author=ALL)
            ],
            custom_metadata={ALL: ALL},
        )
    await connection.execute(
        "INSERT INTO memory_jobs (app_name, user_id, position, work, dead, error)"
        " SELECT app_name, user_id, position, 'embed', true, $1 FROM memories LIMIT 2",
        ALL,
    )
    await SavedQuestions(database).add(**SCOPE, text=ALL, evidence=[f"note{IMAGE}"])
    async with Audit(database).recording(**SCOPE, actor=ALL, action=ALL, subject=ALL):
        pass


class Reader(HTMLParser):
    """Collects what would run in a page: elements, handlers and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "script" and not (given.get("src") or "").endswith("/static/console.js"):
            self.found.append(f"<script> {given}")
        if tag in ("img", "iframe", "object", "embed", "base"):
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.found.append(f"{tag} {name}")
            if name in ("href", "src", "action", "data-from", "data-live") and (
                not (value or "").startswith(("/", "#"))
            ):
                self.found.append(f"{tag} {name}={value}")


def running(page: str) -> list[str]:
    """Returns what of a page would run, or lead out of it."""
    reader = Reader()
    reader.feed(page)
    return reader.found
