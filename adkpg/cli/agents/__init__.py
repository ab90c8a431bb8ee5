"""``adkpg web``, ``adkpg api-server`` and ``adkpg run``: ADK's own commands, on this database."""

from adkpg.cli.agents.commands import api_server, run, web

__all__ = ["api_server", "run", "web"]
