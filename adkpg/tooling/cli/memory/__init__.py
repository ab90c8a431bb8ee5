"""``adkpg memory``: what is remembered of users, and what an app knows for all of them."""

import click

from adkpg.tooling.cli.memory.catalog import delete, list_
from adkpg.tooling.cli.memory.documents import add
from adkpg.tooling.cli.memory.evaluate import evaluate
from adkpg.tooling.cli.memory.prune import prune
from adkpg.tooling.cli.memory.search import search
from adkpg.tooling.cli.memory.upkeep import config, index, jobs


@click.group(
    commands=[
        *(search, evaluate, list_, delete, add, config, jobs, index, prune),
    ]
)
def memory() -> None:
    """Search, list and delete memories, and add documents.

    Without --user, commands work on what the app knows for all its users, except `jobs`, which
    counts all users'. `delete` and `prune` must be told whose memories go.

    \b
    Example:
      adkpg memory search "Which city did she move to?" --app my_agent \\
        --user alice
      adkpg memory add docs/ --app my_agent
    """
