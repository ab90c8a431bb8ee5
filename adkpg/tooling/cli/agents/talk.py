"""Talk: ADK's command ``run``, which gets adkpg's services unless others are named."""

from __future__ import annotations

import logging

import click

from adkpg.tooling.cli.switches import say_switches


@click.command(
    add_help_option=False,
    # All arguments are ADK's, --help too.
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS OF ADK]...")
def run(arguments: tuple[str, ...]) -> None:
    """Talk with an agent at the terminal, on this database.

    Arguments and options are those of ADK's `adk run`. Sessions, memory and files are in
    ADKPG_DATABASE_URL, unless --session_service_uri, --memory_service_uri or --artifact_service_uri
    names another service.

    \b
    Example:
      adkpg run agents/companion
      adkpg run agents/companion "Where did I leave my bike?"
    """
    from google.adk.cli import main

    from adkpg.adk.services import SCHEME, register

    register()
    # ADK logs to a file alone; adkpg's warnings are for the person who waits.
    shown = logging.StreamHandler()
    shown.setLevel(logging.WARNING)
    logging.getLogger("adkpg").addHandler(shown)
    kinds = ("session", "memory", "artifact")
    if not {"--help", "--session_service_uri"} & {each.partition("=")[0] for each in arguments}:
        say_switches()
    # As defaults, not as arguments, so that what is typed wins by ADK's own rules.
    defaults = {f"{kind}_service_uri": f"{SCHEME}://" for kind in kinds}
    main.commands["run"].main(arguments, prog_name="adkpg run", default_map=defaults)
