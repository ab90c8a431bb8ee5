"""Every error that adkpg raises.

::

    AdkpgError
      + ConfigurationError (ValueError)     a setting, URL or argument cannot work
          + ModelNotActive                  the app is searched with another embedding model
          + ScopeMissing row-level security is on, and no scope was entered
      + InvalidInput (ValueError)           a value is of a wrong type, or cannot be stored
          + InvalidArtifact (ADK InputValidationError)
      + DatabaseError                       the server refused or lost a statement
          + RetryableError                  the cause passes; `written` says what became of it
              + DatabaseUnavailable         no connection, or it was cut
              + Busy                        locks, timeouts, or no free connection in the pool
              + ReadOnly                    the server takes no writes: a standby
              + DiskFull                    the server, or the object store, has no space left
          + PermissionDenied                the role, or the scope, may not do this
          + ConstraintViolated              a key or constraint refused a row
          + SchemaError                     the tables are not what this version expects
              + ExtensionMissing            pgvector is not installed on the server
      + EmbeddedServerError                 the embedded Postgres cannot run here
      + ModelError                          an embedder, reranker or extractor failed
          + ModelUnavailable                it answers nothing now; ask again later
      + SessionExists (ADK AlreadyExistsError)
      + EventConflict (ADK AlreadyExistsError)
      + SessionNotFound (ADK SessionNotFoundError)
      + ArtifactGone                        a file was deleted while it was read
      + ArtifactStoreError                  the object store of large files failed
      + StaleSession (ADK StaleSessionError)
          + InvocationLost                  another invocation runs in the session

Errors that ADK has a type for are subclasses of it, so code written for ADK's own services
catches ours. Each message says cause and cure; the driver's error, where there is one, is the
``__cause__``. No message ever holds a password.

A message is for the operator of the service: it may name a server, a role, a bucket. Clients,
models and users of agents may read ``public``, which names none of these.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError

__all__ = [
    "AdkpgError",
    "ArtifactGone",
    "ArtifactStoreError",
    "Busy",
    "ConfigurationError",
    "ConstraintViolated",
    "DatabaseError",
    "DatabaseUnavailable",
    "DiskFull",
    "EmbeddedServerError",
    "EventConflict",
    "ExtensionMissing",
    "InvalidArtifact",
    "InvalidInput",
    "InvocationLost",
    "ModelError",
    "ModelNotActive",
    "ModelUnavailable",
    "PermissionDenied",
    "ReadOnly",
    "RetryableError",
    "SchemaError",
    "ScopeMissing",
    "SessionExists",
    "SessionNotFound",
    "StaleSession",
]

logger = logging.getLogger(__name__)


class AdkpgError(Exception):
    """Base of every error that adkpg raises on purpose.

    Attributes:
      public: The sentence for clients, models and users of agents: what kind of trouble it is.
    """

    public = "The service cannot do this now; its log says why."

    def __init__(self, *args: object, public: str | None = None) -> None:
        super().__init__(*args)
        if public is not None:
            self.public = public


@contextmanager
def in_public() -> Iterator[None]:
    """An error that leaves the block says its public sentence; the whole message is logged.

    For every door behind which others answer clients in an error's own words, as ADK's servers do.
    """
    try:
        yield
    except AdkpgError as exc:
        if str(exc) != exc.public:
            logger.warning("%s: %s", type(exc).__name__, exc)
            exc.args = (exc.public,)
            if hasattr(exc, "message"):  # as errors of ADK have one
                exc.message = exc.public
        raise


class ConfigurationError(AdkpgError, ValueError):
    """A setting, URL or argument cannot work; the message names it and the cure."""

    public = "The service is not set up for this; its log says what is missing."


class ModelNotActive(ConfigurationError):
    """The app's vectors are of another model than the service's embedder; none are compared."""

    public = "Memory is kept with another embedding model; the service's log says which."


class ScopeMissing(ConfigurationError):
    """Row-level security is on, and the call was made in no scope; see `adkpg.scope`."""

    public = "The service does not know which user this request is for, so it does nothing."


class InvalidInput(AdkpgError, ValueError):
    """A value cannot be stored, or more is asked for than a limit allows; nothing was written.

    Its message is about what the caller gave, so it is public, too. A wrong type raises it only
    where the value would be stored; elsewhere Python raises its own ``TypeError`` or
    ``AttributeError``.
    """

    public = "A value that was given cannot be used."

    def __init__(self, message: str = public, *, public: str | None = None) -> None:
        super().__init__(message, public=message if public is None else public)


class InvalidArtifact(InvalidInput, InputValidationError):
    """A file's place, name or content cannot be stored, or it is too large; nothing was written."""


