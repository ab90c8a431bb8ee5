"""What the driver's errors mean, by SQLSTATE and never by message text."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from adkpg.errors import (
    ConfigurationError,
    ConstraintViolated,
    DatabaseError,
    DatabaseUnavailable,
    InvalidInput,
    SchemaMissing,
)

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_MISSING = {"42P01", "3F000", "42703"}
_REFUSED = {"28000", "28P01"}
_NO_DATABASE = "3D000"
_UNSTORABLE = {"22021", "22P05", "54000", "22003"}
_CUT = {"57P01", "57P02", "57P03", "57P05", "53300"}


@contextmanager
def translated() -> Iterator[None]:
    """Turns the driver's and the pool's errors into adkpg's, keeping them as ``__cause__``.

    Raises:
      DatabaseError: As `translate` says; nothing of the driver's passes.
      ConfigurationError: The URL names what the driver does not know.
      InvalidInput: A value cannot be stored.
    """
    try:
        yield
    except DBAPIError as exc:
        cause = getattr(exc.orig, "__cause__", None) or exc.orig or exc
        raise translate(cause) from exc
    except AsyncAdapt_asyncpg_dbapi.Error as exc:  # the pool could not open a connection
        raise translate(exc.__cause__ or exc) from exc
    except (
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
        PoolTimeoutError,
        OSError,
    ) as exc:
        raise translate(exc) from exc
    except UnicodeEncodeError as exc:
        raise InvalidInput(
            "A text holds a lone surrogate, which Postgres cannot store in a key; remove it."
        ) from exc


def translate(exc: BaseException) -> Exception:
    """Returns the adkpg error that a driver's error means."""
    state = getattr(exc, "sqlstate", None) or ""
    if state in _MISSING:
        return SchemaMissing(
            f"adkpg's tables are not there as expected ({exc}); run: adkpg db upgrade"
        )
    if state in _REFUSED:
        return DatabaseUnavailable(
            "Postgres refused the user or password; correct the database URL or the credentials."
        )
    if state == _NO_DATABASE:
        return DatabaseUnavailable(
            f"The server has no such database ({exc}); create it, or correct the database URL."
        )
    if state in _UNSTORABLE or isinstance(exc, asyncpg.DataError):
        return InvalidInput(
            f"Postgres cannot store a value that was given ({exc}); give one that it can hold."
        )
    if state.startswith("23"):
        return ConstraintViolated(
            f"Postgres refused a row ({exc}); another writer may have been first: try again.",
            getattr(exc, "constraint_name", None) or "",
        )
    if isinstance(exc, PoolTimeoutError):
        return DatabaseUnavailable(
            "No connection of the pool became free in time; raise ADKPG_POOL_SIZE or "
            "ADKPG_POOL_TIMEOUT_S."
        )
    if isinstance(exc, TimeoutError):
        return DatabaseUnavailable(
            "Postgres did not answer in time; try again, or raise ADKPG_CONNECT_TIMEOUT_S or "
            "ADKPG_COMMAND_TIMEOUT_S."
        )
    if state.startswith("08") or state in _CUT or isinstance(exc, OSError):
        return DatabaseUnavailable(
            f"Postgres cannot be reached or ended the connection ({exc}); check that it runs "
            "and try again."
        )
    if isinstance(exc, asyncpg.ClientConfigurationError):
        return ConfigurationError(f"The database URL cannot be used ({exc}); correct it.")
    if isinstance(exc, (asyncpg.InterfaceError, asyncpg.InternalClientError)) and not state:
        return DatabaseUnavailable(
            f"The connection to Postgres cannot be used any more ({exc}); try again."
        )
    return DatabaseError(
        f"Postgres refused a statement ({state}: {exc}); clear the cause that it names and try "
        "again."
    )
