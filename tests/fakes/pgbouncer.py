"""PgBouncer in transaction mode before a server of the tests."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import pytest

from adkpg.database import address
from adkpg.embedded.account import Account

PROGRAM = os.environ.get("ADKPG_TEST_PGBOUNCER", "")
"""The pgbouncer that `make test-pgbouncer` leads the suite through; empty without."""


def _can_keep_prepared(program: str) -> bool:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"PgBouncer (\d+)\.(\d+)", said)
    assert found is not None, said
    return (int(found[1]), int(found[2])) >= (1, 21)


KEEPS_PREPARED = bool(PROGRAM) and _can_keep_prepared(PROGRAM)

_INI = """
[databases]
* = {server}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {place}
unix_socket_mode = 0777
auth_type = trust
auth_user = {user}
auth_file = {place}/users
pool_mode = transaction
default_pool_size = 10
max_client_conn = 1000
server_idle_timeout = 5
{more}
"""


class PgBouncer:
    """A pooler before a server, for as long as the context lasts.

    Args:
      server_url: Of a database on the server, whose user may look others up.
      keeps_prepared: False: as before 1.21, whatever the version.
      program: The pgbouncer to run.
      more: Further lines of its configuration.
    """

    def __init__(
        self,
        server_url: str,
        *,
        keeps_prepared: bool | None = None,
        program: str = PROGRAM,
        more: str = "",
    ) -> None:
        self._url = server_url
        self._program = program
        knows = _can_keep_prepared(program)
        self.keeps_prepared = knows if keeps_prepared is None else keeps_prepared and knows
        if knows:
            more += f"\nmax_prepared_statements = {200 if self.keeps_prepared else 0}\n"
        self._more = more

    def __enter__(self) -> Self:
        self._place = Path(tempfile.mkdtemp(prefix="adkpg-pooler-"))
        host, port = place_of(self._url)
        parts = urlsplit(self._url)
        server = f"host={host} port={port}"
        if parts.password:
            server += f" user={parts.username} password={parts.password}"
        # It refuses root, and must reach the server's socket.
        there = Path(host) if host.startswith("/") else self._place
        self._account = account = Account.of_server(there, there)
        user = parts.username or "postgres"
        (self._place / "users").write_text(f'"{user}" "{parts.password or ""}"\n')
        ini = self._place / "pgbouncer.ini"
        ini.write_text(_INI.format(server=server, place=self._place, user=user, more=self._more))
        self._place.chmod(0o755)
        if account.switch:
            for path in (self._place, ini, self._place / "users"):
                account.give(path)
        self.start()
        return self

    def start(self) -> None:
        """Starts it, or again after `stop`, and waits until it takes connections."""
        account, listens_at = self._account, self._place / ".s.PGSQL.6432"
        listens_at.unlink(missing_ok=True)
        with (self._place / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, str(self._place / "pgbouncer.ini")],
                stdout=log,
                stderr=log,
                user=account.uid if account.switch else None,
                group=account.gid if account.switch else None,
                extra_groups=[] if account.switch else None,
            )
        deadline = time.monotonic() + 30
        while not listens_at.exists():
            assert self._process.poll() is None, (self._place / "log").read_text()
            assert time.monotonic() < deadline, (self._place / "log").read_text()

    def stop(self) -> None:
        """Ends it, and with it all connections through it."""
        self._process.terminate()
        self._process.wait(timeout=30)

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
        shutil.rmtree(self._place)

    def led(self, url: str) -> str:
        """Returns the URL of the same database through the pooler; others' as they are."""
        parts = urlsplit(url)
        if parts.scheme not in ("postgresql", "postgres", "postgresql+asyncpg", "adkpg"):
            return url
        if place_of(url) != place_of(self._url):
            return url
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        query |= {"host": str(self._place), "port": "6432"}
        userinfo, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=userinfo + at, query=urlencode(query)))

    @contextmanager
    def in_front(self) -> Iterator[None]:
        """Leads every Database and proxy of the tests through the pooler.

        The tests' own connections, which look, lock and kill, stay direct.
        """
        parse = address.parse
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(address, "parse", lambda url, **how: parse(self.led(url), **how))
            patch.setattr("tests.fakes.proxy.led", self.led)
            yield


def place_of(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    host = query.get("host", [parts.hostname or "localhost"])[-1]
    try:
        port = parts.port
    except ValueError:  # several hosts, or nonsense that the test is about
        return url, ""
    return host, query.get("port", [str(port or 5432)])[-1]
