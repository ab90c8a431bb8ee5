"""``adkpg forget``: erases a person."""

import json
from dataclasses import asdict

import click
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.cli.service_registry import get_service_registry

from adkpg.cli.connection import database_url, run
from adkpg.database import Database
from adkpg.erasure import Erased
from adkpg.erasure import forget as forget_person
from adkpg.errors import ConfigurationError
from adkpg.terminal import cell, console, printable, table

_LABELS = {
    "user_states": "user state",
    "memory_vectors": "vectors",
    "memory_lexemes": "words",
    "memory_jobs": "pending jobs",
    "memory_provenance": "provenance of facts",
    "memory_tombstones": "marks of deleted memories",
    "approximate_scopes": "index entries",
}


@click.command()
@click.option(
    "--app", "app_names", required=True, multiple=True, help="The app's name; may be repeated."
)
@click.option("--user", "user_id", required=True, help="The user's id.")
@click.option(
    "--artifact-service-uri",
    metavar="URI",
    help="Where the user's files are, as for adk web: gs://bucket or file:///folder.  "
    "[default: files are left alone]",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be erased.")
@click.option("--yes", is_flag=True, help="Do not ask before erasing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; needs --yes or --dry-run.")
@database_url
def forget(
    app_names: tuple[str, ...],
    user_id: str,
    artifact_service_uri: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Erase everything that is kept of a person.

    Sessions, events, state, memories, facts, vectors, pending work, and files if their service is
    named. One transaction per app; idempotent. Without --yes it shows what there is and asks.

    \b
    Example:
      adkpg forget --app my_agent --user alice --dry-run
      adkpg forget --app my_agent --user alice --artifact-service-uri gs://my_bucket
    """
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json asks nothing; give --yes or --dry-run too.")
    artifacts = _artifact_service(artifact_service_uri) if artifact_service_uri else None

    def erase(*, counted_only: bool) -> list[Erased]:
        async def each_app(database: Database) -> list[Erased]:
            return [
                await forget_person(
                    database,
                    app_name=app_name,
                    user_id=user_id,
                    artifact_service=artifacts,
                    dry_run=counted_only,
                )
                for app_name in dict.fromkeys(app_names)
            ]

        return run(database_url, each_app)

    if dry_run or not yes:
        planned = erase(counted_only=True)
        if as_json:
            click.echo(_json(planned, dry_run=True))
            return
        if not any(planned):
            click.echo(f"Nothing is kept of user {printable(user_id)}.")
            return
        _show(planned, "KEPT")
        if dry_run:
            click.echo("Nothing was erased.")
            return
        click.confirm("Erase all this for good?", abort=True)
    erased = erase(counted_only=False)
    if as_json:
        click.echo(_json(erased, dry_run=False))
    elif any(erased):
        _show(erased, "ERASED")
    else:
        click.echo(f"Nothing was kept of user {printable(user_id)}.")


def _artifact_service(uri: str) -> BaseArtifactService:
    try:
        service = get_service_registry().create_artifact_service(uri)
    except (ValueError, ImportError) as exc:
        raise ConfigurationError(
            f"ADK cannot use this artifact service ({exc}); correct the URI or install its package."
        ) from exc
    if service is None:
        raise ConfigurationError(
            "ADK knows no artifact service of this URI's scheme; write gs://bucket or "
            "file:///folder."
        )
    return service


def _show(parts: list[Erased], heading: str) -> None:
    shown = table("APP", "WHAT", heading)
    for part in parts:
        for what, count in _counts(part).items():
            shown.add_row(cell(part.app_name), what, str(count))
    console().print(shown)


def _counts(part: Erased) -> dict[str, int]:
    """What there was, memories by kind, each with its number."""
    counts: dict[str, int] = {}
    for name, count in sorted(part.rows.items(), key=lambda item: _order(item[0])):
        if name == "memories":
            kinds = {f"memories ({kind})": many for kind, many in part.memories.items()}
            counts |= dict(sorted(kinds.items()))
        else:
            counts[_LABELS.get(name, name)] = count
    if part.files:
        counts["files"] = part.files
    return counts


def _order(name: str) -> tuple[int, str]:
    first = ("sessions", "events", "user_states", "memories")
    return (first.index(name) if name in first else len(first), name)


def _json(parts: list[Erased], *, dry_run: bool) -> str:
    return json.dumps({"dry_run": dry_run, "erased": [asdict(part) for part in parts]})
