"""After every error has been provoked, nothing that anybody reads holds a password."""

import asyncio
import logging
import os
import shutil
import socket
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest
from google.genai import types
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import SecretStr
from setproctitle import getproctitle, setproctitle

from adkpg import (
    Database,
    DatabaseArtifactService,
    DatabaseSessionService,
    PgVectorMemoryService,
    Settings,
    errors,
)
from adkpg.embedding import CallableEmbedder, OpenAIEmbedder
from adkpg.facts import FactExtractor
from adkpg.reranking import CohereReranker
from adkpg.reranking.reranker import scores_checked
from adkpg.tooling.cli.connection import hide_passwords
from adkpg.tooling.testing import said
from tests.fakes.conversation import USER, entry
from tests.fakes.fact_stories import turn
from tests.fakes.facts_llm import FactsLlm, OutOfOrder, Script
from tests.fakes.toys import ToyEmbedder

SECRET = "Zq7-swordfish"
AT_ONCE: dict[str, Any] = {"retry_timeout_s": 0, "connect_timeout_s": 5}

# What the server can be made to answer by a trigger.
STATES = {
    errors.Busy: "55P03",
    errors.ReadOnly: "25006",
    errors.DiskFull: "53100",
    errors.PermissionDenied: "42501",
    errors.ConstraintViolated: "23514",
    errors.DatabaseError: "XX001",
}


class Babbling:
    """A reranker that knows a key, and answers nonsense."""

    model = "babbling"

    def __init__(self, client: object) -> None:
        self._client = client

    async def scores(self, question: str, passages: list[str]) -> list[float]:
        return [float("nan")] * len(question + passages[0])


