"""Process: an act of the demo in a Python process of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import click
from click.exceptions import Exit

from adkpg.tooling.demo import line
from adkpg.tooling.demo.line import Line


def run(arguments: Sequence[str], database_url: str) -> Iterator[Line]:
    """Runs ``adkpg demo`` with hidden arguments and yields its lines as they come.

    The database is named in the environment, where ``ps`` shows no password. The process has a
    group of its own: Ctrl-C reaches it once, through this one, which waits for it, so that it
    closes its connections and its share of an embedded server.

    Raises:
      Exit: It failed, and has written its sentence to standard error itself.
      ClickException: A signal ended it.
    """
    begun = False
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "adkpg", "demo", *arguments],
        stdout=subprocess.PIPE,
        env=os.environ | {"ADKPG_DATABASE_URL": database_url},
        text=True,
        process_group=0,
    ) as process:
        assert process.stdout is not None
        try:
            for text in process.stdout:
                begun = True
                yield line.read(text)
        except BaseException:  # Ctrl-C and a closed generator too must end the child
            # Before its first line it has nothing to close, and Python would show a traceback.
            process.send_signal(signal.SIGINT if begun else signal.SIGTERM)
            process.wait()
            raise
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        raise click.ClickException(f"The process was ended by {name}; run the demo again.")
    if process.returncode:
        raise Exit(process.returncode)