class DatabaseError(AdkpgError):
    """The server refused a statement; the driver's error is the ``__cause__``."""

    public = "The service's database refused this; the service's log says why."


class RetryableError(DatabaseError):
    """The same call may succeed later: its cause passes, or an operator can clear it.

    An append may always be repeated with the same event: it is stored once.

    Attributes:
      written: False if nothing was written, None if the answer was lost and that is unknown.
    """

    public = "The service's database cannot do this now; try again later."

    def __init__(
        self, message: str, *, written: bool | None = None, public: str | None = None
    ) -> None:
        super().__init__(message, public=public)
        self.written = written


class DatabaseUnavailable(RetryableError):
    """No connection could be made, or it was cut in mid-statement."""

    public = "The service's database does not answer; try again later."


class Busy(RetryableError):
    """Others were in the way: a lock, a timeout, no free connection, or a running invocation."""

    public = "The service has too much to do at the moment; try again later."


class ReadOnly(RetryableError):
    """The server takes no writes: it is a standby, or was set read-only."""

    public = "The service takes no changes at the moment; try again later."


class DiskFull(RetryableError):
    """The server has no space left on its disk, or the object store of large files has none."""

    public = "The service has no room for more; try again later."


class PermissionDenied(DatabaseError):
    """The role has no right to do this, or the row is outside of the scope; nothing was written."""

    public = "This is not allowed; nothing was written."


class ConstraintViolated(DatabaseError):
    """A key or constraint refused a row; nothing was written.

    Attributes:
      constraint: The constraint's name; table and column, with a dot between, of one that refused
        a null.
    """

    public = "This contradicts the stored data; nothing was written."

    def __init__(self, message: str, constraint: str) -> None:
        super().__init__(message)
        self.constraint = constraint


class SchemaError(DatabaseError):
    """The database's tables are not the ones this version of adkpg expects."""

    public = "The service's tables are not as expected; its operator runs: adkpg db upgrade"


class ExtensionMissing(SchemaError):
    """The server has no pgvector."""

    public = "The service's database lacks pgvector; its log says more."


class EmbeddedServerError(AdkpgError):
    """The embedded Postgres cannot be found, started or shared on this machine."""

    public = "The service's database cannot run; its log says why."


class ModelError(AdkpgError):
    """An embedder, a reranker or an extractor of facts gave no usable answer.

    Nothing is lost by it: memories stay pending, a search keeps its own order, turns wait to be
    read again. Work that the model refuses, though it answers something else, becomes a dead letter
    after some attempts; all other work waits, as for `ModelUnavailable`.

    Attributes:
      usage: Tokens that an extractor spent all the same, an `adkpg.facts.Usage`; None if unknown.
    """

    public = "A model gave no usable answer; the service's log says why."

    def __init__(self, message: str, usage: object = None) -> None:
        super().__init__(message)
        self.usage = usage


class ModelUnavailable(ModelError):
    """A model does not answer now, whatever it is asked; the same texts may succeed later.

    Its service is down, overloaded, silent or out of quota, or its package, file or credentials are
    missing or refused. Work that waits for it uses up no attempt.

    Attributes:
      asked: False if it was not even asked, since it had failed a moment ago.
    """

    public = "A model does not answer; try again later."

    asked = True


class SessionExists(AdkpgError, AlreadyExistsError):
    """A session with this app, user and id is already stored."""

    public = "A session with this id already exists; use another id."


class EventConflict(AdkpgError, AlreadyExistsError):
    """Another event with the same id is already stored in the session."""

    public = "Another event with this id is already stored in the session."


class SessionNotFound(AdkpgError, SessionNotFoundError):
    """The session does not exist, or was deleted."""

    public = "The session does not exist, or was deleted."


class ArtifactGone(AdkpgError):
    """A file was deleted while it was read or saved; what was read of it is not all."""

    public = "The file was deleted while it was read."


class ArtifactStoreError(AdkpgError):
    """The object store refused a file, and nothing was saved; or another database keeps it."""

    public = "The store of files refused this; the service's log says why."


class StaleSession(AdkpgError, StaleSessionError):
    """The session was modified in storage since this Session object was loaded, or went back.

    It goes back when a failover or a restored backup loses what was acknowledged; the message tells
    which of both it was.
    """

    public = "The session was changed by another request; load it again."


class InvocationLost(StaleSession):
    """A queued invocation has ended, or lost its session to another one; nothing was written."""

    public = "Another run has taken over the session, or this one has ended."
