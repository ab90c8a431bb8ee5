"""What Citus says when a node ends or a part moves: it passes, so calls are repeated."""

from typing import Any

import asyncpg
import pytest

from adkpg.database.driver import Fault, fault_of, translate
from adkpg.errors import Busy, ConstraintViolated, DatabaseError, DatabaseUnavailable


def said(state: str, text: str) -> Any:
    error: Any = asyncpg.PostgresError.new({"C": state, "M": text, "S": "ERROR"})
    return error


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("XX000", "terminating connection due to unexpected postmaster exit"),
        ("XX000", "failure on connection marked as essential: worker1:5432"),
        ("XX000", "server closed the connection unexpectedly\n\tThis probably means that it ended"),
        ("XX000", "could not receive data from server: Connection reset by peer"),
        ("XX000", "no connection to the server"),
        ("XX000", "could not commit transaction for shard 102015 on at least one active node"),
        ("08006", "connection to the remote node postgres@worker1:5432 failed"),
        ("08006", "the database system is starting up"),
        ("CIINF", "could not find the intermediate result file"),
    ],
)
def test_a_node_that_ended_passes(state: str, text: str) -> None:
    error = said(state, text)
    assert fault_of(error, sent=True) is Fault.NODE
    meant = translate(error, "coordinator", sent=True)
    assert isinstance(meant, DatabaseUnavailable)
    assert meant.written is None  # nobody knows


def test_a_part_that_moved_passes_and_nothing_was_written() -> None:
    error = said("XX000", "cannot execute a distributed query from a query on a shard")
    assert fault_of(error, sent=True) is Fault.MOVED
    meant = translate(error, "coordinator", sent=True)
    assert isinstance(meant, Busy)
    assert meant.written is False


def test_another_internal_error_does_not_pass() -> None:
    error = said("XX000", "cache lookup failed for relation 1")
    assert fault_of(error, sent=True) is None
    meant = translate(error, "coordinator", sent=True)
    assert isinstance(meant, DatabaseError)
    assert not isinstance(meant, DatabaseUnavailable)


@pytest.mark.parametrize("named", [{}, {"t": "memory_vectors_102070", "n": "{}_102070"}])
@pytest.mark.parametrize(
    ("state", "text", "constraint"),
    [
        (
            "23503",
            'insert or update on table "memory_vectors_102070" violates foreign key constraint'
            ' "memory_vectors_model_fkey_102070"',
            "memory_vectors_model_fkey",
        ),
        (
            "23505",
            'duplicate key value violates unique constraint "user_states_pkey_102038"',
            "user_states_pkey",
        ),
    ],
)
def test_a_constraint_of_a_part_goes_by_its_own_name(
    state: str, text: str, constraint: str, named: dict[str, str]
) -> None:
    """A node that was asked by another says it in the text alone."""
    fields = {field: value.format(constraint) for field, value in named.items()}
    error: Any = asyncpg.PostgresError.new({"C": state, "M": text, "S": "ERROR", **fields})
    meant = translate(error, "coordinator", sent=True)
    assert isinstance(meant, ConstraintViolated)
    assert meant.constraint == constraint


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("55P03", "canceling statement due to lock timeout"),
        ("40P01", "deadlock detected"),
        ("XX000", "cannot execute a distributed query from a query on a shard"),
    ],
)
def test_what_was_written_for_users_before_is_not_denied(state: str, text: str) -> None:
    """A statement about several users runs once for each, in a transaction of its own."""
    meant = translate(said(state, text), "coordinator", sent=True, partly=True)
    assert isinstance(meant, Busy)
    assert meant.written is None
    assert "nothing was written" not in str(meant)