class Stage:
    """A database whose address holds a password, for the services that fail."""

    def __init__(self, url: str, connection: asyncpg.Connection, folder: Path) -> None:
        self.url, self.connection, self.folder = url, connection, folder
        self.database = Database(url, settings=Settings(**AT_ONCE, database_url=SecretStr(url)))
        self.sessions = DatabaseSessionService(self.database)

    async def refuses(self, state: str) -> None:
        await self.sessions.create_session(**USER, session_id="refused")
        session = await self.sessions.get_session(**USER, session_id="refused")
        assert session is not None
        await self.connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{state}'; END $$;"
            "CREATE TRIGGER refuse BEFORE INSERT ON adkpg.events EXECUTE FUNCTION refuse()"
        )
        await self.sessions.append_event(session, said("x"))

    async def configuration(self) -> None:
        Database(self.url.replace("postgresql", "mysql"))

    async def model_not_active(self) -> None:
        await self._memory(ToyEmbedder("old")).add_memory(**USER, memories=[entry("tea")])
        await self._memory(ToyEmbedder("new")).search(**USER, query="tea", mode="vector")

    async def scope_missing(self) -> None:
        settings = Settings(**AT_ONCE, row_level_security=True)
        await DatabaseSessionService(Database(self.url, settings=settings)).list_sessions(**USER)

    async def invalid(self) -> None:
        await self.sessions.create_session(app_name="a\x00", user_id="u")

    async def unreachable(self) -> None:
        url = f"postgresql://u:{SECRET}@127.0.0.1:1/d"
        await Database(url, settings=self.database.settings).current()

    async def no_tables(self) -> None:
        await self.connection.execute("DROP SCHEMA adkpg CASCADE")
        await self.database.check()

    async def other_tables(self) -> None:
        await self.connection.execute("UPDATE adkpg.adkpg_version SET version_num = 'x'")
        await self.database.check()

    async def no_extension(self) -> None:
        await self.connection.execute("DROP EXTENSION vector CASCADE")
        await self.database.check()

    async def no_server(self) -> None:
        (self.folder / "file").write_text("in the way")
        settings = Settings(embedded_dir=self.folder / "file" / "server", **AT_ONCE)
        await Database("embedded", settings=settings).current()

    async def embedder_away(self) -> None:
        embedder = OpenAIEmbedder(
            model="m", dimensions=8, api_key=SECRET, base_url="http://127.0.0.1:1", max_retries=0
        )
        await self._memory(embedder).search(**USER, query="tea", mode="vector")

    async def embedder_fails(self) -> None:
        def fail(_texts: list[str]) -> list[list[float]]:
            raise ValueError("refused")

        embedder = CallableEmbedder(fail, model="m", dimensions=8, max_retries=0)
        await self._memory(embedder).search(**USER, query="tea", mode="vector")

    async def embedder_lies(self) -> None:
        embedder = CallableEmbedder(
            lambda texts: [[1.0]] * len(texts), model="m", dimensions=8, max_retries=0
        )
        await self._memory(embedder).search(**USER, query="tea", mode="vector")

    async def extractor_babbles(self) -> None:
        await self._extract("Sorry?", "Sorry!")

    async def extractor_away(self) -> None:
        await self._extract(OutOfOrder())

    async def session_exists(self) -> None:
        for _ in range(2):
            await self.sessions.create_session(**USER, session_id="s")

    async def event_conflict(self) -> None:
        session = await self.sessions.create_session(**USER)
        for text in "ab":
            await self.sessions.append_event(session, said(text, id="e"))

    async def session_not_found(self) -> None:
        session = await self.sessions.create_session(**USER)
        await self.sessions.delete_session(**USER, session_id=session.id)
        await self.sessions.append_event(session, said("x"))

    async def stale(self) -> None:
        session = await self.sessions.create_session(**USER)
        other = await self.sessions.get_session(**USER, session_id=session.id)
        assert other is not None
        for each in (session, other):
            await self.sessions.append_event(each, said("x"))

    async def invocation_lost(self) -> None:
        session = await self.sessions.create_session(**USER, session_id="s")
        ended = asyncio.Event()

        async def later() -> None:
            await ended.wait()
            await self.sessions.append_event(session, said("too late"))

        async with self.sessions.invocation(**USER, session_id="s"):
            task = asyncio.create_task(later())
        ended.set()
        await task

    async def reranker_away(self) -> None:
        away = CohereReranker(api_key=SECRET, url="http://127.0.0.1:1")
        await scores_checked(away, "tea?", ["tea"])

    async def reranker_babbles(self) -> None:
        asked = OpenAIEmbedder(model="m", dimensions=8, api_key=SECRET)
        await scores_checked(Babbling(asked), "tea?", ["tea", "coffee"])

    async def invalid_artifact(self) -> None:
        await self._save(self.database, types.Part())

    async def artifact_store_refuses(self) -> None:
        (self.folder / "file").write_text("in the way")
        await self._save(self._storing(self.folder / "file" / "store"), types.Part(text="tea"))

    async def artifact_gone(self) -> None:
        storing = self._storing(self.folder / "store")
        await self._save(storing, types.Part(text="tea"))
        shutil.rmtree(self.folder / "store")
        await DatabaseArtifactService(storing).load_artifact(**USER, filename="user:a")

    def _storing(self, folder: Path) -> Database:
        store = SecretStr(f"file://{folder}")
        settings = Settings(**AT_ONCE, artifact_store=store, artifact_store_above_kb=0)
        return Database(self.url, settings=settings)

    async def _save(self, database: Database, artifact: types.Part) -> None:
        await DatabaseArtifactService(database).save_artifact(
            **USER, filename="user:a", artifact=artifact
        )

    def _memory(self, embedder: Any) -> PgVectorMemoryService:
        return PgVectorMemoryService(self.database, embedder=embedder)

    async def _extract(self, *answers: Any) -> None:
        script = Script()
        script.says(*answers)
        await FactExtractor(FactsLlm.following(script)).extract([turn(1)], [])


