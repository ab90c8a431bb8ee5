"""Opens the driver's connections, and adapts them to a pooler that lies between."""

import asyncio
import errno
import inspect
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import asyncpg

from adkpg.database import address, pooler
from adkpg.database.address import Address
from adkpg.database.driver import NeverReached, PasswordFailed
from adkpg.errors import ConfigurationError
from adkpg.settings import Settings

logger = logging.getLogger(__name__)

Password = str | Callable[[], str] | Callable[[], Awaitable[str]]

_PREPARED = "statement_cache_size"
_APPLICATION_NAME = "application_name"
_SAID_AFTER_S = 2.0
_SYSTEM, _FULL = "system", "verify-full"

_ARGUMENTS = inspect.signature(asyncpg.connect).parameters.keys() - {"dsn", "loop"}
# libpq's names that asyncpg has as arguments of other names, and those that it takes in URLs alone.
_LIBPQ = {"connect_timeout": "timeout", "dbname": "database", "sslmode": "ssl"}
_OF_DSN = {"sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword", "sslnegotiation"}
_OF_DSN |= {"ssl_min_protocol_version", "ssl_max_protocol_version"}


class Connector:
    """Opens connections to one address.

    The first one finds out whether prepared statements can be run again, unless the URL or the
    caller says how many are to be kept. A pooler before PgBouncer 1.21 loses them; then none are
    kept, and each statement takes two round trips.

    Args:
      target: Where the database is; its options go over the settings and the defaults.
      settings: Those of the Database.
      password: In place of the address's.
      defaults: Arguments of `asyncpg.connect`, over the settings.
      options: Arguments of `asyncpg.connect`, or libpq's names of them, over everything else.
      bring_back: Blocks until a server of our own runs again; called when a connection fails.

    Raises:
      ConfigurationError: One of the options is unknown.
    """

    def __init__(
        self,
        target: Address,
        settings: Settings,
        *,
        password: Password | None = None,
        defaults: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        bring_back: Callable[[], None] | None = None,
    ) -> None:
        self._target = target
        self._bring_back = bring_back
        self._dsn = target.dsn
        self._options: dict[str, Any] = {
            "timeout": settings.connect_timeout_s,
            "command_timeout": settings.command_timeout_s,
            # A search's statement is longer than asyncpg keeps prepared by default, 15 kB; planned
            # again each time, a small search takes twice as long.
            "max_cacheable_statement_size": 65_536,
            **(defaults or {}),
            **dict(target.options),
        }
        if password is not None:
            self._options["password"] = password
        settings_of_server: dict[str, str] = {}
        for name, value in (options or {}).items():
            self._take(name, value, settings_of_server)
        if _APPLICATION_NAME not in self._asked():
            told = settings_of_server | dict(self._options.get("server_settings") or {})
            named = {_APPLICATION_NAME: settings.application_name}
            self._options["server_settings"] = named | told
        self._told = _PREPARED in self._options
        self._keeps_prepared: bool | None = True if self._told else None
        self._said_to_wait = False  # since the last connection
        self._waits_to_reach = "retry_timeout_s" in settings.model_fields_set
        self._system: ssl.SSLContext | None = None  # trusts what the system trusts

    def _take(self, name: str, value: Any, settings_of_server: dict[str, str]) -> None:
        """Takes one of the caller's connect_args, by asyncpg's name or libpq's."""
        if name in address.IGNORED:
            logger.info("adkpg leaves %s of connect_args out: %s.", name, address.IGNORED[name])
        elif name == _APPLICATION_NAME:
            settings_of_server[name] = str(value)
        elif name in _LIBPQ:
            self._options[_LIBPQ[name]] = value
        elif name in _OF_DSN:
            mark = "&" if "?" in self._dsn else "?"
            self._dsn += mark + urlencode([(name, str(value))], quote_via=quote)
        elif name in _ARGUMENTS:
            self._options[name] = value
        else:
            raise ConfigurationError(
                f"adkpg does not know {name!r} of connect_args, and asyncpg.connect has no such "
                "argument; remove it, or give a setting of the server in server_settings."
            )

    def _asked(self) -> dict[str, str]:
        """Returns the options of the URL's query."""
        return dict(parse_qsl(self._dsn.partition("?")[2]))

    @property
    def keeps_prepared(self) -> bool:
        """Whether prepared statements are kept; also before a connection has found out."""
        return self._keeps_prepared is not False and self._options.get(_PREPARED) != 0

    def doubt_prepared(self) -> None:
        """Lets the next connection find out again, after a prepared statement was lost."""
        if self._keeps_prepared and not self._told:
            self._keeps_prepared = None

    async def connect(self) -> asyncpg.Connection:
        """Opens a connection, if need be to a server that is brought back for it.

        Raises:
          ConfigurationError: The URL or the caller names an unknown option, or a file that cannot
            be read.
          PasswordFailed: The caller's password function raised.
          EmbeddedServerError: The embedded server cannot be brought back.
        """
        try:
            return await self._connected()
        except (OSError, asyncpg.PostgresConnectionError, asyncpg.CannotConnectNowError):
            if self._bring_back is None:
                raise
        await asyncio.to_thread(self._bring_back)
        return await self._connected()

    async def _connected(self) -> asyncpg.Connection:
        if self._keeps_prepared is not False:
            connection = await self._opened()
            if self._keeps_prepared or await self._found_to_keep(connection):
                return connection
        return await self._opened(statement_cache_size=0)

    async def _opened(self, **options: Any) -> asyncpg.Connection:
        options = {**self._options, **options}
        saying = asyncio.get_running_loop().call_later(_SAID_AFTER_S, self._say_to_wait)
        try:
            if self._asked_of("sslrootcert") == _SYSTEM and "ssl" not in options:
                options["ssl"] = self._trusting_system()
            connection = await self._let_in(options)
            self._said_to_wait = False
            self._waits_to_reach = True
            return connection
        except (asyncpg.ClientConfigurationError, ConfigurationError):
            raise
        except asyncpg.UndefinedObjectError as exc:  # neither asyncpg's option nor the server's
            raise ConfigurationError(
                f"The database URL or connect_args has an unknown option ({exc}); remove it."
            ) from exc
        except asyncpg.InvalidAuthorizationSpecificationError:
            self._require_file("passfile", lambda path: Path(path).read_text(encoding="utf-8"))
            raise
        except (OSError, ValueError) as exc:
            self._require_files()
            if isinstance(exc, OSError) and _refuses(exc) and not self._waits_to_reach:
                raise NeverReached(errno.ECONNREFUSED, exc.strerror or str(exc)) from exc
            if isinstance(exc, (OSError, UnicodeError)):
                raise
        finally:
            saying.cancel()
        # Outside of the handler: the driver's text repeats a part of the URL, maybe the password,
        # and would stay with this error as its context.
        raise ConfigurationError(
            "The driver cannot read the database URL; write special characters in a user, "
            "password or database name as %XX, and ports as numbers."
        )

    async def _let_in(self, options: dict[str, Any]) -> asyncpg.Connection:
        """Connects; a password function is asked once more if the server refused its first one."""
        password = options.get("password")
        if not callable(password):
            return await asyncpg.connect(self._dsn, **options)
        for is_last in (False, True):
            options["password"] = await self._said_by(password, options["timeout"])
            try:
                return await asyncpg.connect(self._dsn, **options)
            except asyncpg.InvalidAuthorizationSpecificationError:  # a token that expired, perhaps
                if is_last:
                    raise
        raise AssertionError("the second answer was neither taken nor refused")

    async def _said_by(self, password: Callable[[], Any], timeout_s: float | None) -> str:
        try:
            async with asyncio.timeout(timeout_s):
                said = password()
                if inspect.isawaitable(said):
                    said = await said
        except Exception as exc:
            reason = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
            raise PasswordFailed(reason) from exc
        if not isinstance(said, str):
            raise ConfigurationError(
                f"The password function of {self._target.display} gave a {type(said).__name__}; "
                "let it return a str."
            )
        return said

    def _asked_of(self, name: str) -> str | None:
        """Returns an option that names a file, of the URL or else of the environment."""
        return self._asked().get(name) or os.environ.get(f"PG{name.upper()}")

    def _trusting_system(self) -> ssl.SSLContext:
        """Returns what libpq means by sslrootcert=system.

        Raises:
          ConfigurationError: Less than verify-full is asked for with it.
        """
        mode = self._asked().get("sslmode") or os.environ.get("PGSSLMODE") or _FULL
        if mode != _FULL:
            raise ConfigurationError(
                f"sslrootcert=system needs sslmode=verify-full, not {mode}; correct the URL, or "
                "PGSSLMODE and PGSSLROOTCERT."
            )
        self._require_files()
        if self._system is None:
            self._system = ssl.create_default_context()
            if certificate := self._asked_of("sslcert"):
                self._system.load_cert_chain(certificate, self._asked_of("sslkey"))
        return self._system

    def _require_files(self) -> None:
        """Refuses a file for TLS or for passwords that cannot be read, or that holds junk.

        Raises:
          ConfigurationError: There is one.
        """
        secret = self._asked().get("sslpassword", "")
        key = self._asked_of("sslkey")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for name, load in (
            ("sslrootcert", lambda path: context.load_verify_locations(cafile=path)),
            ("sslcrl", lambda path: context.load_verify_locations(cafile=path)),
            ("sslkey", lambda path: Path(path).read_bytes()),
            ("sslcert", lambda path: context.load_cert_chain(path, key, lambda: secret)),
        ):
            self._require_file(name, load)

    def _require_file(self, name: str, load: Callable[[str], object]) -> None:
        path = self._options.get(name) or self._asked_of(name)
        if not path or path == _SYSTEM:
            return
        try:
            load(path)
        except (OSError, ValueError) as exc:  # of ssl, too
            raise ConfigurationError(
                f"The file {path} that {name} names cannot be used ({exc}); correct {name} in the "
                f"database URL, or PG{name.upper()}."
            ) from exc

    def _say_to_wait(self) -> None:
        """Says what is waited for, once until a connection opens: a pool may open many together."""
        if not self._said_to_wait:
            self._said_to_wait = True
            logger.warning(
                "%s has not answered for %g s; adkpg goes on waiting, as long as "
                "ADKPG_CONNECT_TIMEOUT_S says.",
                self._target.display,
                _SAID_AFTER_S,
            )

    async def _found_to_keep(self, connection: asyncpg.Connection) -> bool:
        """Finds out whether prepared statements can be run again; if not, ends the connection."""
        keeps = False
        try:
            keeps = await pooler.keeps_prepared(connection)
        finally:
            if not keeps:
                connection.terminate()
        if not keeps and self._keeps_prepared is None:
            logger.warning(
                "The pooler at %s does not keep prepared statements, so each statement takes two "
                "round trips. PgBouncer 1.21 and later keep them "
                "(max_prepared_statements); where it gives each client a connection of its own "
                "(session mode), add statement_cache_size=100 to the database URL.",
                self._target.display,
            )
        self._keeps_prepared = keeps
        return keeps


def _refuses(exc: OSError) -> bool:
    """Whether an address refuses connections, or all the addresses of a name do."""
    if isinstance(exc, ConnectionRefusedError):
        return True
    said = str(exc)  # asyncio has no errno of several
    return 0 < said.count("[Errno ") == said.count(f"[Errno {errno.ECONNREFUSED}]")
