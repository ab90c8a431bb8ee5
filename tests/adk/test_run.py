"""The real ``adk run``, with ``services.py`` in the agent's own folder."""

import subprocess
from pathlib import Path

import pytest

from adkpg import Database, DatabaseSessionService
from tests.fakes import adk_commands as commands
from tests.fakes.adk_commands import Account
from tests.fakes.checkout import CHECKOUT

pytestmark = pytest.mark.program


@pytest.fixture
def agent(agents: Path) -> Path:
    """The assistant's folder, with adkpg registered in it."""
    folder = commands.write_agents(agents)
    (folder / "services.py").write_text(commands.SERVICES_PY)
    return folder


def adk_run(agent: Path, uri: str, *arguments: str, said: str = "") -> str:
    """Runs the command to its end and returns all that it printed."""
    options = ["--session_service_uri", uri, "--memory_service_uri", uri]
    done = subprocess.run(
        [*commands.ADK, "run", *options, *arguments[:-1], str(agent), *arguments[-1:]],
        env=commands.environment(TMPDIR=str(agent.parent)),  # ADK logs to one folder of it
        input=said,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "ResourceWarning" not in done.stdout
    assert "unclosed" not in done.stdout
    return done.stdout


async def test_what_is_typed_is_stored(agent: Path, account: Account, database: Database) -> None:
    printed = adk_run(agent, account.uri, said="Good morning\nHow are you?\nexit\n")
    assert "[assistant]: Turn 1: Good morning" in printed
    assert "[assistant]: Turn 2: How are you?" in printed
    assert account.password not in printed

    sessions = DatabaseSessionService(database)
    [listed] = (await sessions.list_sessions(app_name="assistant")).sessions
    assert listed.state["last_answer"] == "Turn 2: How are you?"
    stored = await sessions.get_session(
        app_name="assistant", user_id=listed.user_id, session_id=listed.id
    )
    assert stored is not None
    assert [event.author for event in stored.events] == ["user", "assistant"] * 2


async def test_single_queries_continue_a_session(agent: Path, account: Account) -> None:
    first = adk_run(agent, account.uri, "--session_id", "one", "I love quinces")
    assert "Turn 1: I love quinces" in first
    second = adk_run(agent, account.uri, "--session_id", "one", "And pears")
    assert "Turn 2: And pears" in second


def test_an_agent_without_our_services_gets_adks_words_which_the_page_explains(
    agents: Path, account: Account
) -> None:
    agent = commands.write_agents(agents)
    done = subprocess.run(
        [*commands.ADK, "run", "--session_service_uri", account.uri, str(agent), "Hello"],
        env=commands.environment(TMPDIR=str(agents)),
        capture_output=True,
        text=True,
        check=False,
    )
    words = "Invalid database URL format or argument 'adkpg://"
    assert words in done.stderr
    assert words in (CHECKOUT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert done.returncode == 1
