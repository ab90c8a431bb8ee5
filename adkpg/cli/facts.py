"""``adkpg facts``: what is known of users, drawn from what they said."""

from __future__ import annotations

from dataclasses import asdict

import click

import adkpg
from adkpg.cli.answers import answer, fail, jsonable, reader, say, text_of, time_of
from adkpg.cli.connection import connected
from adkpg.cli.options import app, as_json, full, limit, user
from adkpg.terminal import cell, printable

model = click.option(
    "--model", required=True, metavar="MODEL", help="Name of the ADK model that reads the turns."
)

_TOKENS = ("CALLS", "PROMPT TOKENS", "OUTPUT TOKENS")


@click.group()
def facts() -> None:
    """Draw facts from turns, and show them.

    Nothing is drawn until `enable` switches it on for an app; then `adkpg worker --extract` does it
    for everybody, or `extract` for one user.

    \b
    Example:
      adkpg facts enable --app my_agent
      adkpg facts extract --app my_agent --user alice --model gemini-3.5-flash
      adkpg facts profile --app my_agent --user alice
    """


@facts.command()
@app
@click.option("--new-only", is_flag=True, help="Only turns that are said from now on.")
@as_json
@connected
async def enable(database: adkpg.Database, app_name: str, *, new_only: bool, as_json: bool) -> None:
    """Switch extraction on for an app.

    It takes effect in all processes that serve the app. Turns that are already remembered are
    queued too, unless extraction was on before. Idempotent.

    \b
    Example:
      adkpg facts enable --app my_agent
      adkpg facts enable --app my_agent --new-only
    """
    await _stored(database).enable(app_name, past=not new_only)
    waiting = (await adkpg.Jobs(database, task="extract").backlog(app_name=app_name)).waiting
    sentence = f"Facts are drawn for app {app_name!r}; turns that wait for it: {waiting}."
    say(sentence, {"enabled": True, "waiting": waiting}, as_json=as_json)


@facts.command()
@app
@as_json
@connected
async def disable(database: adkpg.Database, app_name: str, *, as_json: bool) -> None:
    """Switch extraction off for an app.

    It takes effect in all processes that serve the app. Facts stay; queued turns leave the queue,
    and `enable` queues them again. Idempotent.

    \b
    Example:
      adkpg facts disable --app my_agent
    """
    await _stored(database).disable(app_name)
    say(f"No facts are drawn for app {app_name!r}.", {"enabled": False}, as_json=as_json)


@facts.command()
@app
@user
@click.option("--session", "session_id", help="Only this session's turns.")
@model
@as_json
@connected
async def extract(
    database: adkpg.Database,
    app_name: str,
    user_id: str,
    session_id: str | None,
    model: str,
    *,
    as_json: bool,
) -> None:
    """Draw facts from a user's queued turns.

    Each turn is read once; running it again adds nothing. Turns that failed are retried later;
    their errors go to standard error, and the exit code is 1.

    \b
    Example:
      adkpg facts extract --app my_agent --user alice --model gemini-3.5-flash
      adkpg facts extract --app my_agent --user alice --session 3f2a \\
        --model gemini-3.5-flash
    """
    report = await _extracting(database, model).extract(
        app_name=app_name, user_id=user_id, session_id=session_id
    )
    counts = (report.turns, report.failed, report.added, report.updated, report.superseded)
    answer(
        {**vars(report), "usage": asdict(report.usage)},
        ("TURNS", "FAILED", "ADDED", "UPDATED", "SUPERSEDED", "DROPPED", *_TOKENS),
        [(*counts, report.dropped.total(), *_tokens(report.usage))] if any(counts) else [],
        as_json=as_json,
        nothing="No turn waits; `adkpg facts enable` makes an app's turns wait.",
    )
    for reason, count in [] if as_json else report.dropped.most_common():
        click.echo(printable(f"Dropped ({reason}): {count}."))
    if report.failed:
        fail(report.errors)


