"""The directory of one server: its data, socket, log and locks, and who may enter it."""

import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from adkpg.embedded.account import Account
from adkpg.errors import EmbeddedServerError

if sys.platform != "win32":
    import pwd

# sockaddr_un.sun_path holds 107 bytes and a NUL on Linux, 103 on macOS.
_SOCKET_PATH_BYTES = 103
PORT = 5432  # only a part of the socket's name; nothing listens on it
SOCKET_NAME = f".s.PGSQL.{PORT}"
_CURE = "set ADKPG_EMBEDDED_DIR to a directory of your own"


def url_at(socket_dir: Path) -> str:
    """Returns the URL of the database behind a socket, as asyncpg, SQLAlchemy and psql read it.

    It names the port, so that ``PGPORT`` does not lead elsewhere.
    """
    host = quote(os.fsencode(socket_dir), safe="/")
    return f"postgresql://postgres@/adkpg?host={host}&port={PORT}"


@dataclass(frozen=True)
class Directory:
    """Where everything of one server lies.

    ::

        path/
          pgdata/        the database cluster
          run/           the socket (0700), or in /tmp if the path does not suit one
          server.log     what initdb and the server said
          start.lock     held while a server is started or stopped
          clients.lock   shared by every client

    Attributes:
      path: Absolute and free of symbolic links.
    """

    path: Path

    @classmethod
    def at(cls, path: Path | None, environment: Mapping[str, str]) -> "Directory":
        """Returns the directory at ``path``, else at ``ADKPG_EMBEDDED_DIR``, else the default.

        The default is ``/var/lib/adkpg/server`` for root, else ``adkpg/server`` below
        ``XDG_DATA_HOME`` or ``~/.local/share``. Nothing is created.
        """
        if path is None:
            path = _default(environment)
        return cls(Path(os.path.realpath(os.path.expanduser(path))))

    @property
    def pgdata(self) -> Path:
        """The database cluster."""
        return self.path / "pgdata"

    @property
    def unfinished(self) -> Path:
        """The cluster while initdb works on it; renamed to ``pgdata`` when complete."""
        return self.path / "pgdata.new"

    @property
    def beside(self) -> "Directory":
        """Where the data of a new major version are made."""
        return Directory(self.path / "upgrade")

    @property
    def complete(self) -> Path:
        """There once the data in `beside` are complete."""
        return self.beside.path / "complete"

    def adopt(self) -> None:
        """Finishes an upgrade that is complete; else does nothing."""
        if self.complete.exists() and not self.pgdata.exists():
            self.beside.pgdata.rename(self.pgdata)
            shutil.rmtree(self.beside.path)

    @property
    def log(self) -> Path:
        """The server's log; the previous one is kept as ``server.log.1`` when it grew large."""
        return self.path / "server.log"

    @property
    def socket_dir(self) -> Path:
        """Where the socket goes: below ``path``, or in ``/tmp`` if clients could not name that.

        A socket's path has at most 103 bytes, and a comma would make two hosts of it.
        """
        inside = self.path / "run"
        if len(os.fsencode(inside / SOCKET_NAME)) <= _SOCKET_PATH_BYTES and "," not in str(inside):
            return inside
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()
        return Path("/tmp") / f"adkpg-{digest[:16]}"

    def account(self) -> Account:
        """Returns the account that runs this directory's server: its owner, if there is one."""
        return Account.of_server(self.path, self.pgdata)

    def prepare(self, account: Account) -> None:
        """Creates what is missing, for the account alone; idempotent.

        No permission of an existing directory changes. As root, an existing empty directory of
        root's is given to the account.

        Raises:
          EmbeddedServerError: It cannot be created or entered, or belongs to someone else.
        """
        try:
            self._create(account)
        except OSError as exc:
            raise EmbeddedServerError(
                f"The embedded server's directory {self.path} cannot be used by "
                f"{account.name!r} ({exc.strerror}); {_CURE}."
            ) from exc
        if (closed := account.first_unreachable(self.path)) is not None:
            raise EmbeddedServerError(
                f"The embedded server runs as the account {account.name!r}, which may not enter "
                f"{closed}; {_CURE} outside it, such as /var/lib/adkpg/server."
            )
        if self.pgdata.exists() and self.pgdata.stat().st_uid != account.uid:
            raise EmbeddedServerError(
                f"The data in {self.pgdata} does not belong to {account.name!r}, which would run "
                f"its server; change its owner (chown -R), run as the owner, or {_CURE}."
            )

    def prepare_socket_dir(self, account: Account) -> None:
        """Creates the socket's private directory; call it under the starters' lock. Idempotent.

        Raises:
          EmbeddedServerError: Someone else's directory is in its place.
        """
        path = self.socket_dir
        try:
            path.mkdir(mode=0o700)
            account.give(path)
        except FileExistsError:
            found = path.lstat()
            private = stat.S_ISDIR(found.st_mode) and found.st_mode & 0o077 == 0
            # In /tmp anybody could have made it first and wait for our connections.
            owners = {account.uid, 0} if account.switch else {account.uid}
            if not private or found.st_uid not in owners:
                raise EmbeddedServerError(
                    f"The socket directory {path} is not a private directory of "
                    f"{account.name!r}; remove it, or {_CURE}."
                ) from None
            account.give(path)

    def remove_socket_dir(self) -> None:
        """Removes it from ``/tmp`` once the server has stopped, under the starters' lock."""
        path = self.socket_dir
        if not path.is_relative_to(self.path) and path.is_dir() and not any(path.iterdir()):
            path.rmdir()

    def _create(self, account: Account) -> None:
        missing = [p for p in (self.path, *self.path.parents) if not p.exists()]
        if missing:
            anchor_uid = missing[-1].parent.stat().st_uid
            for path in reversed(missing):
                path.mkdir(exist_ok=True)
                # An umask of 077 must not shut the account out of what we make on the way.
                path.chmod(0o700 if path == self.path else 0o755)
                if path == self.path or anchor_uid == account.uid:
                    account.give(path)
        elif self.path.stat().st_uid == 0 and not any(self.path.iterdir()):
            account.give(self.path)


def _default(environment: Mapping[str, str]) -> Path:
    if chosen := environment.get("ADKPG_EMBEDDED_DIR"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/lib/adkpg/server")
    share = Path(environment.get("XDG_DATA_HOME", ""))
    if share.is_absolute():  # the XDG rules say that a relative one is ignored
        return share / "adkpg" / "server"
    home = Path(environment.get("HOME", ""))
    if not home.is_absolute():
        try:
            home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
        except KeyError as exc:
            raise EmbeddedServerError(
                f"This user has no home directory for the embedded server's data; {_CURE}."
            ) from exc
    return home / ".local" / "share" / "adkpg" / "server"
