"""``adkpg demo``: the main job, shown."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from adkpg.cli.removal import Removal

_ACTS = 3


@click.command()
@click.option("--say", multiple=True, metavar="TEXT", help="Tell the agent this; repeatable.")
@click.option("--ask", multiple=True, metavar="TEXT", help="Ask the agent this; repeatable.")
@click.option(
    "--transcript",
    "transcript_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Remember a data set's conversations, such as LoCoMo's, and measure recall.",
)
@click.option(
    "--limit-questions",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --transcript: the first N questions of each conversation only.",
)
@click.option("--forget", is_flag=True, help="Delete everything that demos left in the database.")
@click.option("--yes", is_flag=True, help="With --forget: delete without a question.")
@click.option(
    "--database-url",
    metavar="URL",
    help="postgresql://user:password@host/database, or embedded.  "
    "[default: ADKPG_DATABASE_URL, else embedded]",
)
@click.option("--act", type=click.IntRange(1, _ACTS), hidden=True)
@click.option("--user", "user_id", hidden=True)
def demo(
    say: tuple[str, ...],
    ask: tuple[str, ...],
    transcript_file: Path | None,
    limit_questions: int | None,
    forget: bool,
    yes: bool,
    database_url: str | None,
    act: int | None,
    user_id: str | None,
) -> None:
    """Show an agent that remembers across processes.

    Three processes run one after the other: the first tells an ADK agent some facts, the second
    resumes the session, the third asks in a new session what only memory knows. They write to
    adkpg's own tables, which are created if missing. The model is Gemini if GOOGLE_API_KEY is set,
    else a small offline one that answers only from what it is given.

    \b
    Example:
      adkpg demo
      adkpg demo --say "The key is under the blue pot." \\
        --ask "How do I get into the house?"
      adkpg demo --transcript locomo10.json --limit-questions 20
    """
    say, ask = (tuple(map(_unicode, texts)) for texts in (say, ask))
    if say and not ask:
        raise click.UsageError("--say needs a question: add --ask TEXT.")
    if not all(text.strip() for text in (*say, *ask)):
        raise click.UsageError("--say and --ask need a text.")
    if limit_questions and not transcript_file:
        raise click.UsageError("--limit-questions goes with --transcript FILE.")
    if yes and not forget:
        raise click.UsageError("--yes goes with --forget.")
    if sum(map(bool, (ask, transcript_file, forget))) > 1:
        raise click.UsageError("--ask, --transcript and --forget go each on its own.")
    from adkpg.demo import command

    if act is not None and user_id is not None:
        command.play(act, user_id, say, ask)
        return
    screen, url = command.begin(database_url)
    if forget:
        Removal(
            remove=lambda dry_run: asyncio.run(command.left(url, forget=not dry_run)),
            show=screen.rows,
            jsonable=lambda rows: {"rows": [row.model_dump() for row in rows]},
            question="Delete all these rows?",
            nothing="No demo left anything in the database.",
        ).carry_out(dry_run=False, yes=yes, as_json=False)
    elif transcript_file:
        asyncio.run(command.measure(screen, url, transcript_file, limit_questions, database_url))
    else:
        command.acts(screen, url, say, ask, database_url)


def _unicode(text: str) -> str:
    """Returns an argument with what is not UTF-8 in it replaced."""
    return text.encode("utf-8", "replace").decode()
