"""Pictures of the console; `make screenshots` keeps those that README and the pages show."""

import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import asyncpg
import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.embedding import LocalEmbedder
from adkpg.facts import Add, Extraction, Facts, Supersede
from adkpg.tooling.console import create_console
from adkpg.tooling.evaluation import SavedQuestions
from adkpg.tooling.testing import DeterministicEmbedder
from tests.browser.chromium import chromium, served

pytestmark = pytest.mark.browser

# Kept, since each test sees an environment without adkpg's settings.
KEPT = os.environ.get("ADKPG_TEST_SCREENSHOTS")

APP = "travel"
ANA: dict[str, Any] = {"app_name": APP, "user_id": "ana"}
MEANINGS = (
    "train trains rail railway carriage seat",
    "plane planes fly flight airport",
    "hotel stay sleep room accommodation",
    "eat food vegetarian restaurant dinner meal",
    "graz lisbon rome city",
    "window view quiet",
)
SAID = [
    ("user", "I always travel by train, never by plane: I like to see the country go by."),
    ("guide", "Noted: trains only. Shall I look for a window seat?"),
    ("user", "Yes please, in the quiet carriage if there is one."),
    ("user", "And I am vegetarian, in case the trip comes with dinner."),
    ("guide", "Then I will only look at meals without meat or fish."),
    ("user", "My sister Mia lives in Graz now, so we often go there."),
]
PAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "overview": ("/", {"count": 1}),
    "found": ("/", {"find": "u1"}),
    "app": ("/app", {"app": APP}),
    "sessions": ("/person", {"app": APP, "user": "ana", "view": "sessions"}),
    "said": ("/person", {"app": APP, "user": "ana", "view": "sessions", "q": "Mia"}),
    "session": (
        "/session",
        {"app": APP, "user": "ana", "session": "weekend-in-graz", "preload": 1},
    ),
    "facts": ("/person", {"app": APP, "user": "ana", "view": "facts"}),
    "timeline": ("/person", {"app": APP, "user": "ana", "view": "timeline"}),
    "memory": ("/person", {"app": APP, "user": "ana", "by": "session"}),
    "lab": (
        "/lab",
        {
            "app": APP,
            "user": "ana",
            "q": "which seat on the railway does she want?",
            "compare": 1,
            "a_mode": "hybrid",
            "b_mode": "text",
            "b_half_life": "30d",
            "evaluate": 1,
        },
    ),
    "operations": ("/operations", {"examine": 1}),
    "audit": ("/audit", {}),
}

SHOWN = {
    "session": PAGES["session"],
    "lab": ("/lab", {"app": APP, "user": "ana", "q": "which means of transport suits her?"}),
}
"""What the documents show: the lab with a question that shares no word with its answer."""


class Extractor:
    """Draws the facts of the story."""

    async def extract(self, turns: Any, known: Any) -> Extraction:
        of = {turn.text: turn.memory_id for turn in turns}
        drawn: list[Any] = []
        for text, memory_id in of.items():
            if text.startswith("I always travel"):
                drawn.append(Add("travels by train only", (memory_id,), topics=("preference",)))
            if "vegetarian" in text:
                drawn.append(Add("is vegetarian", (memory_id,), topics=("food",)))
            if text.startswith("My sister"):
                drawn.append(Add("her sister Mia lives in Graz", (memory_id,), topics=("family",)))
            if text.startswith("Mia moved"):
                old = next(each for each in known if "Mia" in each.text)
                by = Add("her sister Mia lives in Lisbon", (memory_id,), topics=("family",))
                drawn.append(Supersede(old.memory_id, by))
        return Extraction(tuple(drawn))


def spoken(author: str, text: str, at: float, **fields: Any) -> Event:
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=text)])
    return Event(author=author, content=content, timestamp=at, **fields)


