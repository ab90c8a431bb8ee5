"""The server's settings: checked, written as a file that ``postgresql.conf`` includes."""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from adkpg.embedded.account import Account
from adkpg.errors import ConfigurationError

_FILE = "adkpg.conf"
_INCLUDE = f"include_if_exists = '{_FILE}'"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
# How clients reach the server, and who may: fixed, since every client on the socket is trusted.
_RESERVED = frozenset(
    {
        "data_directory",
        "hba_file",
        "listen_addresses",
        "port",
        "unix_socket_directories",
        "unix_socket_permissions",
    }
)


def render(settings: Mapping[str, str]) -> str:
    """Returns the settings in the syntax of ``postgresql.conf``, one a line, in their order.

    Raises:
      ConfigurationError: A name is none, is one that the launcher sets, or a value holds NUL.
    """
    lines = []
    for name, value in settings.items():
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{name!r} is not the name of a Postgres setting; use one such as 'shared_buffers'."
            )
        if name.lower() in _RESERVED:
            raise ConfigurationError(
                f"The setting {name!r} is chosen by the embedded server; leave it out, or set "
                "ADKPG_DATABASE_URL to a server of your own."
            )
        if "\0" in value:
            raise ConfigurationError(
                f"The value of the setting {name!r} holds a NUL character; remove it."
            )
        quoted = value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
        lines.append(f"{name} = '{quoted}'\n")
    return "".join(lines)


def write(pgdata: Path, text: str, account: Account) -> None:
    """Makes ``text`` the settings of the next start, in place of the previous ones."""
    main = pgdata / "postgresql.conf"
    if _INCLUDE not in main.read_text(encoding="utf-8").splitlines():
        with os.fdopen(os.open(main, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "w") as file:
            file.write(f"\n{_INCLUDE}\n")
    fd, partial = tempfile.mkstemp(prefix=f".{_FILE}.", dir=pgdata)
    account.give(fd)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
    Path(partial).replace(pgdata / _FILE)
