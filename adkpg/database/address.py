"""Where the database is: one reading of every URL form that adkpg accepts."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from adkpg.errors import ConfigurationError

_SCHEMES = {"postgresql", "postgres", "postgresql+asyncpg", "adkpg"}

# Options of SQLAlchemy's dialect; the connections here are asyncpg's own, and it has none such.
_IGNORED = {"prepared_statement_cache_size", "prepared_statement_name_func"}

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

# Another option may be the end of a password with a raw question mark.
_SHOWN = {"application_name", "database", "dbname", "host", "password", "port", "sslmode"}
_SHOWN |= {"target_session_attrs", "user"}

_LIBPQ_NAMES = {"connect_timeout": "timeout"}

# A password with raw / ? # [ or ], which SQLAlchemy's URLs allow. `host:5432/db?user=a@b` has none.
_RAW_PASSWORD = re.compile(r"([^:/?#@\[\]]*):([^@?]*[/#\[\]][^@?]*|[^@?]*\?[^@=]*)@")
_RESERVED = re.compile(r"[/?#\[\]]")
_HOST_AND_PORT = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")

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


def parse(url: str) -> Address:
    """Reads a database URL.

    ``postgresql://``, ``postgres://``, ``postgresql+asyncpg://`` and ``adkpg://`` are one;
    ``embedded`` and ``adkpg://embedded`` are the embedded server. Query options are asyncpg's
    (``?host=/socket/dir``, ``?ssl=require`` or libpq's ``?sslmode=require`` and
    ``?connect_timeout=5``, ``?command_timeout=5``, both in seconds, server settings such as
    ``?application_name=bot``); SQLAlchemy's ``prepared_statement_…`` are left out. Of several
    hosts (``h1:5432,h2:5432``) the one that takes writes is wanted, unless
    ``?target_session_attrs=`` or ``PGTARGETSESSIONATTRS`` says otherwise.

    Raises:
      ConfigurationError: The URL names another driver, or cannot be read.
    """
    text = url.strip()
    if text in (EMBEDDED, f"adkpg://{EMBEDDED}", f"adkpg://{EMBEDDED}/"):
        return Address("", (), EMBEDDED)
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise ConfigurationError(
            "The database URL has no scheme; write postgresql://user:password@host/database, "
            "or embedded for the server that comes with adkpg[embedded]."
        )
    if scheme.lower() not in _SCHEMES:
        raise ConfigurationError(
            f"adkpg speaks to Postgres through asyncpg, not to {_safe_scheme(scheme)}; "
            "write postgresql://user:password@host/database."
        )
    location, _, query = _with_quoted_password(rest).partition("?")
    _require_hosts(location)
    options: list[tuple[str, Any]] = []
    passed: list[tuple[str, str]] = []
    for name, value in parse_qsl(query, keep_blank_values=True):
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
        elif name == "port" and not re.fullmatch(r"[0-9]+(,[0-9]+)*", value):
            raise ConfigurationError(f"The URL's option {name}={value!r} is no port; correct it.")
        elif "@" in name:
            raise ConfigurationError(
                "The database URL cannot be read; write a password's own ? as %3F and its own @ as "
                "%40."
            )
        elif name not in _IGNORED:
            passed.append((name, value))
    wanted = dict(passed).get(_TARGET) or os.environ.get("PGTARGETSESSIONATTRS")
    several = "," in _hosts(location, dict(passed))
    if several and not wanted:
        wanted = _WRITABLE[0]
        options.append((_TARGET, wanted))
    suffix = "?" + urlencode(passed, quote_via=quote) if passed else ""
    shown = [(name, "***" if name == "password" else value) for name, value in passed]
    shown = [(name, value) for name, value in shown if name in _SHOWN]
    shown_suffix = "?" + urlencode(shown, quote_via=quote, safe="/*") if shown else ""
    authority, slash, path = location.partition("/")
    userinfo, at, hosts = authority.rpartition("@")
    userinfo = userinfo.replace("@", "%40")  # for the driver, a password ends at the first one
    return Address(
        dsn=f"postgresql://{userinfo}{at}{hosts}{slash}{path}{suffix}",
        options=tuple(options),
        display=f"postgresql://{_redacted(location)}{shown_suffix}",
        seeks_primary=several and wanted in _WRITABLE,
    )


def _hosts(location: str, query: Mapping[str, str]) -> str:
    """Returns the hosts as asyncpg finds them: in the URL, its query, or libpq's variable."""
    named = location.rpartition("@")[2].partition("/")[0]
    return named or query.get("host") or os.environ.get("PGHOST", "")


def _with_quoted_password(rest: str) -> str:
    match = _RAW_PASSWORD.match(rest)
    if match is None:
        return rest
    password = _RESERVED.sub(lambda reserved: f"%{ord(reserved[0]):02X}", match[2])
    return f"{match[1]}:{password}@{rest[match.end() :]}"


def _require_hosts(location: str) -> None:
    """Refuses what the driver would stumble over, in words that repeat nothing of a password."""
    for host in location.rpartition("@")[2].partition("/")[0].split(","):
        match = _HOST_AND_PORT.fullmatch(host)
        if match is None or int(match[1] or 0) > 65_535:
            raise ConfigurationError(
                "The database URL's host and port cannot be read; write host:port with a port up "
                "to 65535, an IPv6 address in brackets, and a password's own @ as %40."
            )


def _redacted(location: str) -> str:
    """Returns ``user:password@host/db`` with the password replaced by ``***``."""
    userinfo, at, host = location.rpartition("@")
    user, colon, _ = userinfo.partition(":")
    return f"{user}:***@{host}" if colon else f"{userinfo}{at}{host}"


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


def _safe_scheme(scheme: str) -> str:
    """A scheme fit for a message: a URL pasted without one may hold a password."""
    return f"{scheme}://" if re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]{0,40}", scheme) else "this URL"
