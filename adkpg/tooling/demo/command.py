"""``adkpg demo``: the main job, shown."""

import asyncio
import logging
import os
import shutil
import signal
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from adkpg.database import Database
from adkpg.embedding.embedder import Embedder
from adkpg.memory.service import PgVectorMemoryService
from adkpg.sessions.service import DatabaseSessionService
from adkpg.settings import Settings
from adkpg.tooling.demo import process
from adkpg.tooling.demo.act import FIRST_SESSION, Act
from adkpg.tooling.demo.line import Checked, Ended, Line, Rows, Started
from adkpg.tooling.demo.model import GEMINI_MODEL, OfflineModel, choose_model
from adkpg.tooling.demo.rows import APP
from adkpg.tooling.demo.screen import Screen
from adkpg.tooling.demo.story import STORY, WORD_STORY, Story

ACTS = (
    "Process 1 tells the agent some facts, remembers the session, and ends",
    "Process 2 resumes that session by its id",
    "Process 3 asks in new sessions: load_memory in the first, preload_memory in the second",
)


def begin(database_url: str | None) -> tuple[Screen, str]:
    """Returns the screen, on which it says which database is used, and the database's URL."""
    screen = Screen()
    chosen = database_url or _of_environment()
    url = chosen or "embedded"
    database = Database(url)
    if database.connections.server is not None:
        database.connections.server.require_installed()
    address = database.url
    if address != "embedded":
        screen.text(f"Database: {address}.")
    elif chosen:
        screen.text("Database: the embedded Postgres.")
    else:
        screen.text(
            "Database: the embedded Postgres that comes with adkpg[embedded], since neither "
            "--database-url nor ADKPG_DATABASE_URL names another."
        )
    return screen, url


def acts(
    screen: Screen,
    url: str,
    say: tuple[str, ...],
    ask: tuple[str, ...],
    database_url: str | None,
) -> None:
    """Plays the three acts, each in a process of its own, and shows what happens.

    Raises:
      ClickException: Something that the demo claims did not hold.
    """
    user_id = _new_user()
    embedder = PgVectorMemoryService(url).embedder
    _say_who(screen, user_id, embedder)
    story = _story(say, ask, embedder)
    words = [word for text in say for word in ("--say", text)]
    words += [word for text in ask for word in ("--ask", text)]
    tables: list[Rows] = []
    failed = False
    for number, title in enumerate(ACTS, 1):
        screen.heading(title)
        arguments = ["--act", str(number), "--user", user_id, *words]
        for line in _shown_while_waiting(screen, process.run(arguments, url)):
            if isinstance(line, Rows):
                tables.append(line)
                continue
            failed = failed or (isinstance(line, Checked) and not line.held)
            screen.line(line)
    screen.heading("What the tables hold of this demo")
    screen.rows(tables)
    _say_next(
        screen,
        database_url,
        user_id,
        ["sessions", "list", "--app", APP, "--user", user_id],
        ["sessions", "show", FIRST_SESSION, "--app", APP, "--user", user_id],
        ["memory", "search", story.asked[0].text, "--app", APP, "--user", user_id],
        ["demo", "--say", "My bike is in the shed.", "--ask", "Where did I leave my bicycle?"],
    )
    if failed:
        raise click.ClickException("Some claims did not hold; see the lines marked FAILED.")


def _shown_while_waiting(screen: Screen, lines: Iterator[Line]) -> Iterator[Line]:
    """Yields lines; until the first and after the last the screen says what is waited for."""
    with screen.waiting("a Python process starts"):
        first = next(lines, None)
    if first is not None:
        yield first
        for line in lines:
            if not isinstance(line, Ended):
                yield line
                continue
            with screen.waiting("the process closes the database and ends"):
                yield from lines


def play(act: int, user_id: str, say: tuple[str, ...], ask: tuple[str, ...]) -> None:
    """Is one of the three processes: plays its act and writes what happens as JSON lines."""
    # Who started this process ends it by SIGINT, also where that is inherited as ignored (nohup).
    signal.signal(signal.SIGINT, signal.default_int_handler)
    click.echo(Started(process_id=os.getpid()).dump())
    # ADK logs the traceback of every error; the command says it in a sentence.
    logging.getLogger("google_adk").setLevel(logging.CRITICAL)

    async def played() -> None:
        async with Database() as database:
            memory = PgVectorMemoryService(database)
            sessions = DatabaseSessionService(database)
            model = choose_model(os.environ, memory.embedder)
            story = _story(say, ask, memory.embedder)
            async for line in Act(database, sessions, memory, model, story, user_id).play(act):
                click.echo(line.dump())
            click.echo(Ended().dump())

    try:
        asyncio.run(played())
    except KeyboardInterrupt:
        # The process that started this one says that it was interrupted.
        click.get_current_context().exit(130)


def _story(say: tuple[str, ...], ask: tuple[str, ...], embedder: Embedder | None) -> Story:
    built_in = STORY if embedder is not None else WORD_STORY
    return Story.of(say or built_in.told, ask) if ask else built_in


def _say_who(screen: Screen, user_id: str, embedder: Embedder | None) -> None:
    if isinstance(choose_model(os.environ, embedder), OfflineModel):
        screen.text(
            "Model: a small offline one that answers only from its input, since neither "
            f"GOOGLE_API_KEY nor GEMINI_API_KEY is set; with one of them it is {GEMINI_MODEL}."
        )
    else:
        screen.text(f"Model: {GEMINI_MODEL}, with the key of the environment.")
    _say_embedder(screen, embedder)
    screen.text(f"App: {APP}. User of this run: {user_id}.")


def _say_embedder(screen: Screen, embedder: Embedder | None) -> None:
    screen.text(f"Embedder: {embedder.model if embedder else 'none, so memory finds words only'}.")


def _say_next(
    screen: Screen, database_url: str | None, user_id: str, *commands: Sequence[str]
) -> None:
    """Prints what to type next, with the database named if the environment does not."""
    named = database_url or (None if _of_environment() else "embedded")
    address = None if named is None else Database(named).url
    option = [] if address is None else ["--database-url", address]
    program = _program()
    screen.heading("What to type next")
    screen.commands([*program, *words, *option] for words in commands)
    screen.text("To delete what this demo left:")
    screen.commands([[*program, "forget", "--app", APP, "--user", user_id, *option]])
    if address and "***" in address:
        screen.text("Put the password in place of ***.")


def _program() -> list[str]:
    """Returns the words that start this program again, as they were typed."""
    typed = Path(sys.argv[0])
    if typed.name == "__main__.py":
        return [sys.executable, "-m", "adkpg"]
    found = shutil.which(typed.name)
    on_path = found is not None and Path(found).resolve() == typed.resolve()
    return [typed.name if on_path else str(typed)]


def _of_environment() -> str | None:
    url = Settings().database_url
    return url.get_secret_value() if url else None


def _new_user() -> str:
    return f"user-{uuid.uuid4().hex[:6]}"
