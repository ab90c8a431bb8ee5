"""A new major version of Postgres: what the old one stored is dumped and restored beside it."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from adkpg.embedded.account import Account
from adkpg.embedded.binaries import Binaries
from adkpg.embedded.directory import Directory
from adkpg.embedded.launch import Launch
from adkpg.embedded.postmaster import Postmaster
from adkpg.errors import EmbeddedServerError

_DATABASES = "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'"
_OWN_ROLE = "CREATE ROLE postgres;\n"  # every cluster has it


@dataclass(frozen=True)
class Upgraded:
    """A server's data after their upgrade.

    Attributes:
      before: The major version of Postgres that had made them.
      after: The one that reads them now.
      kept: The old data, which nothing reads any more.
    """

    before: int
    after: int
    kept: Path


def move(
    directory: Directory, account: Account, old: Binaries, new: Binaries, *, deadline: float
) -> Upgraded:
    """Makes the data of a directory those of other binaries; call it under the starters' lock.

    Both servers run side by side; the new data take the old ones' place when they are complete, and
    those stay under another name. Interrupted anywhere, it can be begun again.

    Raises:
      EmbeddedServerError: It failed; the old data are as they were.
    """
    before, after = old.major(), new.major()
    kept = directory.path / f"pgdata.{before}"
    if kept.exists():
        raise EmbeddedServerError(
            f"The data of an earlier upgrade are still in {kept}; move them elsewhere first."
        )
    beside = directory.beside
    _clear(beside, deadline)
    beside.prepare(account)
    sides = (Launch(directory, old, account, deadline), Launch(beside, new, account, deadline))
    try:
        running = [side.ensure_running("", durable=True) for side in sides]
        _Transfer(
            _Side(old, account, running[0], deadline),
            _Side(new, account, running[1], deadline),
            beside.path,
        ).all()
        for postmaster in running:
            postmaster.stop(deadline)
        directory.complete.touch()
    except BaseException:
        for side in sides:
            if (left := Postmaster.of(side.directory.pgdata)) is not None:
                left.stop(time.monotonic() + 60)
        shutil.rmtree(beside.path, ignore_errors=True)
        raise
    directory.pgdata.rename(kept)
    directory.adopt()
    return Upgraded(before, after, kept)


@dataclass(frozen=True)
class _Side:
    """A running server, and the programs of its own version.

    A newer pg_dump may write what a distribution's older server keeps for itself, and the new one
    does not know.
    """

    binaries: Binaries
    account: Account
    server: Postmaster
    deadline: float

    def run(self, program: str, *arguments: str, text: str = "") -> str:
        answer = self.account.run(
            [
                self.binaries.program(program),
                f"--host={self.server.socket_dir}",
                "--username=postgres",
                "--no-password",
                *arguments,
            ],
            timeout_s=self.deadline - time.monotonic(),
            text=text,
        )
        if answer.returncode != 0:
            raise EmbeddedServerError(
                f"The data could not be moved, and the old ones are as they were: {program} says: "
                f"{' '.join(answer.stderr.split())[-600:]}"
            )
        return answer.stdout

    def sql(self, text: str) -> str:
        options = ("--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--dbname=postgres")
        return self.run("psql", *options, "--set=ON_ERROR_STOP=1", text=text)


@dataclass(frozen=True)
class _Transfer:
    """Everything that one server stores, given to another that is empty."""

    source: _Side
    target: _Side
    place: Path

    def all(self) -> None:
        roles = self.place / "roles.sql"
        self.source.run("pg_dumpall", "--globals-only", f"--file={roles}")
        self.target.sql(roles.read_text(encoding="utf-8").replace(_OWN_ROLE, ""))
        for number, name in enumerate(self.source.sql(_DATABASES).splitlines()):
            file = self.place / f"{number}.dump"
            dump = ("--format=custom", "--create", f"--file={file}", f"--dbname={name}")
            self.source.run("pg_dump", *dump)
            restore = ("--create", "--exit-on-error", "--dbname=postgres", str(file))
            self.target.run("pg_restore", *restore)
            file.unlink()
        self.target.run("vacuumdb", "--all", "--analyze", "--quiet")


def _clear(beside: Directory, deadline: float) -> None:
    """Ends what an interrupted upgrade left."""
    if not beside.path.exists():
        return
    if (left := Postmaster.of(beside.pgdata)) is not None:
        left.stop(deadline)
    shutil.rmtree(beside.path)