async def story(
    database: Database, memory: PgVectorMemoryService, connection: asyncpg.Connection
) -> None:
    """Stores a user's two trips, and what others said on other days."""
    sessions = DatabaseSessionService(database)
    facts = Facts(memory, extractor=Extractor())
    await facts.enable(APP)
    now = time.time() - 3_600
    first = await sessions.create_session(**ANA, session_id="first-trip")
    for number, (author, text) in enumerate(SAID):
        await sessions.append_event(first, spoken(author, text, now - 30 * 86_400 + 60 * number))
    await memory.add_session_to_memory(first)
    await facts.extract(**ANA)
    moved = await sessions.create_session(**ANA, session_id="a-postcard")
    await sessions.append_event(
        moved, spoken("user", "Mia moved to Lisbon last week.", now - 5 * 86_400)
    )
    await memory.add_session_to_memory(moved)
    await facts.extract(**ANA)
    trip = await sessions.create_session(
        **ANA, session_id="weekend-in-graz", state={"budget": 300, "user:language": "en"}
    )
    run: dict[str, Any] = {"invocation_id": "i1"}
    question = "Find us a railway seat to Graz for the weekend."
    await sessions.append_event(trip, spoken("user", question, now, **run))
    call = types.Part.from_function_call(
        name="find_trains", args={"to": "Graz", "day": "Saturday", "carriage": "quiet"}
    )
    thought = types.Part(text="She wants the quiet carriage, by the window.", thought=True)
    await sessions.append_event(
        trip,
        Event(
            author="guide",
            timestamp=now + 2,
            content=types.Content(role="model", parts=[thought, call]),
            **run,
        ),
    )
    answer = types.Part.from_function_response(
        name="find_trains", response={"train": "RJ 559", "seats": ["21A", "21B"], "eur": 78}
    )
    await sessions.append_event(
        trip,
        Event(
            author="guide",
            timestamp=now + 4,
            content=types.Content(role="user", parts=[answer]),
            actions=EventActions(
                state_delta={"budget": 222, "booked": "RJ 559"},
                artifact_delta={"tickets.pdf": 0},
            ),
            **run,
        ),
    )
    await sessions.append_event(
        trip,
        spoken("guide", "RJ 559 on Saturday, 21A at the window, quiet carriage.", now + 5, **run),
    )
    await sessions.append_event(
        trip,
        spoken(
            "user",
            "No, wait. Let us visit Mia instead.",
            now + 60,
            invocation_id="i2",
            actions=EventActions(rewind_before_invocation_id="i1"),
        ),
    )
    for number in range(40):
        user: dict[str, Any] = {
            "app_name": ("travel", "support", "tutor")[number % 3],
            "user_id": f"u{number % 9}",
        }
        other = await sessions.create_session(**user)
        for text in ("Is there a dinner on the train?", "Then a room with a view, please."):
            await sessions.append_event(other, spoken("user", text, now - 86_400 * number))
        await memory.add_session_to_memory(other)
        for table in ("sessions", "memories"):
            await connection.execute(
                f"UPDATE {table} SET created_at = now() - make_interval(days => $1)"
                " WHERE session_id = $2",
                number * number % 29,
                other.id,
            )
    await connection.execute(
        "INSERT INTO memory_jobs (app_name, user_id, position, work, dead, attempts, error)"
        " SELECT app_name, user_id, position, 'embed', true, 8,"
        " 'The embedder refused the text: 400 input is too long for this model.'"
        " FROM memories WHERE app_name = 'support' ORDER BY user_id, position LIMIT 2"
    )
    hits = await memory.search(**ANA, query="which seat does she want?")
    await SavedQuestions(database).add(
        **ANA,
        text="Which seat on the train does she want?",
        evidence=[str(hit.memory.id) for hit in hits[:2]],
    )
    await SavedQuestions(database).add(**ANA, text="What is her shoe size?", evidence=[])


async def test_pictures_are_taken_in_light_dark_and_on_a_phone(
    database: Database, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    offline = DeterministicEmbedder(meanings=MEANINGS, dimensions=32)
    memory = PgVectorMemoryService(database, embedder=LocalEmbedder() if KEPT else offline)
    await story(database, memory, connection)
    where = Path(KEPT) if KEPT else tmp_path
    in_documents = KEPT == "docs"
    schemes = {"light": (1200, 1020), "dark": (1200, 1020)} | (
        {} if in_documents else {"phone": (390, 780)}
    )
    async with served(create_console(database, memory=memory)) as address, chromium() as browser:
        for scheme, (width, height) in schemes.items():
            context = await browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            page = await context.new_page()
            for name, (path, query) in (SHOWN if in_documents else PAGES).items():
                answer = await page.goto(f"{address}{path}?{urlencode(query)}")
                assert answer is not None
                assert answer.status == 200
                picture = where / f"console-{name}{'' if scheme == 'light' else f'-{scheme}'}.png"
                await page.screenshot(path=picture, full_page=not in_documents)
                assert picture.stat().st_size > 10_000
            await context.close()
