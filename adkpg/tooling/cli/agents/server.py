"""Server: ADK's app on this database, with probes and queued runs."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import click

from adkpg.tooling.cli.options import Command
from adkpg.tooling.cli.switches import say_switches

if TYPE_CHECKING:
    from starlette.applications import Starlette

_HERE = "adkpg://"

# Their names are those of `adk web` and `adk api_server`.
_OPTIONS = (
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        help="The address to listen on; 0.0.0.0 for all.",
    ),
    click.option(
        "--port",
        default=8000,
        show_default=True,
        type=click.IntRange(0, 65_535),
        help="The port; 0 chooses a free one.",
    ),
    *(
        click.option(
            f"--{kind}_service_uri",
            metavar="URI",
            default=_HERE,
            help=f"Another service for {what}.  [default: ADKPG_DATABASE_URL]",
        )
        for kind, what in (("session", "sessions"), ("memory", "memory"), ("artifact", "files"))
    ),
    click.option(
        "--auto_create_session",
        is_flag=True,
        help="Create the session that a run names, if it is missing.",
    ),
    click.option(
        "--allow_origins",
        metavar="ORIGIN",
        multiple=True,
        help="A site whose pages may send requests, such as https://example.com, or regex: and a "
        "pattern. Repeatable.",
    ),
    click.option(
        "--url_prefix",
        metavar="PATH",
        help="The path at which a proxy serves this server, such as /agents.",
    ),
    click.option(
        "--a2a",
        is_flag=True,
        help="Serve agents that have an agent.json by A2A; tasks are kept with sessions. Needs "
        "adkpg[a2a].",
    ),
    click.option(
        "--reload_agents", is_flag=True, help="Load an agent again when its files change."
    ),
    click.option(
        "--log_level",
        default="INFO",
        show_default=True,
        type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], case_sensitive=False),
        help="The lowest level that is logged.",
    ),
    click.argument(
        "agents_dir",
        default=os.getcwd,
        type=click.Path(exists=True, file_okay=False, resolve_path=True),
    ),
)


def _options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@_options
def web(**options: Any) -> None:
    """Serve agents with ADK's web UI, on this database.

    AGENTS_DIR holds a folder for each agent, or is the folder of one; the default is the current
    folder. Messages of one session take turns. The server does not ask who sends a request.

    \b
    Example:
      adkpg web agents
      adkpg web --port 8080 --artifact_service_uri gs://bucket agents
    """
    _serve(web=True, **options)


@click.command("api-server")
@_options
def api_server(**options: Any) -> None:
    """Serve agents over HTTP with ADK's server, on this database.

    AGENTS_DIR holds a folder for each agent, or is the folder of one; the default is the current
    folder. Requests of one session take turns. GET /livez and GET /readyz answer probes. The server
    does not ask who sends a request.

    \b
    Example:
      adkpg api-server agents
      adkpg api-server --host 0.0.0.0 --port 8080 --auto_create_session agents
    """
    _serve(web=False, **options)


def _serve(*, host: str, port: int, log_level: str, **options: Any) -> None:
    import uvicorn

    app = adk_app(host=host, **options)
    if options["session_service_uri"].startswith(_HERE):
        say_switches()
    # Not before: Alembic, which adk_app imports, says at INFO which plugins it has.
    logging.basicConfig(level=log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        uvicorn.run(app, host=host, port=port, log_level=log_level.lower())
    except SystemExit as exc:  # it has logged why, such as a port that is taken
        raise click.exceptions.Exit(1) from exc


def adk_app(*, host: str, session_service_uri: str, **options: Any) -> Starlette:
    """Returns the app of ADK's server, completed by probes and queued runs.

    Args:
      host: The address at which it will be served.
      session_service_uri: Names the service for sessions; on adkpg's the runs are queued.
      **options: Further arguments of ADK's ``get_fast_api_app``.

    Raises:
      ClickException: ADK cannot use a URI, or lacks what an option needs.
      AdkpgError: An ``adkpg://`` URI names no database, or cannot be read.
    """
    from google.adk.cli.fast_api import get_fast_api_app

    from adkpg.adk import Probes, QueuedRuns, register
    from adkpg.errors import AdkpgError

    register()
    try:
        if options.get("a2a") and session_service_uri.startswith(_HERE):
            from adkpg import a2a

            options |= {"task_store_uri": session_service_uri, "lifespan": a2a.lifespan}
        app = get_fast_api_app(bind_host=host, session_service_uri=session_service_uri, **options)
    except AdkpgError:
        raise
    except ValueError as exc:  # its words name the URI without its password
        raise click.ClickException(
            f"ADK cannot use a service that was named: {str(exc).rstrip('.')}. Correct the URI, or "
            "leave it out for this database."
        ) from exc
    except ModuleNotFoundError as exc:
        raise click.ClickException(
            f"ADK needs {exc.name} for an option that was given; install the extra of google-adk "
            "that has it, such as google-adk[a2a]."
        ) from exc
    except ImportError as exc:  # of adkpg.a2a, which says what it needs
        raise click.ClickException(str(exc)) from exc
    if session_service_uri.startswith(_HERE):
        app.add_middleware(QueuedRuns)
    app.add_middleware(Probes)  # the last one added is asked first, and waits for no turn
    return app
