"""A project of somebody else's, tested with the fixtures that pytest finds by itself."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from adkpg.tooling.testing.server import Server
from tests.fakes import pages
from tests.fakes.checkout import CHECKOUT
from tests.fakes.signals import interrupts_heard

pytestmark = pytest.mark.program

USES = """
import os
from pathlib import Path

import pytest
from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adkpg import Database
from adkpg.tooling.testing import ScriptedLlm, SessionServiceConformance, said, texts

pytestmark = [MARKS]
KEY = dict(app_name="app", user_id="ana")


async def test_an_agent_remembers(adkpg_sessions, adkpg_memory, adkpg_database_url, adkpg_server):
    with open("databases", "a") as noted:
        print(adkpg_server.template, adkpg_database_url, file=noted)
    model = ScriptedLlm.answering("In the shed.")
    runner = Runner(
        app_name="app",
        agent=LlmAgent(name="guide", model=model),
        session_service=adkpg_sessions,
        memory_service=adkpg_memory,
        auto_create_session=True,
    )
    said = types.Content(role="user", parts=[types.Part(text="Where is my bike?")])
    async for _ in runner.run_async(user_id="ana", session_id="s", new_message=said):
        pass
    session = await adkpg_sessions.get_session(**KEY, session_id="s")
    assert texts(session) == ["Where is my bike?", "In the shed."]
    assert model.requests[0]["contents"][-1]["parts"][0]["text"] == "Where is my bike?"
    await adkpg_memory.add_session_to_memory(session)
    found = await adkpg_memory.search_memory(**KEY, query="bike")
    assert found.memories


@pytest.mark.parametrize("turn", [1, 2])
async def test_each_test_has_a_database_of_its_own(adkpg_sessions, turn):
    assert (await adkpg_sessions.list_sessions(app_name="app")).sessions == []
    await adkpg_sessions.create_session(**KEY, session_id="s")


async def test_what_reads_the_environment_gets_the_tests_database(adkpg_database):
    assert [name for name in os.environ if name.startswith("ADKPG_")] == ["ADKPG_DATABASE_URL"]
    assert Database().url == adkpg_database.url


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setenv("ADKPG_RETRY_TIMEOUT_S", "0")


async def test_settings_that_a_fixture_made_before_stay(hasty, adkpg_database):
    assert os.environ["ADKPG_RETRY_TIMEOUT_S"] == "0"
    assert adkpg_database.settings.retry_timeout_s == 0


class TestAdks(SessionServiceConformance):
    pytestmark = [MARKS]

    @pytest.fixture
    def service(self):
        return InMemorySessionService()

    test_a_stale_writer_is_refused = None
    test_a_stale_writer_of_the_same_timestamp_is_refused = None
    test_a_stale_session_rebuilt_from_json_is_refused = None
    test_another_event_of_a_stored_id_is_refused = None
    test_half_a_character_becomes_a_mark = None
"""
CONFTEST = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
SCOPE = "asyncio_default_fixture_loop_scope = function"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(server: Server) -> dict[str, str]:
    """A developer's, whose own databases no test may reach."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("ADKPG_")},
        "ADKPG_TEST_DATABASE_URL": server.url,
        "ADKPG_DATABASE_URL": "postgresql://127.0.0.1:1/their_own",
        "ADKPG_DIRECT_URL": "postgresql://127.0.0.1:1/their_own",
        "ADKPG_DATABASE_SCHEMA": "theirs",
    }


@pytest.fixture
def run(tmp_path: Path, environment: dict[str, str]) -> Run:
    """Writes a module of tests and a configuration, and runs pytest there."""

    def run(
        tests: str, *options: str, ini: str = SCOPE, **more: str
    ) -> subprocess.CompletedProcess[str]:
        write(tmp_path, tests, ini)
        return subprocess.run(
            command(*options),
            cwd=tmp_path,
            env={**environment, **more},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def write(folder: Path, tests: str, ini: str = SCOPE) -> None:
    (folder / "pytest.ini").write_text(f"[pytest]\nfilterwarnings = error\n{ini}\n")
    (folder / "test_agent.py").write_text(tests)
    (folder / "conftest.py").write_text(CONFTEST)


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]


async def left_on(server: Server, folder: Path) -> list[str]:
    """The databases of the project's runs that are still there."""
    lines = (folder / "databases").read_text().splitlines()
    runs = {line.split()[0].removeprefix("adkpg_template_") for line in lines}
    assert runs
    assert server.run not in runs
    connection = await asyncpg.connect(server.url)
    try:
        names = await connection.fetch("SELECT datname FROM pg_database")
    finally:
        await connection.close()
    return [row["datname"] for row in names if any(run in row["datname"] for run in runs)]


