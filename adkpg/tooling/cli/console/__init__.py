"""``adkpg console``."""

from adkpg.tooling.cli.console.command import console

__all__ = ["console"]
