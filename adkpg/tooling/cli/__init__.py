"""The command line. Its modules import click alone; a command imports the library when it runs."""

from adkpg.tooling.cli.program import main

__all__ = ["main"]