@pytest.mark.parametrize(
    ("ini", "marks", "options"),
    [
        (f"asyncio_mode = auto\n{SCOPE}", "", ("-n", "2")),
        (f"asyncio_mode = strict\n{SCOPE}", "pytest.mark.asyncio", ("-p", "no:xdist")),
        ("", "pytest.mark.anyio", ("-p", "no:asyncio")),
    ],
    ids=["auto, two workers", "strict", "anyio"],
)
async def test_the_fixtures_serve_anybodys_tests(
    run: Run, server: Server, tmp_path: Path, ini: str, marks: str, options: tuple[str, ...]
) -> None:
    ran = run(USES.replace("MARKS", marks), *options, ini=ini)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^\d\d passed", ran.stdout.splitlines()[-1]), ran.stdout
    assert await left_on(server, tmp_path) == []


def test_the_page_runs(run: Run) -> None:
    page = (CHECKOUT / "docs" / "testing.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    quickstart = CHECKOUT / "docs" / "quickstart" / "tester.md"  # which the page names for it
    (ini,) = [block.text for block in pages.blocks(quickstart, "ini")]
    ran = run("\n".join(blocks), ini=ini.removeprefix("[pytest]\n"))
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_run_without_the_fixtures_pays_nothing(run: Run, tmp_path: Path, workers: str) -> None:
    tests = """
import sys

def test_nothing_is_imported():
    assert not [name for name in sys.modules if name.startswith("google.adk")]
    assert {"adkpg.errors", "adkpg.database", "sqlalchemy", "asyncpg"}.isdisjoint(sys.modules)
"""
    ran = run(tests, "-n", workers, ADKPG_TEST_DATABASE_URL="postgresql://127.0.0.1:1/nowhere")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("named", "sentence", "workers"),
    [
        ("postgresql://ana:secret@127.0.0.1:1/nowhere", "127.0.0.1:1/nowhere cannot be reached", 1),
        ("nonsense", "write postgresql://", 0),
    ],
)
def test_without_a_server_one_sentence_says_so(
    run: Run, named: str, sentence: str, workers: int
) -> None:
    tests = "def test_asks(adkpg_sessions): ...\n"
    ran = run(tests, "-n", str(workers), ADKPG_TEST_DATABASE_URL=named)
    assert ran.returncode == 1
    assert sentence in ran.stdout
    assert "During handling" not in ran.stdout, "which says it again"
    assert "Traceback" not in ran.stdout + ran.stderr
    assert "secret" not in ran.stdout + ran.stderr


WAITS = """
import time
from pathlib import Path

def test_waits(adkpg_database_url, adkpg_server):
    with open("databases", "a") as noted:
        print(adkpg_server.template, file=noted)
    Path("waiting").write_text("waiting")
    time.sleep(600)
"""


@pytest.fixture
def waiting(
    tmp_path: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> Iterator[subprocess.Popen[str]]:
    """A run of pytest whose test has a database, and waits."""
    write(tmp_path, WAITS)
    os.mkfifo(tmp_path / "waiting")
    with interrupts_heard():
        process = subprocess.Popen(
            command(*request.param),
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    try:
        assert (tmp_path / "waiting").read_text() == "waiting"
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.mark.fault
@pytest.mark.parametrize("waiting", [(), ("-n", "1")], indirect=True, ids=["alone", "worker"])
async def test_ctrl_c_leaves_nothing_behind(
    waiting: subprocess.Popen[str], server: Server, tmp_path: Path
) -> None:
    assert await left_on(server, tmp_path)
    os.killpg(waiting.pid, signal.SIGINT)
    said, _ = waiting.communicate()
    assert "KeyboardInterrupt" in said
    assert await left_on(server, tmp_path) == []


@pytest.mark.fault
@pytest.mark.parametrize("waiting", [()], indirect=True, ids=[""])
async def test_what_a_killed_run_left_goes_with_the_next(
    waiting: subprocess.Popen[str], run: Run, server: Server, tmp_path: Path
) -> None:
    os.killpg(waiting.pid, signal.SIGKILL)
    waiting.communicate()
    assert len(await left_on(server, tmp_path)) == 2
    ran = run("def test_asks(adkpg_database_url): ...\n")
    assert ran.returncode == 0, ran.stdout
    assert await left_on(server, tmp_path) == []
