"""Which of the server's timeouts ended a transaction between two of its statements.

The driver drops what the server says while no statement is under way, so the settings tell.
"""

import asyncpg

from adkpg.database.driver import lost, of_server

_LONGEST_S = 5.0
_ASKED = "SELECT name, setting FROM pg_settings WHERE name = ANY ($1::text[])"
_SEEN = 0.8  # of a timeout: the server's clock starts before its answer is here
_ERRORS = {
    "idle_in_transaction_session_timeout": asyncpg.IdleInTransactionSessionTimeoutError,
    "transaction_timeout": asyncpg.TransactionTimeoutError,
}


def is_silent(exc: BaseException | None) -> bool:
    """Whether the connection was lost, and the driver does not know why."""
    return exc is not None and lost(exc) and of_server(exc) is exc


async def ended_by(
    connection: asyncpg.Connection, *, idle_s: float, open_s: float
) -> asyncpg.PostgresError | None:
    """Returns what the server would have said of a transaction that it ended; None: no timeout.

    Args:
      connection: Another one, by the same role to the same database.
      idle_s: How long the transaction had waited for its next statement.
      open_s: How long it had been open.
    """
    stood = dict(zip(_ERRORS, (idle_s, open_s), strict=True))
    for row in await connection.fetch(_ASKED, list(stood), timeout=_LONGEST_S):
        name, longest_ms = row["name"], int(row["setting"])
        if 0 < longest_ms * _SEEN <= stood[name] * 1000:
            return _ERRORS[name](f"{name} is {longest_ms} ms")
    return None
