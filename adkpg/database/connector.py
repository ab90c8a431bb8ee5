"""Opens the driver's connections, and adapts them to a pooler that lies between."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import asyncpg

from adkpg.database import pooler
from adkpg.database.address import Address
from adkpg.errors import ConfigurationError
from adkpg.settings import Settings

logger = logging.getLogger(__name__)

Password = str | Callable[[], str] | Callable[[], Awaitable[str]]

_PREPARED = "statement_cache_size"
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
            self._said_to_wait = False
            return connection
        except asyncpg.ClientConfigurationError:
            raise
        except ValueError:
            if callable(self._options.get("password")):  # or it is the caller's own
                raise
        except asyncpg.UndefinedObjectError as exc:  # neither asyncpg's option nor the server's
            raise ConfigurationError(
                f"The database URL or connect_args has an option too many ({exc}); remove it."
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
