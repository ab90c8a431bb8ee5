"""What the driver's errors mean, and which of them pass: by SQLSTATE and class."""

import errno
import socket
import ssl
from enum import Enum

import asyncpg
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from adkpg.database.cluster import errors as cluster
from adkpg.errors import (
    Busy,
    ConfigurationError,
    ConstraintViolated,
    DatabaseError,
    DatabaseUnavailable,
    DiskFull,
    InvalidInput,
    PermissionDenied,
    ReadOnly,
    SchemaError,
    ScopeMissing,
)
from adkpg.tables import EVENT_ID_KEY

# https://www.postgresql.org/docs/current/errcodes-appendix.html
MISSING = {"42P01", "3F000", "42703", "42883"}
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
    "25P03": "its transaction stood still for longer than the server allows",
    "25P04": "its transaction took longer than the server allows",
}
_READ_ONLY = "25006"
_NO_FILE_LEFT = {errno.EMFILE, errno.ENFILE}
_DISK_FULL = "53100"
_UNKNOWN_END = "40003"
_DENIED = "42501"
_NO_SCOPE = "ADK01"  # raised by the functions of row_security.py
_VIOLATED = {
    "ADK02": EVENT_ID_KEY,
    "ADK03": "sessions.state",
    "ADK04": "app_states.state",
    "ADK05": "user_states.state",
    "ADK07": "app_states.writers",
}
"""What functions of the database raise, since a cluster forgets the names of constraints."""
_UNPREPARED = {"26000", "42P05"}  # not there any more, or another client's of that name is


_OF_DRIVER = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    PoolTimeoutError,
    OSError,
)


class NeverReached(ConnectionRefusedError):
    """The address refuses, and no connection to it was ever open: it may be a wrong one."""


class Closed(ConnectionError):
    """This process closed the pool while a call was under way."""


class EngineFailed(ConnectionError):
    """The function by which a user's own engine connects raised."""


class PasswordFailed(ConnectionError):
    """The user's function that is asked for the password raised."""


class Fault(Enum):
    """What is known of a fault that passes, and so of when and how to try again."""

    LOST = "the connection ended; other idle ones may have, too"
    AWAY = "no connection could be made, or none is to be had at present"
    NODE = "a node of a cluster is away, which the server that is asked survives"
    RACE = "other transactions were first"
    UNPREPARED = "a pooler lost prepared statements; those of other connections, too"
    STANDBY = "the server is a standby, and another one may be the primary"
    MOVED = "a part of a distributed table has just moved to another node"


_PASSES = {
    "08000": Fault.LOST,
    "08001": Fault.AWAY,
    "08003": Fault.LOST,
    "08004": Fault.AWAY,
    "08006": Fault.LOST,
    "08007": Fault.LOST,
    "08P01": Fault.LOST,  # also what a pooler says that lost its server
    "40001": Fault.RACE,
    "40003": Fault.LOST,
    "40P01": Fault.RACE,
    "53300": Fault.AWAY,
    "55P03": Fault.RACE,
    "57P01": Fault.LOST,
    "57P02": Fault.LOST,
    "57P03": Fault.AWAY,
    "57P05": Fault.LOST,
    _READ_ONLY: Fault.STANDBY,
    **dict.fromkeys(_UNPREPARED, Fault.UNPREPARED),
}
"""SQLSTATEs of faults that pass within seconds; what an operator must clear is not among them."""


def fault_of(exc: BaseException, *, sent: bool) -> Fault | None:
    """Returns what passes by itself, and None for what is not worth another try.

    A statement that took too long would again; so a timeout counts before one was sent alone.
    """
    exc = of_server(exc)
    state = getattr(exc, "sqlstate", None)
    if cluster.node_ended(exc):
        return Fault.NODE
    if cluster.part_moved(exc):
        return Fault.MOVED
    if _has_no_transactions(exc):
        return None
    if state:
        return _PASSES.get(state)
    if isinstance(exc, asyncpg.TargetServerAttributeNotMatched):
        return Fault.STANDBY
    if isinstance(exc, Closed):
        return None
    if isinstance(exc, (PasswordFailed, EngineFailed)):
        return Fault.AWAY
    if isinstance(exc, (asyncpg.InterfaceError, asyncpg.InternalClientError)):
        return Fault.LOST
    if isinstance(exc, TimeoutError):
        return None if sent else Fault.AWAY
    if isinstance(exc, ssl.SSLCertVerificationError):
        return None
    if isinstance(exc, OSError):
        return Fault.LOST if sent else Fault.AWAY
    return None