@facts.command()
@app
@user
@click.option("--topic", "topics", multiple=True, help="Only facts about any of these.")
@limit("facts", 100)
@full
@as_json
@connected
async def profile(
    database: adkpg.Database,
    app_name: str,
    user_id: str,
    topics: tuple[str, ...],
    limit: int,
    *,
    full: bool,
    as_json: bool,
) -> None:
    """Show what is known of a user, and its provenance.

    The most important facts come first, then the latest. The turns that a fact was drawn from
    follow it, marked <.

    \b
    Example:
      adkpg facts profile --app my_agent --user alice
      adkpg facts profile --app my_agent --user alice --topic travel \\
        --topic home --json
    """
    known = await _stored(database).profile(
        app_name=app_name, user_id=user_id, topics=topics or None, limit=limit
    )
    listed = [
        {"fact": jsonable(fact.memory), "provenance": [*map(jsonable, fact.provenance)]}
        for fact in known.facts
    ]
    rows: list[tuple[object, ...]] = []
    for fact in known.facts:
        about = f"{fact.memory.importance:.2f} {', '.join(fact.memory.topics)}"
        rows.append((fact.memory.id, about, fact.text))
        for each in fact.provenance:
            said = f"{time_of(each.timestamp)} {each.author or ''}"
            rows.append(_dim(each.id, said, f"< {text_of(each)}"))
    nothing = "No facts are known of this user."
    columns = ("ID", "ABOUT", "FACT")
    answer({"facts": listed}, columns, rows, as_json=as_json, nothing=nothing, full=full)


@facts.command()
@app
@user
@as_json
@connected
async def topics(database: adkpg.Database, app_name: str, user_id: str, *, as_json: bool) -> None:
    """Count a user's memories by topic.

    Memories of all kinds count. The topic with the most memories comes first.

    \b
    Example:
      adkpg facts topics --app my_agent --user alice
    """
    counted = await _stored(database).topics(app_name=app_name, user_id=user_id)
    value = {"topics": [{"topic": topic, "memories": count} for topic, count in counted]}
    nothing = "No memory of this user has a topic."
    answer(value, ("TOPIC", "MEMORIES"), counted, as_json=as_json, nothing=nothing)


@facts.command()
@click.argument("memory_id", metavar="ID")
@app
@user
@full
@as_json
@connected
async def history(
    database: adkpg.Database,
    memory_id: str,
    app_name: str,
    user_id: str,
    *,
    full: bool,
    as_json: bool,
) -> None:
    """Show what a fact replaced, and what replaced it.

    Sorted by time. A fact that is no longer true is followed by the id of the one that replaced it
    and the time when it did, marked >.

    \b
    Example:
      adkpg facts history 3f2a --app my_agent --user alice
    """
    chain = await _stored(database).history(app_name=app_name, user_id=user_id, memory_id=memory_id)
    if not chain:
        raise click.ClickException(
            printable(
                f"User {user_id!r} of app {app_name!r} has no fact {memory_id!r}; "
                "`adkpg facts profile` shows those that are known."
            )
        )
    rows: list[tuple[object, ...]] = []
    for fact in chain:
        rows.append((fact.id, time_of(fact.timestamp), text_of(fact)))
        if fact.superseded_by is not None:
            rows.append(_dim(fact.superseded_by, time_of(fact.expires_at), "> replaced it"))
    value = {"history": [*map(jsonable, chain)]}
    answer(value, ("ID", "TIME", "FACT"), rows, as_json=as_json, nothing="", full=full)


@facts.command()
@app
@user
@click.option("--session", "session_id", required=True, help="The session's id.")
@model
@as_json
@connected
async def summarize(
    database: adkpg.Database,
    app_name: str,
    user_id: str,
    session_id: str,
    model: str,
    *,
    as_json: bool,
) -> None:
    """Sum up a session, and remember the summary.

    It becomes one memory of kind summary. Run again, the command asks the model only if the session
    has changed.

    \b
    Example:
      adkpg facts summarize --app my_agent --user alice --session 3f2a \\
        --model gemini-3.5-flash
    """
    summary = await _extracting(database, model).summarize(
        app_name=app_name, user_id=user_id, session_id=session_id
    )
    memory = summary.memory
    found = [] if memory is None else [memory]
    answer(
        {"summary": memory and jsonable(memory), "usage": asdict(summary.usage)},
        (*_TOKENS, "TOPICS", "SUMMARY"),
        [(*_tokens(summary.usage), ", ".join(each.topics), text_of(each)) for each in found],
        as_json=as_json,
        nothing="Nothing is remembered of this session.",
        full=True,
    )


def _stored(database: adkpg.Database) -> adkpg.facts.Facts:
    """Facts to be read and switched, without a model of any kind."""
    return adkpg.facts.Facts(reader(database))


def _extracting(database: adkpg.Database, model: str) -> adkpg.facts.Facts:
    memory = adkpg.PgVectorMemoryService(database)
    return adkpg.facts.Facts(memory, extractor=adkpg.facts.FactExtractor(model))


def _dim(*values: object) -> tuple[object, ...]:
    return tuple(cell(value, "dim") for value in values)


def _tokens(usage: adkpg.facts.Usage) -> tuple[int, int, int]:
    return usage.calls, usage.prompt_tokens, usage.output_tokens
