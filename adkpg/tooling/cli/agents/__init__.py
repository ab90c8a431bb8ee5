"""``adkpg web``, ``adkpg api-server`` and ``adkpg run``: ADK's server and terminal, here."""

from adkpg.tooling.cli.agents.server import api_server, web
from adkpg.tooling.cli.agents.talk import run

__all__ = ["api_server", "run", "web"]
