"""The command line: thin skins over the library, one file per group."""

from adkpg.cli.program import main

__all__ = ["main"]
