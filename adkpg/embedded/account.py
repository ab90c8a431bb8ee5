"""The account that runs the server: ours, or an unprivileged one when we are root."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from adkpg.errors import EmbeddedServerError

if sys.platform != "win32":
    import pwd

# Nothing of the caller's environment (PG*, locale, TMPDIR, LD_*) reaches the server; a given TZ
# spares initdb its search for the machine's.
_ENVIRONMENT: Mapping[str, str] = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}

_FIRST_NOT_ENTERABLE = 'for p; do test -x "$p" || { printf %s "$p"; exit 1; }; done'


@dataclass(frozen=True)
class Account:
    """A user and group under which the programs of Postgres run.

    Attributes:
      uid: User id; never 0, since Postgres refuses root.
      gid: Its primary group.
      name: For messages; the number where the system has no name.
      switch: Whether we are root and must become this user.
    """

    uid: int
    gid: int
    name: str
    switch: bool

    @classmethod
    def of_server(cls, path: Path, pgdata: Path) -> "Account":
        """Returns the account that runs the server of a directory.

        For an ordinary user it is that user. For root it is the nearest owner who is not root,
        of ``pgdata``, ``path`` and its parents in turn; else ``postgres``, else ``nobody``. No
        user is ever created.
        """
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid(), _name(os.geteuid()), switch=False)
        for owned in (pgdata, path, *path.parents):
            if owned.exists() and (stat := owned.stat()).st_uid != 0:
                group = _group(stat.st_uid, stat.st_gid)
                return cls(stat.st_uid, group, _name(stat.st_uid), switch=True)
        for name in ("postgres", "nobody"):
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(entry.pw_uid, entry.pw_gid, name, switch=True)
        return cls(65534, 65534, "65534", switch=True)

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        timeout_s: float,
        text: str | None = None,
        stderr: IO[bytes] | int = subprocess.PIPE,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end as this account.

        It runs in ``/``, in a session of its own (Ctrl-C in the terminal does not reach what it
        leaves behind), with a clean environment and ``text`` as its whole input.

        Raises:
          EmbeddedServerError: The program cannot be started, or outlives ``timeout_s``.
        """
        program = Path(argv[0]).name
        try:
            return subprocess.run(
                [str(part) for part in argv],
                input=text if text is not None else "",
                stdout=subprocess.PIPE,
                stderr=stderr,
                encoding="utf-8",
                errors="replace",
                cwd="/",
                env=dict(_ENVIRONMENT),
                timeout=max(timeout_s, 0.1),
                start_new_session=True,
                umask=0o077,
                user=self.uid if self.switch else None,
                group=self.gid if self.switch else None,
                extra_groups=[] if self.switch else None,
            )
        except subprocess.TimeoutExpired as exc:
            raise EmbeddedServerError(
                f"The program {program} of the embedded server did not finish in "
                f"{timeout_s:.1f} s; pass a larger timeout_s."
            ) from exc
        except OSError as exc:
            raise EmbeddedServerError(
                f"The program {argv[0]} cannot be run as the account {self.name!r} "
                f"({exc.strerror}); run adkpg as an ordinary user, or set ADKPG_DATABASE_URL to "
                "a server of your own."
            ) from exc

    def first_unreachable(self, path: Path) -> Path | None:
        """Returns the first of ``path`` and its parents that the account may not enter.

        For a file, "enter" means execute. The system itself is asked, so ACLs count too.
        """
        chain = [*reversed(path.parents), path]
        answer = self.run(["/bin/sh", "-c", _FIRST_NOT_ENTERABLE, "sh", *chain], timeout_s=30)
        return Path(answer.stdout) if answer.returncode else None

    def give(self, target: Path | int) -> None:
        """Makes the account the owner of a path or open file that we have just created."""
        if not self.switch:
            return
        if isinstance(target, int):
            os.fchown(target, self.uid, self.gid)
        else:
            os.lchown(target, self.uid, self.gid)


def _name(uid: int) -> str:
    """Returns the user's name, or the number if the system knows none (many containers)."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(uid: int, fallback: int) -> int:
    """Returns the user's primary group, or ``fallback`` for a user without an entry."""
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return fallback
