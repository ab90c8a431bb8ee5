"""``adkpg console``."""

from adkpg.cli.console.command import console

__all__ = ["console"]
