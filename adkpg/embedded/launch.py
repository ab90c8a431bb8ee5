"""One attempt to have the server of a directory running, under the starters' lock."""

import os
import time
from dataclasses import dataclass

from adkpg.embedded import cluster, configuration
from adkpg.embedded.account import Account
from adkpg.embedded.binaries import Binaries
from adkpg.embedded.directory import PORT, Directory
from adkpg.embedded.postmaster import Postmaster, disown, process_runs
from adkpg.errors import EmbeddedServerError

_POLL_S = 0.02
_LOG_BYTES = 10_000_000
# Postgres says so while backends of a killed server finish their statements.
_ORPHANS = "pre-existing shared memory block"
# The shell leaves immediately, so the server is no child of this process and outlives it quietly.
_DETACHED = '"$@" >&2 </dev/null & echo $!'
_CREATE_DATABASE = (
    "SELECT 'CREATE DATABASE adkpg' WHERE NOT EXISTS "
    "(SELECT FROM pg_database WHERE datname = 'adkpg') \\gexec\n"
)


@dataclass(frozen=True)
class Launch:
    """Everything that it takes to start the server of a prepared directory.

    Attributes:
      directory: Its directory.
      binaries: Programs that the account can run.
      account: Who runs it.
      deadline: Until when, in seconds of ``time.monotonic``.
    """

    directory: Directory
    binaries: Binaries
    account: Account
    deadline: float

    def ensure_running(self, settings: str, *, durable: bool) -> Postmaster:
        """Returns the server that accepts connections, started with ``settings`` if none ran.

        A server in crash recovery is waited for, and goes on recovering after a timeout.

        Raises:
          EmbeddedServerError: It cannot start, or not in time.
        """
        pgdata = self.directory.pgdata
        self.directory.adopt()
        if not pgdata.exists():
            cluster.create(
                self.directory,
                self.binaries,
                self.account,
                timeout_s=self._remaining_s(),
                durable=durable,
            )
        cluster.require_version(pgdata, self.binaries.major())
        launched: int | None = None
        log_start = 0
        while True:
            postmaster = Postmaster.of(pgdata)
            if postmaster is not None and postmaster.accepts:
                return postmaster
            if postmaster is not None and postmaster.status in ("ready", "stopping"):
                # Its socket was removed; or it waits for clients, such as this one, to leave.
                postmaster.stop(self.deadline)
                continue
            if postmaster is None and (launched is None or not process_runs(launched)):
                if launched is not None and _ORPHANS not in (said := self._said(log_start)):
                    raise EmbeddedServerError(
                        "The embedded server did not start; clear the cause that its log "
                        f"{self.directory.log} names and try again: {said}"
                    )
                self.directory.prepare_socket_dir(self.account)
                disown(pgdata, self.directory.socket_dir)
                configuration.write(pgdata, settings, self.account)
                launched, log_start = self._spawn()
            if self._remaining_s() <= 0:
                raise EmbeddedServerError(
                    "The embedded server does not accept connections yet; try again, or pass a "
                    f"larger timeout_s; its log {self.directory.log} ends: {self._said(log_start)}"
                )
            time.sleep(_POLL_S)

    def ensure_database(self, postmaster: Postmaster) -> None:
        """Creates the database ``adkpg`` unless it exists.

        Raises:
          EmbeddedServerError: The server refused.
        """
        answer = self.account.run(
            [
                self.binaries.program("psql"),
                "--no-psqlrc",
                "--quiet",
                "--set=ON_ERROR_STOP=1",
                f"--host={postmaster.socket_dir}",
                "--username=postgres",
                "--dbname=postgres",
            ],
            timeout_s=self._remaining_s(),
            text=_CREATE_DATABASE,
        )
        if answer.returncode != 0:
            raise EmbeddedServerError(
                "The database 'adkpg' could not be created on the embedded server; clear the "
                f"cause that it names and try again: {' '.join(answer.stderr.split())[-600:]}"
            )

    def _remaining_s(self) -> float:
        return self.deadline - time.monotonic()

    def _spawn(self) -> tuple[int, int]:
        """Starts the server and returns its pid and where in the log it begins, in bytes."""
        log = self.directory.log
        if log.exists() and log.stat().st_size > _LOG_BYTES:
            log.replace(log.with_name(f"{log.name}.1"))
        socket_dir = str(self.directory.socket_dir).replace('"', '""')
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(log, flags, 0o600), "ab") as file:
            self.account.give(file.fileno())
            log_start = os.fstat(file.fileno()).st_size
            answer = self.account.run(
                [
                    "/bin/sh",
                    "-c",
                    _DETACHED,
                    "sh",
                    self.binaries.program("postgres"),
                    # Postmaster.of knows the server by these two words.
                    "-D",
                    self.directory.pgdata,
                    "-k",
                    f'"{socket_dir}"',
                    "-c",
                    "listen_addresses=",
                    "-c",
                    "unix_socket_permissions=0700",
                    "-p",
                    str(PORT),
                ],
                timeout_s=self._remaining_s(),
                stderr=file,
            )
        if answer.returncode != 0:
            raise EmbeddedServerError(
                "The embedded server could not be started as a process; free memory or process "
                f"slots and try again: {self._said(log_start)}"
            )
        return int(answer.stdout), log_start

    def _said(self, log_start: int) -> str:
        """Returns the end of what the log holds from ``log_start`` on, as one line."""
        path = self.directory.log
        if not path.exists():
            return ""
        with path.open("rb") as file:
            file.seek(log_start)
            return " ".join(file.read().decode("utf-8", "replace").split())[-600:]
