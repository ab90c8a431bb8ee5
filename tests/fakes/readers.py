"""What the reader of a page has: sessions, agents, a database of ADK's, questions.

``python -m tests.fakes.readers sessions agents`` makes some of it, in this folder and in
ADKPG_DATABASE_URL; what is there stays.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

from google.adk.sessions import BaseSessionService
from google.adk.sessions import DatabaseSessionService as AdkSessionService

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.tooling.testing import said
from tests.fakes.data_sets import locomo

_AGENT = """\
from google.adk.agents import LlmAgent

from adkpg.tooling.testing import ScriptedLlm

root_agent = LlmAgent(name="shop", model=ScriptedLlm.answering("It is on its way."))
"""


def sessions() -> None:
    """A session of alice with my_agent, and one of ana with shop."""
    asyncio.run(_sessions())


async def _sessions() -> None:
    async with Database(remember=True) as database:
        service = DatabaseSessionService(database)
        await _said(service, "my_agent", "alice", "s1")
        await _said(service, "shop", "ana", "monday")
        await PgVectorMemoryService(database).flush()


def adk() -> None:
    """ADK's own database, sessions.db."""
    asyncio.run(_adk())


async def _adk() -> None:
    service = AdkSessionService("sqlite+aiosqlite:///sessions.db")
    async with service:
        await _said(service, "my_agent", "bob", "s1")


def agents() -> None:
    """A folder of agents with one."""
    folder = Path("agents", "shop")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("from . import agent\n")
    (folder / "agent.py").write_text(_AGENT)


def questions() -> None:
    """A small data set in the form of LoCoMo's, and a team's own questions."""
    asked = {"question": "What came second?", "answer": "Second.", "category": 4}
    [talk] = locomo()
    Path("locomo10.json").write_text(json.dumps([talk | {"qa": [asked | {"evidence": ["D2:1"]}]}]))
    own = [{"q": "Where is the bike?", "contains": ["shed"]}]
    Path("questions.json").write_text(json.dumps(own))


async def _said(service: BaseSessionService, app_name: str, user_id: str, session_id: str) -> None:
    known = await service.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
    if not known:
        session = await service.create_session(
            app_name=app_name, user_id=user_id, session_id=session_id
        )
        await service.append_event(session, said("My bike is in the shed."))


_MADE: dict[str, Callable[[], None]] = {
    each.__name__: each for each in (sessions, adk, agents, questions)
}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        _MADE[name]()
