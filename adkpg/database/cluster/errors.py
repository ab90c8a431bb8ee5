"""Errors that only Citus has: by their SQLSTATE, and where that says nothing, by their text."""

import re

from adkpg.tables import metadata

REFUSED = {"0A000", "XX000", "22P04"}
"""SQLSTATEs of what Citus does not do over several nodes."""

_NODE_LOST = "CIINF"  # what a step left on a node is not there
_INTERNAL, _OF_NODE = "XX000", {"XX000", "08006", "58030"}
_NODE_ENDED = (
    "terminating connection due to",
    "failure on connection marked as essential",
    "failed to COPY to shard",
    "could not find the intermediate result file",
    "could not commit transaction for shard",
    "connection to the remote node",
    "failed to connect to",
    "connection not open",
    "no connection to the server",
    "server closed the connection unexpectedly",
    "could not receive data from server",
    "could not send data to server",
    "SSL connection has been closed unexpectedly",
    "SSL SYSCALL error",
    "the database system is starting up",
    "the database system is shutting down",
    "the database system is in recovery mode",
)
"""What it says where a node that it asked has ended, or begins."""
_MOVED = "ADK06"  # raised by leave_1
_PART_MOVED = "cannot execute a distributed query from a query on a shard"
"""What a node says that has a part already, and does not know yet: a trigger's rows are its own."""
_NO_TABLE = "42P01"
_NO_PART = re.compile(
    rf'relation "(?:.*\.)?(?:{"|".join(each.name for each in metadata.sorted_tables)})_[0-9]+"'
    " does not exist"
)
_CONSTRAINTS = frozenset(
    str(each.name) for table in metadata.tables.values() for each in table.constraints
)
_OF_PART = re.compile(r"\b(\w+)_[0-9]+\b")  # what Citus names a constraint on a part of a table


def node_ended(exc: BaseException) -> bool:
    """Whether a node that the server asked has ended, which the server itself survives."""
    state = getattr(exc, "sqlstate", None)
    return state == _NODE_LOST or (
        state in _OF_NODE and any(text in str(exc) for text in _NODE_ENDED)
    )


def part_moved(exc: BaseException) -> bool:
    """Whether a node refused what is about a part that has just come to it, or left it.

    All is undone.
    """
    state = getattr(exc, "sqlstate", None)
    return (
        state == _MOVED
        or (state == _INTERNAL and _PART_MOVED in str(exc))
        or (state == _NO_TABLE and _NO_PART.search(str(exc)) is not None)
    )


def constraint(exc: BaseException) -> str | None:
    """Returns which constraint refused a row, by the name that it has in `tables`.

    If another node refused the row, only the text of the error names the constraint.
    """
    named: str | None = getattr(exc, "constraint_name", None)
    of_parts = _OF_PART.findall(named or getattr(exc, "message", None) or "")
    return next((name for name in of_parts if name in _CONSTRAINTS), named)
