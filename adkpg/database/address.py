"""Where the database is: one reading of every URL form that adkpg accepts."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
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
_HOST_AND_PORT = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]\s<>{}$]*)(?::([0-9]{0,5}))?")

_FORM = "postgresql://user:password@host/database"
_BEGINS = re.compile(r"postgres(?:ql)?(?:\+\w+)?://", re.IGNORECASE)
_SLASHES = re.compile(r"(?:postgres\w{0,4}|adkpg):?/{1,2}(?!/)", re.IGNORECASE)
_KEYWORDS = re.compile(r"\b(?:host|hostaddr|port|dbname|user|password)\s*=", re.IGNORECASE)

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
    ``?application_name=bot``); SQLAlchemy's ``prepared_statement_…`` are left out. Of several
    hosts (``h1:5432,h2:5432``) the one that takes writes is wanted, unless
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
        raise ConfigurationError(_misread(text))
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
    wanted = dict(passed).get(_TARGET)
    several = "," in _hosts(location, dict(passed))
    if to_read and not wanted:
        wanted = "prefer-standby" if several else "any"
        options.append((_TARGET, wanted))
    wanted = wanted or os.environ.get("PGTARGETSESSIONATTRS")
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
    shown_location = _redacted(_completed(location, dict(passed)))
    return Address(
        dsn=f"postgresql://{userinfo}{at}{hosts}{slash}{path}{suffix}",
        options=tuple(options),
        display=f"postgresql://{shown_location}{shown_suffix}",
        seeks_primary=several and wanted in _WRITABLE,
    )


def _misread(text: str) -> str:
    """Says what is wrong with what is no URL of Postgres, and repeats nothing of a password."""
    scheme, separator, _ = text.partition("://")
    if text[:1] in {"'", '"', "`"}:
        return (
            "The database URL begins with a quotation mark; write it without quotes, which "
            "docker --env-file and some .env readers leave in place."
        )
    if _BEGINS.search(text) and not _BEGINS.match(text):
        return f"Something stands before postgresql:// in the database URL; begin with {_FORM}."
    if not separator:
        if get_close_matches(text.lower(), [EMBEDDED], cutoff=0.75):
            return f"The database URL has no scheme; did you mean {EMBEDDED}?"
        if _KEYWORDS.search(text):
            return f"The database URL is in libpq's form, key=value; write {_FORM}."
        if _SLASHES.match(text):
            return f"The database URL has no :// after its scheme; did you mean {_FORM}?"
        return (
            f"The database URL has no scheme; write {_FORM}, or embedded for the server that "
            "comes with adkpg[embedded]."
        )
    near = get_close_matches(scheme.lower().partition("+")[0], _SCHEMES, cutoff=0.75)
    cure = f"did you mean {_FORM}?" if near else f"write {_FORM}."
    return f"adkpg speaks to Postgres through asyncpg, not to {_safe_scheme(scheme)}; {cure}"


def _completed(location: str, query: Mapping[str, str]) -> str:
    """Returns a location with what the driver takes from libpq's variables, for messages."""
    authority, _, database = location.partition("/")
    userinfo, at, hosts = authority.rpartition("@")
    variable = os.environ.get
    if not userinfo and "user" not in query and (user := variable("PGUSER")):
        userinfo, at = quote(user, safe=""), "@"
    if not hosts and "host" not in query and (host := variable("PGHOST")):
        port = variable("PGPORT") if "port" not in query and "," not in host else None
        hosts = quote(host, safe=",:[]") + (f":{port}" if port else "")
    if not database and not {"database", "dbname"} & query.keys():
        database = quote(variable("PGDATABASE", ""), safe="")
    return f"{userinfo}{at}{hosts}/{database}" if database else f"{userinfo}{at}{hosts}"


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
    authority, _, path = location.partition("/")
    if "@" in authority and "@" in path:  # one of both is the password's own
        raise ConfigurationError(
            "The database URL cannot be read; write a password's own @ as %40, / as %2F, : as %3A "
            "and % as %25."
        )
    for host in authority.rpartition("@")[2].split(","):
        if "$" in host and "{" in host:
            raise ConfigurationError(
                "The database URL has a variable like ${NAME} in the place of its host; write the "
                "host itself, or let what reads your .env fill it in."
            )
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