PROVOKED: dict[type[Exception], Callable[[Stage], Awaitable[None]]] = {
    errors.ConfigurationError: Stage.configuration,
    errors.ModelNotActive: Stage.model_not_active,
    errors.ScopeMissing: Stage.scope_missing,
    errors.InvalidInput: Stage.invalid,
    errors.DatabaseUnavailable: Stage.unreachable,
    errors.SchemaError: Stage.no_tables,
    errors.SchemaError: Stage.other_tables,
    errors.ExtensionMissing: Stage.no_extension,
    errors.EmbeddedServerError: Stage.no_server,
    errors.ModelUnavailable: Stage.embedder_away,
    errors.ModelError: Stage.embedder_fails,
    errors.ModelError: Stage.embedder_lies,
    errors.ModelError: Stage.extractor_babbles,
    errors.ModelUnavailable: Stage.extractor_away,
    errors.SessionExists: Stage.session_exists,
    errors.EventConflict: Stage.event_conflict,
    errors.SessionNotFound: Stage.session_not_found,
    errors.StaleSession: Stage.stale,
    errors.InvocationLost: Stage.invocation_lost,
    errors.ModelUnavailable: Stage.reranker_away,
    errors.ModelError: Stage.reranker_babbles,
    errors.InvalidArtifact: Stage.invalid_artifact,
    errors.ArtifactStoreError: Stage.artifact_store_refuses,
    errors.ArtifactGone: Stage.artifact_gone,
    **{
        error: (lambda stage, state=state: stage.refuses(state))  # type: ignore[misc]
        for error, state in STATES.items()
    },
}


@pytest.fixture
async def stage(
    database_url: str, connection: asyncpg.Connection, tmp_path: Path
) -> AsyncIterator[Stage]:
    location, mark, query = database_url.partition("?")
    user, at, host = location.removeprefix("postgresql://").rpartition("@")
    user = user.partition(":")[0] or "postgres"
    stage = Stage(f"postgresql://{user}:{SECRET}@{host}{mark}{query}", connection, tmp_path)
    assert at
    yield stage
    await stage.database.close()


def test_every_error_is_provoked() -> None:
    known = {error for name in errors.__all__ if (error := getattr(errors, name))}
    parents = {parent for error in PROVOKED for parent in error.__mro__}
    assert known <= PROVOKED.keys() | parents


@pytest.mark.program
@pytest.mark.parametrize("error", PROVOKED, ids=lambda error: error.__name__)
async def test_no_error_shows_a_password(
    stage: Stage, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(error) as caught:
        await PROVOKED[error](stage)
    assert type(caught.value) is error
    read = [caplog.text, *(f"{record.args!r}" for record in caplog.records)]
    read += traceback.format_exception(caught.value)
    link: BaseException | None = caught.value
    while link is not None:
        read += [str(link), repr(link), repr(link.args)]
        link = link.__cause__ or link.__context__
    objects = (stage.database, stage.database.settings, stage.sessions, stage.database.__dict__)
    read += map(repr, objects)
    assert [text for text in read if SECRET in text] == []


@pytest.fixture
def title() -> Iterator[None]:
    """Gives this process its title back."""
    before = getproctitle()
    yield
    setproctitle(before)


@pytest.mark.usefixtures("title")
@pytest.mark.parametrize(
    "form",
    [
        "--database-url postgresql://u:{}@h/d",
        "--database-url=postgresql://:{}@h/d",
        "--session_service_uri adkpg://u:{}@h/d?a=b",
        "--artifact_service_uri=adkpg://u@h/d?password={}&a=b",
        "export --to postgresql+asyncpg://u:{}@h/d agents",
        "import mysql://u:{}@h/d",
    ],
)
def test_every_argument_is_shown_without_its_password(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """As ``ps`` shows them; raw bytes that are no text are arguments, too."""

    @given(st.text(min_size=1, max_size=20).map(lambda text: quote(text, safe="")))
    @example("a/b:c@d")
    @example(os.fsdecode(b"\xed"))
    def hides(password: str) -> None:
        monkeypatch.setattr(sys, "orig_argv", ["adkpg", *form.format(password).split(" ")])
        hide_passwords()
        assert getproctitle() == "adkpg " + form.format("*" * len(password))

    hides()


@pytest.mark.program
@pytest.mark.parametrize("form", ["postgresql://u:{}@{}/d", "postgresql://u@{1}/d?password={0}"])
def test_a_command_hides_the_password_it_was_given_from_others(form: str) -> None:
    """It hangs at a server that never answers, and is looked at meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        url = form.format(quote(SECRET), place)
        command = [sys.executable, "-m", "adkpg", "db", "current", "--database-url", url]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ)
        try:
            silent.settimeout(60)
            with silent.accept()[0]:
                shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        finally:
            process.kill()
            _, said = process.communicate()
    assert SECRET.encode() not in shown + said
    assert place.encode() in shown
    assert b"*" * len(SECRET) in shown
