"""``adkpg demo``: the main job, shown."""

from __future__ import annotations

import click

_ACTS = 3


@click.command()
@click.option("--say", multiple=True, metavar="TEXT", help="Tell the agent this; repeatable.")
@click.option("--ask", multiple=True, metavar="TEXT", help="Ask the agent this; repeatable.")
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
    database_url: str | None,
    act: int | None,
    user_id: str | None,
) -> None:
    """Show an agent that remembers across processes.

    The first process tells an ADK agent some facts, the second resumes the session, the third asks
    in a new session what only memory knows. They write to adkpg's own tables, which are created if
    missing. The model is Gemini if GOOGLE_API_KEY is set, else a small offline one.

    \b
    Example:
      adkpg demo
      adkpg demo --say "The key is under the blue pot." \\
        --ask "How do I get into the house?"
    """
    say, ask = (tuple(map(_unicode, texts)) for texts in (say, ask))
    if say and not ask:
        raise click.UsageError("--say needs a question: add --ask TEXT.")
    if not all(text.strip() for text in (*say, *ask)):
        raise click.UsageError("--say and --ask need a text.")
    from adkpg.tooling.demo import command

    if act is not None and user_id is not None:
        command.play(act, user_id, say, ask)
        return
    screen, url = command.begin(database_url)
    command.acts(screen, url, say, ask, database_url)


def _unicode(text: str) -> str:
    """Returns an argument with what is not UTF-8 in it replaced."""
    return text.encode("utf-8", "replace").decode()
