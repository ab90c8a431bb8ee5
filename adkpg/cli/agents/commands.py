"""Commands of ADK, which get adkpg's services unless others are named."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from functools import partial, wraps
from pathlib import Path
from traceback import walk_tb
from typing import Any, NoReturn

import click

from adkpg.terminal import printable

_OF_URIS = {
    "google.adk.cli.utils.service_factory",
    "google.adk.sessions.database_session_service",
    "google.adk.sessions.sqlite_session_service",
}
_LOCAL = {"--use_local_storage", "--no_use_local_storage"}


class HandedOver(click.Command):
    """A command that reads none of its arguments: they are ADK's, ``--help`` and ``--`` too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keeps the arguments as they were typed."""
        ctx.params["arguments"] = tuple(args)
        return []


_arguments = click.argument("arguments", nargs=-1, metavar="[ARGUMENTS OF ADK]...")


@click.command(cls=HandedOver, add_help_option=False)
@_arguments
def web(arguments: tuple[str, ...]) -> None:
    """Serve agents with ADK's web UI, on this database.

    This is ADK's `adk web`, and every argument and option is its own; `adkpg web --help` shows
    them. Sessions, memory and files are in ADKPG_DATABASE_URL; each of --session_service_uri,
    --memory_service_uri and --artifact_service_uri still names another service, and
    --[no_]use_local_storage leaves sessions and files to ADK. Messages of one session take turns.

    \b
    Example:
      adkpg web agents
      adkpg web --port 8080 --artifact_service_uri gs://bucket agents
    """
    _hand_over("web", "web", arguments)


@click.command("api-server", cls=HandedOver, add_help_option=False)
@_arguments
def api_server(arguments: tuple[str, ...]) -> None:
    """Serve agents over HTTP with ADK's server, on this database.

    This is ADK's `adk api_server`, and every argument and option is its own; `adkpg api-server
    --help` shows them. Sessions, memory and files are in ADKPG_DATABASE_URL; each of
    --session_service_uri, --memory_service_uri and --artifact_service_uri still names another
    service, and --[no_]use_local_storage leaves sessions and files to ADK. Requests of one session
    take turns. GET /livez says whether the server runs, GET /readyz whether its databases answer
    and have this version's tables.

    \b
    Example:
      adkpg api-server agents
      adkpg api-server --host 0.0.0.0 --port 8080 --auto_create_session agents
    """
    _hand_over("api_server", "api-server", arguments)


@click.command(cls=HandedOver, add_help_option=False)
@_arguments
def run(arguments: tuple[str, ...]) -> None:
    """Talk with an agent at the terminal, on this database.

    This is ADK's `adk run`, and every argument and option is its own; `adkpg run --help` shows
    them. Sessions, memory and files are in ADKPG_DATABASE_URL; each of --session_service_uri,
    --memory_service_uri and --artifact_service_uri still names another service, and
    --[no_]use_local_storage leaves sessions and files to ADK.

    \b
    Example:
      adkpg run agents/companion
      adkpg run agents/companion "Where did I leave my bike?"
    """
    _hand_over("run", "run", arguments)


def _hand_over(name: str, own_name: str, arguments: tuple[str, ...]) -> NoReturn:
    """Runs ADK's command of a name to the end of the process, or of the exception it raises."""
    from google.adk.cli import main

    from adkpg.adk.services import SCHEME, register
    from adkpg.errors import AdkpgError

    register()
    if name == "run":
        _keep_warnings_visible()
        _log_apart()
    _complete_its_servers()
    kinds = {"session", "memory", "artifact"}
    if _LOCAL.intersection(arguments):  # ADK refuses it together with these two URIs
        kinds = {"memory"}
    # As defaults, not as arguments: what is typed wins by ADK's own rules.
    defaults = {f"{kind}_service_uri": f"{SCHEME}://" for kind in kinds}
    threading.excepthook = _unless_of_sqlite
    try:
        main.commands[name].main(arguments, prog_name=f"adkpg {own_name}", default_map=defaults)
    except Exception as exc:
        if isinstance(exc, AdkpgError) or not _of_a_uri(exc):
            raise  # adkpg's errors say their cure themselves
        # ADK's words or the driver's, which name the URI without its password.
        words = str(getattr(exc, "orig", None) or exc).strip() or type(exc).__name__
        first = printable(words.splitlines()[0]).rstrip(".")
        raise click.ClickException(
            f"ADK cannot use a service that was named: {first}. Correct the URI, or leave it out "
            "for this database."
        ) from exc


def _keep_warnings_visible() -> None:
    """Shows adkpg's warnings on standard error, where `adk run` would log to its file alone."""
    shown = logging.StreamHandler()
    shown.setLevel(logging.WARNING)
    logging.getLogger("adkpg").addHandler(shown)


def _log_apart() -> None:
    """Gives ADK's log a folder of this account's, if the one that all share is somebody else's."""
    from google.adk.cli.utils import logs

    shared = Path(tempfile.gettempdir(), "agents_log")
    if shared.exists() and not (shared.is_dir() and os.access(shared, os.W_OK | os.X_OK)):
        own = f"{shared.name}_{os.getuid()}"
        logs.log_to_tmp_folder = partial(logs.log_to_tmp_folder, sub_folder=own)


def _unless_of_sqlite(args: threading.ExceptHookArgs) -> None:
    """Shows what ended a thread, unless it only could not tell a loop that has ended.

    The driver of SQLite answers from a thread: of a file that cannot be opened, too late.
    """
    frames = [frame for frame, _ in walk_tb(args.exc_traceback)]
    its = any(frame.f_globals.get("__name__") == "aiosqlite.core" for frame in frames)
    if not (its and isinstance(args.exc_value, RuntimeError)):
        threading.__excepthook__(args)


def _of_a_uri(exc: BaseException) -> bool:
    """Whether it was raised where ADK makes services of URIs, or opens their databases."""
    frames = walk_tb(exc.__traceback__)
    return any(frame.f_globals.get("__name__") in _OF_URIS for frame, _ in frames)


def _complete_its_servers() -> None:
    """Has the apps of ADK's servers here answer probes, and queue the runs of a session."""
    from google.adk.cli import fast_api

    from adkpg.adk.probes import Probes
    from adkpg.adk.queued_runs import QueuedRuns
    from adkpg.adk.services import SCHEME, SessionService

    make = fast_api.get_fast_api_app

    @wraps(make)
    def completed(*args: Any, **options: Any) -> Any:
        app = make(*args, **options)
        uri = options.get("session_service_uri") or ""
        if uri.startswith(f"{SCHEME}:"):
            app.add_middleware(QueuedRuns, sessions=SessionService(uri))
        app.add_middleware(Probes)  # before those that wait for their turn
        return app

    # ADK's commands look it up when they run, and ask no plugin for middleware.
    fast_api.get_fast_api_app = completed
