"""What the commands of ``adkpg memory`` take alike: a scope, filters, times."""

import functools
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click

from adkpg.memory.filters import KINDS, SearchFilters

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

app = click.option("--app", "app_name", required=True, help="The app's name.")
user = click.option(
    "--user",
    "user_id",
    help="The user's id.  [default: the app-wide scope, which every user's searches find]",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def duration(_ctx: click.Context, _param: click.Parameter, value: str | None) -> timedelta | None:
    """Reads an option's time span, as ``30d``, ``12h`` or ``90m``."""
    if value is None:
        return None
    written = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([smhdw])", value.strip())
    if written is None:
        raise click.BadParameter(f"{value!r} is no time span; write 30d, 12h, 90m or 45s.")
    return timedelta(seconds=float(written[1]) * _UNITS[written[2]])


def json_object(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> dict[str, Any] | None:
    """Reads an option's JSON object."""
    if value is None:
        return None
    try:
        read = json.loads(value)
    except ValueError as exc:
        raise click.BadParameter(f"{value!r} is no JSON: {exc}.") from exc
    if not isinstance(read, dict):
        raise click.BadParameter(f"{value!r} is no JSON object; write '{{\"key\": 1}}'.")
    return read


def filtered(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the filters' options to a command, which gets them as ``filters``."""

    @functools.wraps(command)
    def read(
        *,
        after: str | None,
        before: str | None,
        authors: tuple[str, ...],
        session_ids: tuple[str, ...],
        kinds: tuple[str, ...],
        topics: tuple[str, ...],
        metadata: dict[str, Any] | None,
        **options: Any,
    ) -> None:
        filters = SearchFilters(
            after=after,
            before=before,
            authors=authors,
            session_ids=session_ids,
            kinds=kinds,
            topics=topics,
            metadata=metadata or {},
        )
        command(filters=filters, **options)

    for option in reversed(
        [
            click.option("--after", metavar="TIME", help="Said at or after this time (ISO 8601)."),
            click.option("--before", metavar="TIME", help="Said before this time."),
            click.option("--author", "authors", multiple=True, help="Said by any of these."),
            click.option(
                "--session", "session_ids", multiple=True, help="Said in any of these sessions."
            ),
            click.option(
                "--kind",
                "kinds",
                multiple=True,
                type=click.Choice(KINDS),
                help="Of any of these kinds.",
            ),
            click.option("--topic", "topics", multiple=True, help="About any of these."),
            click.option(
                "--metadata",
                callback=json_object,
                metavar="JSON",
                help="With these in its custom metadata.",
            ),
        ]
    ):
        read = option(read)
    return read
