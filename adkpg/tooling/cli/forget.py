"""``adkpg forget``: erases a person."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

import adkpg.tooling
from adkpg.tooling.cli.connection import database_url, run
from adkpg.tooling.cli.options import require_one, user
from adkpg.tooling.cli.removal import Removal, removes
from adkpg.tooling.terminal import printable, show

if TYPE_CHECKING:
    from google.adk.artifacts.base_artifact_service import BaseArtifactService

_LABELS = {
    "user_states": "user state",
    "memory_vectors": "vectors",
    "memory_lexemes": "words",
    "memory_jobs": "pending jobs",
    "memory_provenance": "provenance of facts",
    "memory_tombstones": "marks of deleted memories",
    "invocation_waiters": "waiting requests",
    "invocation_results": "results of requests",
    "approximate_scopes": "index entries",
    "artifacts": "versions of saved files",
    "artifact_chunks": "parts of saved files",
    "artifact_uploads": "files that are being uploaded",
}
_FIRST = ("sessions", "events", "user_states", "memories")


@click.command()
@click.option("--app", "app_names", multiple=True, help="The app's name; repeatable.")
@click.option("--all-apps", is_flag=True, help="All apps that `adkpg apps` names.")
@user
@click.option(
    "--artifact-service-uri",
    metavar="URI",
    help="Another artifact service with files of the user, as for adk web: gs://bucket or "
    "file:///folder.  [default: its files are left alone]",
)
@removes
@database_url
def forget(
    app_names: tuple[str, ...],
    all_apps: bool,
    user_id: str,
    artifact_service_uri: str | None,
    database_url: str | None,
    **consent: bool,
) -> None:
    """Erase everything that is stored of a person.

    It also erases the files in another artifact service if it is named. One transaction per app;
    idempotent.

    \b
    Example:
      adkpg forget --app my_agent --user alice --dry-run
      adkpg forget --app my_agent --user alice \\
        --artifact-service-uri gs://my_bucket
      adkpg forget --all-apps --user alice --dry-run
    """
    require_one("of which app", ["--app", "--all-apps"], bool(app_names) + all_apps)
    places = "any app" if all_apps else ", ".join(app_names)
    artifacts = _artifact_service(artifact_service_uri) if artifact_service_uri else None

    def erase(dry_run: bool) -> list[adkpg.erasure.Erased]:
        async def kept(database: adkpg.Database) -> list[str]:
            found = await adkpg.tooling.operations.apps_of(database, user_id=user_id)
            return [each.app_name for each in found]

        async def each_app(database: adkpg.Database) -> list[adkpg.erasure.Erased]:
            parts = [
                await adkpg.erasure.forget(
                    database,
                    app_name=app_name,
                    user_id=user_id,
                    artifact_service=artifacts,
                    dry_run=dry_run,
                )
                for app_name in dict.fromkeys(await kept(database) if all_apps else app_names)
            ]
            if any(parts):
                return parts
            if not all_apps:
                who, names = printable(user_id), ", ".join(map(printable, await kept(database)))
                click.echo(
                    f"User {who} is kept in other apps: {names}."
                    if names
                    else f"No other app keeps anything of user {who}; check how the id is spelled.",
                    err=True,
                )
            return []

        return run(database_url, each_app)

    Removal(
        remove=erase,
        show=_show,
        jsonable=lambda parts: {"erased": [asdict(part) for part in parts]},
        question="Erase all this for good?",
        nothing=f"Nothing is kept of user {printable(user_id)} in {printable(places)}.",
    ).carry_out(**consent)


def _artifact_service(uri: str) -> BaseArtifactService:
    from google.adk.cli.service_registry import get_service_registry

    try:
        service = get_service_registry().create_artifact_service(uri)
    except (ValueError, ImportError) as exc:
        raise adkpg.errors.ConfigurationError(
            f"ADK cannot use this artifact service ({exc}); correct the URI or install its package."
        ) from exc
    if service is None:
        raise adkpg.errors.ConfigurationError(
            "ADK knows no artifact service of this URI's scheme; write gs://bucket or "
            "file:///folder."
        )
    return service


def _show(parts: list[adkpg.erasure.Erased]) -> None:
    rows = [(part.app_name, what, count) for part in parts for what, count in _counts(part).items()]
    show(("APP", "WHAT", "COUNT"), rows)


def _counts(part: adkpg.erasure.Erased) -> dict[str, int]:
    """Counts by what they are of, memories by kind."""
    counts: dict[str, int] = {}
    for name, count in sorted(part.rows.items(), key=lambda item: _order(item[0])):
        if name == "memories":
            kinds = {f"memories ({kind})": many for kind, many in part.memories.items()}
            counts |= dict(sorted(kinds.items()))
        else:
            counts[_LABELS.get(name, name)] = count
    if part.files:
        counts["files"] = part.files
    if part.objects:
        counts["objects of files"] = part.objects
    if part.objects_left:
        counts["of these, left to the next adkpg db tidy"] = part.objects_left
    return counts


def _order(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)
