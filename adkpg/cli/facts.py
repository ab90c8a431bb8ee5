"""``adkpg facts``: what is known of users, drawn from what they said."""

import json
from dataclasses import asdict

import click

from adkpg.cli.connection import database_url, run
from adkpg.cli.memory_rows import id_table, jsonable, text_of, time_of
from adkpg.database import Database
from adkpg.facts.extractor import Usage
from adkpg.facts.llm import FactExtractor
from adkpg.facts.reports import ExtractionReport, Profile, SessionSummary
from adkpg.facts.service import Facts
from adkpg.memory.queue.jobs import Jobs
from adkpg.memory.records import Memory
from adkpg.memory.service import PgVectorMemoryService
from adkpg.terminal import cell, console, printable, table

app = click.option("--app", "app_name", required=True, help="The app's name.")
user = click.option("--user", "user_id", required=True, help="The user's id.")
model = click.option(
    "--model", required=True, metavar="MODEL", help="The ADK model that reads, by its name."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")

_TOKENS = ("CALLS", "PROMPT TOKENS", "OUTPUT TOKENS")


@click.group()
def facts() -> None:
    """Draw facts from turns, and show them.

    Nothing is drawn until `enable` switches it on for an app; then `adkpg worker --extract` does it
    for everybody, or `extract` for one user.

    \b
    Example:
      adkpg facts enable --app my_agent
      adkpg facts extract --app my_agent --user alice --model gemini-2.5-flash
      adkpg facts profile --app my_agent --user alice
    """


@facts.command()
@app
@click.option("--off", is_flag=True, help="Switch it off: what waits is dropped, facts stay.")
@click.option("--new-only", is_flag=True, help="Only turns from now on, none that are remembered.")
@as_json
@database_url
def enable(
    app_name: str, off: bool, new_only: bool, as_json: bool, database_url: str | None
) -> None:
    """Switch extraction on or off for an app.

    In all processes that serve it. Turns that are remembered already wait to be read too, unless
    it was on before. Idempotent.

    \b
    Example:
      adkpg facts enable --app my_agent
      adkpg facts enable --app my_agent --new-only
      adkpg facts enable --app my_agent --off
    """
    if off and new_only:
        raise click.UsageError("--off and --new-only exclude each other.")

    async def switch(database: Database) -> int:
        await _stored(database).enable(app_name, not off, past=not new_only)
        return (await Jobs(database, "extract").backlog(app_name)).waiting

    waiting = run(database_url, switch)
    if as_json:
        click.echo(json.dumps({"enabled": not off, "waiting": waiting}))
    elif off:
        click.echo(printable(f"No facts are drawn for app {app_name!r}."))
    else:
        click.echo(
            printable(f"Facts are drawn for app {app_name!r}; turns that wait for it: {waiting}.")
        )


@facts.command()
@app
@user
@click.option("--session", "session_id", help="Only this session's turns.")
@model
@as_json
@database_url
def extract(
    app_name: str,
    user_id: str,
    session_id: str | None,
    model: str,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Draw facts from a user's turns that wait for it.

    Each turn is read once; running it again adds nothing. Turns that failed are due again later;
    their errors go to standard error, and the exit code is 1.

    \b
    Example:
      adkpg facts extract --app my_agent --user alice --model gemini-2.5-flash
      adkpg facts extract --app my_agent --user alice --session 3f2a --model gemini-2.5-flash
    """

    async def draw(database: Database) -> ExtractionReport:
        return await _extracting(database, model).extract(app_name, user_id, session_id)

    report = run(database_url, draw)
    if as_json:
        click.echo(json.dumps({**vars(report), "usage": asdict(report.usage)}))
    elif not report.turns and not report.failed:
        click.echo("No turn waits; `adkpg facts enable` makes an app's turns wait.")
    else:
        _show(report)
    for error in report.errors:
        click.echo(f"Error: {printable(error)}", err=True)
    if report.failed:
        raise click.exceptions.Exit(1)


@facts.command()
@app
@user
@click.option("--topic", "topics", multiple=True, help="Only facts about any of these.")
@click.option(
    "--limit",
    default=100,
    show_default=True,
    type=click.IntRange(min=1),
    help="At most so many facts.",
)
@as_json
@database_url
def profile(
    app_name: str,
    user_id: str,
    topics: tuple[str, ...],
    limit: int,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Show what is known of a user, and from what.

    The most important facts first, then the latest; below each fact, marked <, what it was drawn
    from.

    \b
    Example:
      adkpg facts profile --app my_agent --user alice
      adkpg facts profile --app my_agent --user alice --topic travel --topic home --json
    """

    async def read(database: Database) -> Profile:
        return await _stored(database).profile(
            app_name=app_name, user_id=user_id, topics=topics or None, limit=limit
        )

    known = run(database_url, read)
    if as_json:
        listed = [
            {
                "fact": jsonable(fact.memory),
                "provenance": [jsonable(each) for each in fact.provenance],
            }
            for fact in known.facts
        ]
        click.echo(json.dumps({"facts": listed}))
        return
    if not known.facts:
        click.echo("No facts are known of this user.")
        return
    shown = id_table("ID", "ABOUT", "FACT")
    for fact in known.facts:
        about = f"{fact.memory.importance:.2f} {', '.join(fact.memory.topics)}"
        shown.add_row(cell(fact.memory.id), cell(about), cell(fact.text))
        for each in fact.provenance:
            said = f"{time_of(each.timestamp)} {each.author or ''}"
            shown.add_row(
                cell(each.id, "dim"), cell(said, "dim"), cell(f"< {text_of(each)}", "dim")
            )
    console().print(shown)


@facts.command()
@app
@user
@as_json
@database_url
def topics(app_name: str, user_id: str, as_json: bool, database_url: str | None) -> None:
    """Count a user's memories of each topic.

    Of all kinds, those with the most memories first.

    \b
    Example:
      adkpg facts topics --app my_agent --user alice
    """
    counted = run(database_url, lambda database: _stored(database).topics(app_name, user_id))
    if as_json:
        listed = [{"topic": topic, "memories": count} for topic, count in counted]
        click.echo(json.dumps({"topics": listed}))
        return
    if not counted:
        click.echo("No memory of this user has a topic.")
        return
    shown = table("TOPIC", "MEMORIES")
    for topic, count in counted:
        shown.add_row(cell(topic), str(count))
    console().print(shown)


@facts.command()
@click.argument("memory_id", metavar="ID")
@app
@user
@as_json
@database_url
def history(
    memory_id: str, app_name: str, user_id: str, as_json: bool, database_url: str | None
) -> None:
    """Show what a fact replaced, and what replaced it.

    In the order of their time. Below a fact that is true no longer, marked >, is the id of the one
    that replaced it, and when it did.

    \b
    Example:
      adkpg facts history 3f2a --app my_agent --user alice
    """

    async def read(database: Database) -> list[Memory]:
        return await _stored(database).history(
            app_name=app_name, user_id=user_id, memory_id=memory_id
        )

    chain = run(database_url, read)
    if not chain:
        raise click.ClickException(
            printable(
                f"User {user_id!r} of app {app_name!r} has no fact {memory_id!r}; "
                "`adkpg facts profile` shows those that are known."
            )
        )
    if as_json:
        click.echo(json.dumps({"history": [jsonable(fact) for fact in chain]}))
        return
    shown = id_table("ID", "TIME", "FACT")
    for fact in chain:
        shown.add_row(cell(fact.id), cell(time_of(fact.timestamp)), cell(text_of(fact)))
        if fact.superseded_by is not None:
            since = time_of(fact.expires_at)
            shown.add_row(
                cell(fact.superseded_by, "dim"), cell(since, "dim"), cell("> replaced it", "dim")
            )
    console().print(shown)


@facts.command()
@app
@user
@click.option("--session", "session_id", required=True, help="The session's id.")
@model
@as_json
@database_url
def summarize(
    app_name: str,
    user_id: str,
    session_id: str,
    model: str,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Sum up a session, and remember that.

    As one memory of kind summary. Asked again, it answers without the model until the session has
    changed.

    \b
    Example:
      adkpg facts summarize --app my_agent --user alice --session 3f2a --model gemini-2.5-flash
    """

    async def sum_up(database: Database) -> SessionSummary:
        return await _extracting(database, model).summarize(app_name, user_id, session_id)

    summary = run(database_url, sum_up)
    if as_json:
        memory = None if summary.memory is None else jsonable(summary.memory)
        click.echo(json.dumps({"summary": memory, "usage": asdict(summary.usage)}))
        return
    if summary.memory is None:
        click.echo("Nothing is remembered of this session.")
        return
    shown = table("SUMMARY", "TOPICS", *_TOKENS)
    shown.add_row(
        cell(text_of(summary.memory)),
        cell(", ".join(summary.memory.topics)),
        *_tokens(summary.usage),
    )
    console().print(shown)


def _stored(database: Database) -> Facts:
    """Facts to be read and switched, without a model of any kind."""
    return Facts(PgVectorMemoryService(database, mode="text"))


def _extracting(database: Database, model: str) -> Facts:
    return Facts(PgVectorMemoryService(database), FactExtractor(model))


def _show(report: ExtractionReport) -> None:
    shown = table("TURNS", "FAILED", "ADDED", "UPDATED", "SUPERSEDED", "DROPPED", *_TOKENS)
    shown.add_row(
        str(report.turns),
        str(report.failed),
        str(report.added),
        str(report.updated),
        str(report.superseded),
        str(report.dropped.total()),
        *_tokens(report.usage),
    )
    console().print(shown)
    for reason, count in report.dropped.most_common():
        click.echo(printable(f"Dropped ({reason}): {count}."))


def _tokens(usage: Usage) -> tuple[str, str, str]:
    return str(usage.calls), str(usage.prompt_tokens), str(usage.output_tokens)