def of_server(exc: BaseException) -> BaseException:
    """Returns what the server said as it ended a connection, if the driver wraps that."""
    said = exc.__cause__ or exc.__context__
    wrapped = isinstance(exc, asyncpg.ConnectionDoesNotExistError)
    return said if wrapped and isinstance(said, asyncpg.PostgresError) else exc


def of_driver(exc: BaseException | None) -> BaseException | None:
    """Returns what the driver, the pool or the system says itself; None for any other error."""
    while isinstance(exc, (DBAPIError, AsyncAdapt_asyncpg_dbapi.Error)):  # SQLAlchemy's wrappers
        cause = (exc.orig if isinstance(exc, DBAPIError) else None) or exc.__cause__
        if cause is None:
            return exc
        exc = cause
    return exc if isinstance(exc, _OF_DRIVER) else None


def translate(
    exc: BaseException, place: str, *, sent: bool = False, partly: bool = False
) -> Exception:
    """Returns the adkpg error that a driver's error means.

    Args:
      exc: The driver's, the pool's or the system's; see `of_driver`.
      place: The database's address without password.
      sent: Whether something that writes may have reached the server.
      partly: Whether something was written already, for some of those whom the call is about.
    """
    exc = of_server(exc)
    state = getattr(exc, "sqlstate", None) or ""
    refused = bool(state) and not state.startswith("08") and state not in {*_CUT, _UNKNOWN_END}
    # Those without a state the driver raises before it sends anything.
    own = not state and isinstance(exc, (asyncpg.InterfaceError, asyncpg.InternalClientError))
    nowhere = not partly and (refused or own or not sent)
    written = False if nowhere else None
    kept = "nothing was written" if nowhere else "some users' rows may be written"
    if cluster.node_ended(exc):
        return DatabaseUnavailable(
            f"A node of the cluster behind {place} ended, or is away ({exc}); try again, and check "
            "that all of its nodes run.",
            written=None if sent else False,
        )
    if cluster.part_moved(exc):
        return Busy(
            f"A part of adkpg's tables in {place} moved to another node while a statement ran "
            f"({exc}); {kept}: try again.",
            written=written,
        )
    if isinstance(exc, Closed):
        return DatabaseUnavailable(
            f"The Database on {place} was closed while a call was under way; close it after its "
            "calls have ended.",
            written=None if sent else False,
        )
    if isinstance(exc, PasswordFailed):
        return DatabaseUnavailable(
            f"The password function of {place} failed: {exc}; try again when it gives one.",
            written=written,
        )
    if _has_no_transactions(exc):
        return ConfigurationError(
            f"The pooler at {place} gives each statement another connection ({exc}); set its "
            "pool_mode to transaction or session."
        )
    if isinstance(exc, EngineFailed):
        return DatabaseUnavailable(
            f"The engine that was given, on {place}, could not connect: {exc}; try again, or "
            "correct its async_creator or its listeners.",
            written=written,
        )
    if getattr(exc, "errno", None) in _NO_FILE_LEFT:
        return DatabaseUnavailable(
            f"This process may open no more files ({exc}), so no connection to {place}; raise "
            "its limit (ulimit -n), or lower ADKPG_POOL_SIZE.",
            written=written,
        )
    if state in MISSING:
        return SchemaError(
            f"adkpg's tables in {place} are not as this version expects ({exc}); run: adkpg db "
            "upgrade"
        )
    if state in _REFUSED:
        return DatabaseUnavailable(
            f"Postgres refused the user or password of {place} ({exc}); correct the database URL "
            f"or the credentials{_special_characters(place)}.",
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
            f"{place} gave up a statement ({state}: {exc}), since {_BUSY[state]}; {kept}: try "
            "again.",
            written=written,
        )
    if state == _READ_ONLY or isinstance(exc, asyncpg.TargetServerAttributeNotMatched):
        return ReadOnly(
            f"The server takes no writes ({exc}): {place} is a standby or was set read-only; "
            "connect to the primary, or try again after the failover.",
            written=written,
        )
    if state in _UNPREPARED:
        return DatabaseUnavailable(
            f"A pooler at {place} does not keep prepared statements ({state}); add "
            "statement_cache_size=0 to the database URL or the engine's connect_args.",
            written=written,
        )
    if state == _DISK_FULL:
        return DiskFull(
            f"The disk of {place} is full ({exc}); make room there, then try again.",
            written=written,
        )
    if state == _DENIED and "enter_every_scope" in str(exc):  # by its rights, or by itself
        return PermissionDenied(
            f"The database role of {place} may not enter every scope, which operators' commands "
            "and workers need; connect as the tables' owner, or as a role that the SQL of `adkpg "
            "db grants --role work NAME` has admitted. `adkpg db grants` prints the rights that "
            "each role needs."
        )
    if state == _DENIED and '"app_states"' in str(exc):
        return PermissionDenied(
            f"The policies of {place} let only the app itself write app: keys, because all its "
            "users read them; set them by update_state without a user within "
            "adkpg.scope(app_name=..., user_id=None), or run adkpg db upgrade with "
            "ADKPG_APP_STATE_WRITERS=users."
        )
    if state == _DENIED:
        return PermissionDenied(
            f"The database role of {place} has no right to do this, or the row is outside of the "
            f"entered scope ({exc}); `adkpg db grants` prints the rights that each role needs."
        )
    if state == _NO_SCOPE:
        return ScopeMissing(
            f"The tables in {place} have row-level security, and no scope was entered for a "
            "statement; set ADKPG_ROW_LEVEL_SECURITY=true and call within adkpg.scope(...)."
        )
    if state in _UNSTORABLE or (
        isinstance(exc, asyncpg.DataError) and state not in cluster.REFUSED
    ):
        return InvalidInput(
            f"Postgres cannot store one of the values ({exc}); give one that it can hold.",
            public=InvalidInput.public,
        )
    if state.startswith("23") or state in _VIOLATED:
        column = f"{getattr(exc, 'table_name', '')}.{getattr(exc, 'column_name', '')}"
        return ConstraintViolated(
            f"Postgres refused a row ({exc}); another writer may have been first: try again.",
            _VIOLATED.get(state) or cluster.constraint(exc) or column,
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
    if isinstance(exc, ssl.SSLError) or _without_tls(exc):
        return DatabaseUnavailable(
            f"{place} and this process could not agree on TLS ({exc}); correct sslmode or "
            "sslrootcert in the database URL, or the server's certificate.",
            written=written,
        )
    if isinstance(exc, socket.gaierror):
        return DatabaseUnavailable(
            f"{place} cannot be reached, since its host is not known ({exc}); correct the host"
            f"{_special_characters(place)}.",
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


def _special_characters(place: str) -> str:
    """Names what most often is wrong with a URL that has a password."""
    if ":***@" not in place:
        return ""
    return "; in a URL, a password's own @ / : % are written %40 %2F %3A %25"


def _has_no_transactions(exc: BaseException) -> bool:
    """Whether PgBouncer refused a transaction, whose text alone says so."""
    return getattr(exc, "sqlstate", None) == "08P01" and "statement pooling mode" in str(exc)


def _without_tls(exc: BaseException) -> bool:
    """Whether the server refused TLS, or broke off before it was agreed on."""
    return type(exc) is ConnectionError and exc.errno is None  # the driver's own, for nothing else


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
