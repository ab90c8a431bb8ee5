"""Where the database is: a URL, of which the driver reads the most."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from adkpg.errors import ConfigurationError

_SCHEMES = {"postgresql", "postgres", "postgresql+asyncpg", "adkpg"}

_ASKS = "adkpg asks idle connections before it uses them"
_FINDS_OUT = "adkpg finds out by itself what a pooler does to prepared statements"
IGNORED = {
    **dict.fromkeys(("prepared_statement_cache_size", "prepared_statement_name_func"), _FINDS_OUT),
    "pgbouncer": _FINDS_OUT,
    **dict.fromkeys(("keepalives", "keepalives_idle", "keepalives_interval"), _ASKS),
    **dict.fromkeys(("keepalives_count", "tcp_user_timeout"), _ASKS),
}
"""Options of SQLAlchemy's, libpq's and others that need nothing here, and why."""

# Options of others that cannot be taken, with what to do instead; None: with some values.
_UNSUPPORTED = {
    "connection_limit": "set ADKPG_POOL_SIZE",
    "pool_timeout": "set ADKPG_POOL_TIMEOUT_S",
    "schema": "set ADKPG_DATABASE_SCHEMA",
    "require_auth": "let pg_hba.conf say how the server asks",
    "requirepeer": "let pg_hba.conf say who may connect",
}
_HARMLESS = {"gssencmode": {"disable", "prefer"}, "load_balance_hosts": {"disable"}}

# asyncpg.connect() arguments that its own DSN parser would take for server settings.
_CONNECT_OPTIONS: dict[str, Callable[[str], Any]] = {
    "timeout": float,
    "connect_timeout": float,
    "command_timeout": float,
    "statement_cache_size": int,
    "max_cached_statement_lifetime": int,
    "max_cacheable_statement_size": int,
    "direct_tls": lambda value: value.lower() in {"1", "true", "yes", "on"},
}

# Options that messages show of a URL; another one may hold a secret, or the end of a password.
_SHOWN = {"application_name", "database", "dbname", "host", "port", "sslmode"}
_SHOWN |= {"target_session_attrs", "user"}

_LIBPQ_NAMES = {"connect_timeout": "timeout"}

_HOST_AND_PORT = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]\s<>{}$]*)(?::([0-9]{0,5}))?")

_TARGET = "target_session_attrs"
_WRITABLE = ("read-write", "primary")

EMBEDDED = "embedded"


@dataclass(frozen=True)
class Address:
    """A database's address, or the embedded server's.

    Attributes:
      dsn: What `asyncpg.connect` is given; empty for the embedded server. Holds the password, so
        it is kept out of ``repr``.
      options: Further arguments of `asyncpg.connect` that the URL's query named.
      display: The same address without password, for people.
      seeks_primary: Whether it names several servers, of which the one that takes writes is wanted.
    """

    dsn: str
    options: tuple[tuple[str, Any], ...]
    display: str
    seeks_primary: bool = False

    def __repr__(self) -> str:
        return f"Address({self.display!r})"

    @property
    def embedded(self) -> bool:
        """Whether this is the server that comes along with ``adkpg[embedded]``."""
        return not self.dsn


def parse(url: str, *, to_read: bool = False) -> Address:
    """Reads a database URL.

    ``postgresql://``, ``postgres://``, ``postgresql+asyncpg://`` and ``adkpg://`` are one;
    ``embedded`` and ``adkpg://embedded`` are the embedded server. Query options are asyncpg's
    (``?host=/socket/dir``, ``?ssl=require`` or libpq's ``?sslmode=require`` and
    ``?connect_timeout=5``, ``?command_timeout=5``, both in seconds, server settings such as
    ``?application_name=bot``); SQLAlchemy's ``prepared_statement_…`` are left out. With several
    hosts (``h1:5432,h2:5432``) a connection uses the one that accepts writes, unless
    ``?target_session_attrs=`` or ``PGTARGETSESSIONATTRS`` says otherwise.

    Args:
      url: The URL.
      to_read: Whether it leads to standbys: of several hosts a standby is preferred, and
        ``PGTARGETSESSIONATTRS`` is meant for the primary.

    Raises:
      ConfigurationError: The URL names another driver, or cannot be read.
    """
    text = url.strip()
    if not text.isprintable():
        raise ConfigurationError(
            "The database URL holds a character that does not print; write the URL anew."
        )
    if text in (EMBEDDED, f"adkpg://{EMBEDDED}", f"adkpg://{EMBEDDED}/"):
        return Address("", (), EMBEDDED)
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in _SCHEMES:
        raise ConfigurationError(
            "The database URL is not one that asyncpg, adkpg's driver for Postgres, can read; "
            "write postgresql://user:password@host/database, without quotes, or embedded for the "
            "server that comes with adkpg[embedded]."
        )
    location, _, query = rest.partition("?")
    authority, slash, path = location.partition("/")
    userinfo, at, hosts = authority.rpartition("@")
    given = parse_qsl(query, keep_blank_values=True)
    # A raw / ? # or @ ends a password early, and what follows it would be shown as something else.
    if "@" in path or "#" in location or any("@" in name for name, _ in given):
        raise ConfigurationError(
            "The database URL cannot be read; write a password's own @ as %40, / as %2F, : as %3A, "
            "? as %3F, # as %23 and % as %25."
        )
    if not all(map(_is_host, hosts.split(","))):
        raise ConfigurationError(
            "The database URL's host and port cannot be read; write host:port with a port up to "
            "65535, an IPv6 address in brackets, and a password's own @ as %40."
        )
    options: list[tuple[str, Any]] = []
    passed: list[tuple[str, str]] = []
    address = ""
    for name, value in given:
        if name == "ssl":
            passed.append(("sslmode", _ssl_mode(value)))
        elif name == "channel_binding":
            _require_no_channel_binding(value)
        elif name in _CONNECT_OPTIONS:
            try:
                options.append((_LIBPQ_NAMES.get(name, name), _CONNECT_OPTIONS[name](value)))
            except ValueError as exc:
                raise ConfigurationError(
                    f"The URL's option {name}={value!r} is not a number; correct it."
                ) from exc
        elif name in _UNSUPPORTED:
            raise ConfigurationError(
                f"adkpg and asyncpg have no option {name}; take it out of the database URL, and "
                f"{_UNSUPPORTED[name]}."
            )
        elif name in _HARMLESS:
            if value not in _HARMLESS[name]:
                raise ConfigurationError(
                    f"asyncpg has no {name}={value}; take it out of the database URL."
                )
        elif name == "hostaddr":
            address = value
        elif name not in IGNORED:
            passed.append((name, value))
    if address:
        hosts, passed = _by_address(address, hosts, passed)
    wanted = dict(passed).get(_TARGET)
    several = "," in (hosts or dict(passed).get("host") or os.environ.get("PGHOST", ""))
    if to_read and not wanted:
        wanted = "prefer-standby" if several else "any"
        options.append((_TARGET, wanted))
    wanted = wanted or os.environ.get("PGTARGETSESSIONATTRS")
    if several and not wanted:
        wanted = _WRITABLE[0]
        options.append((_TARGET, wanted))
    suffix = "?" + urlencode(passed, quote_via=quote) if passed else ""
    shown = [(name, value) for name, value in passed if name in _SHOWN]
    shown_suffix = "?" + urlencode(shown, quote_via=quote, safe="/*") if shown else ""
    user, colon, _ = userinfo.partition(":")
    place = f"{at}{hosts}{slash}{path}"
    userinfo = userinfo.replace("@", "%40")  # for the driver, a password ends at the first one
    return Address(
        dsn=f"postgresql://{userinfo}{place}{suffix}",
        options=tuple(options),
        display=f"postgresql://{user}{':***' if colon else ''}{place}{shown_suffix}",
        seeks_primary=several and wanted in _WRITABLE,
    )


def _is_host(text: str) -> bool:
    match = _HOST_AND_PORT.fullmatch(text)
    return match is not None and int(match[1] or 0) <= 65_535


def _by_address(
    address: str, hosts: str, passed: list[tuple[str, str]]
) -> tuple[str, list[tuple[str, str]]]:
    """Puts libpq's ``hostaddr`` in the place of the host, of which only TLS needs the name."""
    if dict(passed).get("sslmode") == "verify-full" or "," in address + hosts:
        raise ConfigurationError(
            "asyncpg cannot connect to a hostaddr and verify the name of a host, nor take several; "
            "name the host alone in the database URL."
        )
    port = match[1] if (match := _HOST_AND_PORT.fullmatch(hosts)) else None
    literal = f"[{address}]" if ":" in address else address
    return literal + (f":{port}" if port else ""), [each for each in passed if each[0] != "host"]


def _require_no_channel_binding(value: str) -> None:
    """Managed databases hand out URLs with this option of libpq's."""
    if value == "require":
        raise ConfigurationError(
            "asyncpg has no channel binding; take channel_binding=require out of the URL "
            "(sslmode=verify-full proves who the server is)."
        )


def _ssl_mode(value: str) -> str:
    """Reads ``?ssl=``: libpq's words, or true and false as SQLAlchemy users write them."""
    return {"true": "require", "1": "require", "false": "disable", "0": "disable"}.get(
        value.lower(), value
    )
