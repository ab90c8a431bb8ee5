"""The driver's errors as adkpg's own, by SQLSTATE and never by message text."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import asyncpg
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from adkpg.errors import (
    Busy,
    ConfigurationError,
    ConstraintViolated,
    DatabaseError,
    DatabaseUnavailable,
    DiskFull,
    InvalidInput,
    ReadOnly,
    SchemaMissing,
)

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_MISSING = {"42P01", "3F000", "42703"}
_REFUSED = {"28000", "28P01"}
_NO_DATABASE = "3D000"
_UNSTORABLE = {"22021", "22P05", "54000", "22003"}
_CUT = {"57P01", "57P02", "57P03", "57P05", "53300"}
_BUSY = {
    "40001": "other transactions changed the same rows",
    "40P01": "it and another transaction waited for each other",
    "55P03": "another transaction held a lock for too long",
    "57014": "it took longer than the server allows, or an operator cancelled it",
    "53000": "the server lacks resources",
    "53200": "the server has no memory left",
}
_READ_ONLY = "25006"
_DISK_FULL = "53100"
_UNKNOWN_END = "40003"


@dataclass
class Attempt:
    """One use of a connection.

    Attributes:
      sent: Whether something that writes may have reached the server.
    """

    sent: bool = False


@contextmanager
def translated(place: str, attempt: Attempt) -> Iterator[None]:
    """Turns the driver's and the pool's errors into adkpg's, keeping them as ``__cause__``.

    Args:
      place: The database's address without password, for messages.
      attempt: How far it came; read when an error comes.

    Raises:
      DatabaseError: As `translate` says; nothing of the driver's passes.
      ConfigurationError: The URL names what the driver does not know.
      InvalidInput: A value cannot be stored.
    """
    try:
        yield
    except DBAPIError as exc:
        cause = getattr(exc.orig, "__cause__", None) or exc.orig or exc
        raise translate(cause, place, attempt) from exc
    except AsyncAdapt_asyncpg_dbapi.Error as exc:  # the pool could not open a connection
        raise translate(exc.__cause__ or exc, place, attempt) from exc
    except (
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
        PoolTimeoutError,
        OSError,
    ) as exc:
        raise translate(exc, place, attempt) from exc
    except UnicodeEncodeError as exc:
        raise InvalidInput(
            "A text holds a lone surrogate, which Postgres cannot store in a key; remove it."
        ) from exc


def translate(exc: BaseException, place: str, attempt: Attempt) -> Exception:
    """Returns the adkpg error that a driver's error means."""
    state = getattr(exc, "sqlstate", None) or ""
    refused = bool(state) and not state.startswith("08") and state not in {*_CUT, _UNKNOWN_END}
    written = False if refused or not attempt.sent else None
    if state in _MISSING:
        return SchemaMissing(
            f"adkpg's tables are not there as expected ({exc}) in {place}; run: adkpg db upgrade"
        )
    if state in _REFUSED:
        return DatabaseUnavailable(
            f"Postgres refused the user or password of {place}; correct the database URL or the "
            "credentials.",
            written=written,
        )
    if state == _NO_DATABASE:
        return DatabaseUnavailable(
            f"The server has no such database ({exc}); create it, or correct the database URL "
            f"{place}.",
            written=written,
        )
    if state in _BUSY:
        return Busy(
            f"Postgres gave a statement up ({state}: {exc}), since {_BUSY[state]}; nothing was "
            "written: try again.",
            written=written,
        )
    if state == _READ_ONLY:
        return ReadOnly(
            f"The server takes no writes ({exc}): {place} is a standby or was set read-only; "
            "connect to the primary, or try again after the failover.",
            written=written,
        )
    if state == _DISK_FULL:
        return DiskFull(
            f"The disk of {place} is full ({exc}); make room there, then try again.",
            written=written,
        )
    if state in _UNSTORABLE or isinstance(exc, asyncpg.DataError):
        return InvalidInput(
            f"Postgres cannot store a value that was given ({exc}); give one that it can hold."
        )
    if state.startswith("23"):
        column = f"{getattr(exc, 'table_name', '')}.{getattr(exc, 'column_name', '')}"
        return ConstraintViolated(
            f"Postgres refused a row ({exc}); another writer may have been first: try again.",
            getattr(exc, "constraint_name", None) or column,
        )
    if isinstance(exc, PoolTimeoutError):
        return Busy(
            f"No connection of the pool to {place} became free in time; raise ADKPG_POOL_SIZE or "
            "ADKPG_POOL_TIMEOUT_S.",
            written=written,
        )
    if isinstance(exc, TimeoutError):
        return DatabaseUnavailable(
            f"{place} did not answer in time; try again, or raise ADKPG_CONNECT_TIMEOUT_S or "
            "ADKPG_COMMAND_TIMEOUT_S.",
            written=written,
        )
    if state.startswith("08") or state in _CUT or isinstance(exc, OSError):
        return DatabaseUnavailable(
            f"{place} cannot be reached or ended the connection ({exc}); check that it runs "
            "and try again.",
            written=written,
        )
    if isinstance(exc, asyncpg.ClientConfigurationError):
        return ConfigurationError(f"The database URL cannot be used ({exc}); correct it.")
    if isinstance(exc, (asyncpg.InterfaceError, asyncpg.InternalClientError)) and not state:
        return DatabaseUnavailable(
            f"The connection to {place} cannot be used any more ({exc}); try again.",
            written=written,
        )
    return DatabaseError(
        f"Postgres refused a statement ({state}: {exc}); clear the cause that it names and try "
        "again."
    )


def idle_after(exc: BaseException) -> bool:
    """Whether the connection is idle after an exception, so that more can be said on it.

    It is after a server's answer, and after what the caller raised between two statements; not
    after a cancellation, a timeout or a break, which come while a statement is under way.
    """
    return isinstance(exc, Exception) and not isinstance(exc, TimeoutError) and not lost(exc)


def lost(exc: BaseException | None) -> bool:
    """Whether the connection was lost before an answer, and not by waiting too long for one."""
    state = getattr(exc, "sqlstate", None) or ""
    broken = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    return state.startswith("08") or (isinstance(exc, broken) and not isinstance(exc, TimeoutError))
