"""What lies between a connection and the server: nothing, or a pooler such as PgBouncer.

A pooler in transaction mode gives each transaction another of the server's connections. Before
PgBouncer 1.21 a prepared statement then stays behind on the one that prepared it; later ones give
it a name of their own and carry it along.
"""

import uuid

import asyncpg


async def is_direct(connection: asyncpg.Connection) -> bool:
    """Whether the server itself answers; one round trip.

    Who answers the connection's beginning names a process to cancel at, and a pooler names itself.
    """
    named = connection.get_server_pid()
    answer = await connection.execute(
        f"SELECT FROM (SELECT pg_backend_pid() AS pid) AS server WHERE pid = {named}"
    )
    return bool(answer == "SELECT 1")


async def keeps_prepared(connection: asyncpg.Connection) -> bool:
    """Whether statements that are prepared on a connection can be run in later transactions.

    Through a pooler, it prepares one in a transaction: a name that reaches the server as it is was
    not taken over by the pooler. (In session mode it need not be; that looks the same from here.)
    """
    if await is_direct(connection):
        return True
    await connection.execute("BEGIN")
    name = f"adkpg_{uuid.uuid4().hex}"
    statement = await connection.prepare(
        "SELECT count(*) FROM pg_prepared_statements WHERE name = $1", name=name
    )
    as_it_is = bool(await statement.fetchval(name))
    await connection.execute(f"DEALLOCATE {name}; COMMIT" if as_it_is else "COMMIT")
    return not as_it_is
