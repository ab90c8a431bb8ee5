"""Opening: engines on the databases that are read, whose errors are sentences without passwords."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import aiosqlite
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from adkpg.database import Database
from adkpg.database.address import EMBEDDED
from adkpg.errors import ConfigurationError, DatabaseError
from adkpg.settings import Settings

_MYSQL = ("mysql", "mariadb")


@dataclass(frozen=True)
class Opened:
    """A database that is read.

    Attributes:
      name: Its address without password, or its file.
      dialect: ``sqlite``, ``postgresql`` or ``mysql``.
      engine: The source's.
      close: Gives it up.
    """

    name: str
    dialect: str
    engine: AsyncEngine
    close: Callable[[], Awaitable[None]]

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Yields a connection that reads all of it as of one moment.

        Raises:
          DatabaseError: It cannot be reached, or refuses a statement.
        """
        with self.explained():
            async with self.engine.connect() as connection:
                if self.dialect == "postgresql":
                    connection = await connection.execution_options(
                        isolation_level="REPEATABLE READ", postgresql_readonly=True
                    )
                elif self.dialect == "mysql":
                    connection = await connection.execution_options(
                        isolation_level="REPEATABLE READ"
                    )
                yield connection

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Makes a sentence of what a driver raises."""
        try:
            yield
        except (sqlalchemy.exc.SQLAlchemyError, aiosqlite.Error) as exc:
            cause = getattr(exc, "orig", None) or exc
            raise DatabaseError(f"{self.name} cannot be read: {_sentence(cause)}") from exc
        except (OSError, EOFError) as exc:
            raise DatabaseError(f"{self.name} cannot be reached: {_sentence(exc)}") from exc
        except Exception as exc:
            # Drivers raise what they like while they connect; those are of their modules.
            if type(exc).__module__.split(".")[0] in ("asyncpg", "pymysql", "aiomysql"):
                raise DatabaseError(f"{self.name} cannot be read: {_sentence(exc)}") from exc
            raise


def _sentence(exc: BaseException) -> str:
    text = " ".join(str(exc).split())[:300] or type(exc).__name__
    # SQLAlchemy puts the class of the driver's error in front.
    return text.rpartition("'>: ")[2].rstrip(".") + "."


async def opened(source: str, settings: Settings, *, writes: bool = False) -> Opened:
    """Opens a database by its URL, or a file of SQLite.

    Args:
      source: A URL, or a file's name.
      settings: Those of adkpg's own database.
      writes: Whether it is written to; a file is then made if there is none.

    Raises:
      ConfigurationError: The URL is of no database that can be read, or its driver is missing.
    """
    scheme, separator, rest = source.partition("://")
    kind = scheme.lower().partition("+")[0]
    if source == EMBEDDED:
        return await _postgres(source, settings)
    if not separator:
        return _sqlite(Path(source), writes=writes)
    if kind == "sqlite":
        return _sqlite(_path_of(rest), writes=writes)
    if kind in _MYSQL:
        return _mysql(rest)
    return await _postgres(source, settings)


def _path_of(rest: str) -> Path:
    """Returns the file of a SQLite URL, of SQLAlchemy's form or of adk-js's with two slashes."""
    path = rest.partition("?")[0]
    return Path(unquote(path[1:] if path.startswith("/") else path))


def _sqlite(path: Path, *, writes: bool) -> Opened:
    if writes and path.parent.is_dir():
        with suppress(FileExistsError):  # for its owner alone, as SQLite's own logs of it are then
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        engine = create_async_engine(sqlalchemy.URL.create("sqlite+aiosqlite", database=str(path)))
        return Opened(str(path), "sqlite", engine, engine.dispose)
    if not path.is_file():
        raise ConfigurationError(
            f"There is no file {path}; a URL of SQLite has three slashes before a relative path "
            "and four before an absolute one."
        )
    # A file that is not writable, in a folder that is not, has no log to be read either.
    frozen = "" if os.access(path.parent, os.W_OK) else "&immutable=1"
    uri = f"file:{quote(str(path.absolute()))}?mode=ro{frozen}"

    async def connect() -> Any:
        connection = await aiosqlite.connect(uri, uri=True)
        # What is no UTF-8 costs its own row alone.
        connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
        return connection

    engine = create_async_engine("sqlite+aiosqlite://", async_creator=connect)
    return Opened(str(path), "sqlite", engine, engine.dispose)


def _mysql(rest: str) -> Opened:
    try:
        url = sqlalchemy.make_url(f"mysql+aiomysql://{rest}").update_query_dict(
            {"charset": "utf8mb4"}
        )
        name = url.set(drivername="mysql").render_as_string(hide_password=True)
    except (sqlalchemy.exc.ArgumentError, ValueError):  # its text repeats the URL
        raise ConfigurationError(
            "The source's URL cannot be read; write mysql://user:password@host/database, and "
            "special characters in a password as %XX."
        ) from None
    try:
        engine = create_async_engine(url)
    except ModuleNotFoundError as exc:
        raise ConfigurationError(
            "MySQL and MariaDB need a driver; run: pip install 'adkpg[mysql]'."
        ) from exc
    return Opened(name.partition("?")[0], "mysql", engine, engine.dispose)


async def _postgres(source: str, settings: Settings) -> Opened:
    # Its own pool and time limits: a million events are sorted before the first is there.
    database = Database(source, settings=settings, connect_args={"command_timeout": None})
    return Opened(database.url, "postgresql", await database.engine(), database.close)
