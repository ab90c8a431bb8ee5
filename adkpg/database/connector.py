"""Opens the driver's connections, and adapts them to a pooler that lies between."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qsl

import asyncpg

from adkpg.database import libpq, pooler
from adkpg.database.address import Address
from adkpg.database.driver import NotPostgres
from adkpg.errors import ConfigurationError
from adkpg.outages import port
from adkpg.settings import Settings

logger = logging.getLogger(__name__)

Password = str | Callable[[], str] | Callable[[], Awaitable[str]]

_PREPARED = "statement_cache_size"
_PORT = "5432"
_APPLICATION_NAME = "application_name"
_SAID_AFTER_S = 2.0


class Connector:
    """Opens connections to one address.

    The first one finds out whether prepared statements can be run again, unless the URL or the
    caller says how many are to be kept. A pooler before PgBouncer 1.21 loses them; then none are
    kept, and each statement takes two round trips.

    Args:
      target: Where the database is; its options go over the settings and the defaults.
      settings: Those of the Database.
      password: In place of the address's.
      defaults: Of `asyncpg.connect`, over the settings.
      options: Of `asyncpg.connect`, over everything else.
    """

    def __init__(
        self,
        target: Address,
        settings: Settings,
        *,
        password: Password | None = None,
        defaults: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._target = target
        self._options: dict[str, Any] = {
            "timeout": settings.connect_timeout_s,
            "command_timeout": settings.command_timeout_s,
            # A search's statement is longer than asyncpg keeps prepared by default, 15 kB; planned
            # again each time, a small search takes twice as long.
            "max_cacheable_statement_size": 65_536,
            **(defaults or {}),
            **dict(target.options),
            **(options or {}),
        }
        if password is not None:
            self._options["password"] = password
        if _APPLICATION_NAME not in dict(parse_qsl(target.dsn.partition("?")[2])):
            told = self._options.get("server_settings") or {}
            named = {_APPLICATION_NAME: settings.application_name}
            self._options["server_settings"] = named | dict(told)
        self._told = _PREPARED in self._options
        self._keeps_prepared: bool | None = True if self._told else None
        self._reached = False  # by a connection, at any time
        self._said_to_wait = False  # since the last connection

    @property
    def keeps_prepared(self) -> bool:
        """Whether prepared statements are kept; also before a connection has found out."""
        return self._keeps_prepared is not False and self._options.get(_PREPARED) != 0

    def doubt_prepared(self) -> None:
        """Lets the next connection find out again, after a prepared statement was lost."""
        if self._keeps_prepared and not self._told:
            self._keeps_prepared = None

    async def connect(self, **_options: Any) -> asyncpg.Connection:
        """Opens a connection.

        Raises:
          ConfigurationError: The URL or the caller names an option that nobody knows.
        """
        if self._keeps_prepared is not False:
            connection = await self._opened()
            if self._keeps_prepared or await self._found_to_keep(connection):
                return connection
        return await self._opened(statement_cache_size=0)

    async def _opened(self, **options: Any) -> asyncpg.Connection:
        saying = asyncio.get_running_loop().call_later(_SAID_AFTER_S, self._say_to_wait)
        try:
            connection = await asyncpg.connect(self._target.dsn, **self._options, **options)
            self._reached, self._said_to_wait = True, False
            return connection
        except (TimeoutError, ConnectionError, asyncpg.ConnectionDoesNotExistError) as exc:
            if not self._reached and not isinstance(exc, ConnectionRefusedError):
                await self._require_postgres(exc)
            raise
        except asyncpg.ClientConfigurationError:
            raise
        except ValueError:
            if callable(self._options.get("password")):  # or it is the caller's own
                raise
        except asyncpg.UndefinedObjectError as exc:  # neither asyncpg's option nor the server's
            given = [name for name, _ in parse_qsl(self._target.dsn.partition("?")[2])]
            unknown = [name for name in given if name not in libpq.OPTIONS]
            meant = [near for name in unknown for near in get_close_matches(name, libpq.OPTIONS, 1)]
            raise ConfigurationError(
                f"The database URL or connect_args has an option too many ({exc}); "
                + (f"did you mean {meant[0]}?" if meant else "remove it.")
            ) from exc
        finally:
            saying.cancel()
        # Outside of the handler: the driver's text repeats a part of the URL, maybe the password,
        # and would stay with this error as its context.
        raise ConfigurationError(
            "The driver cannot read the database URL; write what is special in a user, "
            "password or database name as %XX, and ports as numbers."
        )

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

    async def _require_postgres(self, failure: BaseException) -> None:
        """Says what listens there instead, where no connection has ever been made."""
        told = libpq.environment(self._target)
        host = told.get("PGHOST") or os.environ.get("PGHOST", "")
        number = told.get("PGPORT") or os.environ.get("PGPORT", _PORT)
        if not host or host.startswith("/") or not number.isdecimal():  # a socket, or several
            return
        listener = await port.listener_at(host, int(number))
        if listener not in (port.Listener.POSTGRES, port.Listener.NOBODY):
            raise NotPostgres(listener) from failure

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
