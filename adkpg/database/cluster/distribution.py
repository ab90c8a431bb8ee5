"""Distribution: adkpg's tables over the nodes of a Citus cluster, all of a person's on one of them.

Which table goes where is read from `adkpg.tables`: what has a ``user_id`` is distributed by it,
beside the sessions; everything else is a reference table, a copy of which lies on every node.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, ForeignKeyConstraint, Table, text
from sqlalchemy.ext.asyncio import AsyncEngine

from adkpg.database.cluster import node
from adkpg.database.cluster.node import Cluster, find, takes_parts
from adkpg.database.migrating import migrations
from adkpg.errors import (
    ConfigurationError,
    DatabaseUnavailable,
    ExtensionMissing,
    SchemaError,
)
from adkpg.tables import DISTRIBUTED, FUNCTIONS, GUARD, REGISTER, metadata, sessions

_OLDEST_CITUS = (13, 0)
_NOT_CARRIED = "n_distinct"
_NAMED = 5  # in a message


@dataclass(frozen=True)
class Step:
    """One thing that distributing does, in a transaction of its own.

    Attributes:
      what: In a few words, such as ``distribute sessions by user_id``.
      sql: What does it.
      asks: Whether it has nodes do it, each in a transaction of its own; its rows are what they
        refused: result.
    """

    what: str
    sql: str
    asks: bool = False


@dataclass(frozen=True)
class _State:
    kinds: Mapping[str, str]
    """Each table's kind, as in `Cluster`."""
    keys: frozenset[str]
    """The foreign keys of the schema."""
    triggers: frozenset[tuple[str, str]]
    """By table and name."""
    hidden: frozenset[str]
    """Tables with rows in the coordinator's own files: those of before, beside the parts."""
    functions: dict[str, bool]
    """By a function's name and arguments: whether it is distributed."""
    settings: dict[tuple[str, str], str]
    """By table and column: what `n_distinct` the parts are to have."""


async def distribute(
    engine: AsyncEngine, schema: str, timeout_s: float, *, dry_run: bool, tables_only: bool = False
) -> list[Step]:
    """Distributes what is not yet, step by step; what an interrupted call did is kept.

    Args:
      engine: Leads to the coordinator, as the tables' owner.
      schema: That of adkpg's tables.
      timeout_s: Longest wait for others.
      dry_run: Whether to change nothing.
      tables_only: Whether nothing is done if all tables are where they are to be, whatever their
        moved parts have lost: a node that is away then keeps no process from starting.

    Returns:
      What was done, or would be, in this order.

    Raises:
      ExtensionMissing: The database has no Citus, or one that is too old.
      ConfigurationError: The connection leads to a worker, or no node takes parts of tables.
      DatabaseUnavailable: A node of the cluster did not do its part.
      Busy: Others were in the way for longer than `timeout_s`.
    """
    require_citus(await cluster_of(engine, schema))
    async with engine.connect() as connection:
        if not await connection.run_sync(takes_parts):
            raise ConfigurationError(
                "No node of the cluster takes parts of distributed tables; add one on the "
                "coordinator, SELECT citus_add_node('worker1', 5432), or let it take some itself "
                "(docs/distributed.md)."
            )
    async with migrations.alone(engine, timeout_s) as turn:
        steps = await turn.run(partial(_plan, schema))
        if tables_only and all(step.asks for step in steps):
            steps = []
        if not dry_run:
            for step in steps:
                await turn.run(partial(_apply, step))
    return steps


async def cluster_of(engine: AsyncEngine, schema: str) -> Cluster | None:
    """Returns what the database is to its cluster; None without Citus.

    Tables are distributed, or some of them already, if it says so; see `verify`.
    """
    async with engine.connect() as connection:
        return await connection.run_sync(find, schema)


def require_citus(cluster: Cluster | None) -> None:
    """Refuses a database whose tables cannot be distributed.

    Raises:
      ExtensionMissing: It has no Citus, or one that is too old.
      ConfigurationError: The connection leads to a worker.
    """
    if cluster is None:
        raise ExtensionMissing(
            "This database has no Citus, and its tables can be distributed by nothing else; let an "
            "administrator run CREATE EXTENSION citus in it on every node, and name the workers to "
            "the coordinator (docs/distributed.md)."
        )
    if tuple(map(int, re.findall("[0-9]+", cluster.version)[:2])) < _OLDEST_CITUS:
        raise ExtensionMissing(
            f"Citus {cluster.version} is too old, adkpg needs "
            f"{'.'.join(map(str, _OLDEST_CITUS))} or later; install it on every node, then run "
            "ALTER EXTENSION citus UPDATE in this database."
        )
    require_coordinator(cluster)


def require_coordinator(cluster: Cluster | None) -> None:
    """Refuses a worker: tables that are made there are its own, and others' it cannot change.

    Raises:
      ConfigurationError: It is one.
    """
    if cluster is not None and not cluster.is_coordinator:
        raise ConfigurationError(
            "This connection leads to a worker of the Citus cluster, but only its coordinator "
            "distributes, migrates and indexes tables; name the coordinator in the database URL "
            "or ADKPG_DIRECT_URL."
        )


def refuse_row_level_security() -> None:
    """Says why there are no scopes on a cluster.

    Raises:
      ConfigurationError: Always.
    """
    raise ConfigurationError(
        "Row-level security does not work where Citus distributes the tables: the scope of a "
        "statement stays on the node that the client is connected to, and the rows are on "
        "others; leave ADKPG_ROW_LEVEL_SECURITY off, or do not distribute."
    )


async def users_of_parts(engine: AsyncEngine, schema: str) -> tuple[str, ...]:
    """Returns a user for each part of the distributed tables, whom its hash sends there."""
    async with engine.connect() as connection:
        return await connection.run_sync(node.users_of_parts, schema)


async def verify(engine: AsyncEngine, schema: str, *, row_level_security: bool) -> None:
    """Refuses what is distributed in part, as an interrupted run leaves it; and what Citus lacks.

    Raises:
      SchemaError: The message names what is not.
      ConfigurationError: There is to be row-level security.
    """
    if row_level_security:
        refuse_row_level_security()
    async with engine.connect() as connection:
        left = await connection.run_sync(_left, schema)
    if left:
        named = ", ".join(left[:_NAMED])
        if len(left) > _NAMED:
            named += f" and {len(left) - _NAMED} more"
        raise SchemaError(
            f"adkpg's tables are distributed by Citus, but {named} in the schema {schema} not yet; "
            "run: adkpg db distribute"
        )


def _left(connection: Connection, schema: str) -> list[str]:
    """The tables, keys and functions that are not yet as they are to be; any node knows."""
    kinds = _kinds(connection, schema)
    keys = set(connection.scalars(_FOREIGN_KEYS, {"schema": schema}))
    functions = _functions(connection, schema)
    done = {_name(signature) for signature, done in functions.items() if done}
    left = [name for name, kind in _wanted().items() if kinds.get(name) != kind]
    left += [str(key.name) for _, key in _keys() if key.name not in keys]
    left += [name for name in FUNCTIONS if name not in done]
    guarded = {name for name, trigger in _triggers(connection, schema) if trigger == GUARD}
    left += [
        f"the trigger of {name}"
        for name, kind in _wanted().items()
        if kind == "h" and name not in guarded
    ]
    return left


def _functions(connection: Connection, schema: str) -> dict[str, bool]:
    """By a function's name and arguments: whether it is where it is to be."""
    return {
        row.signature: row.distributed or (row.known and row.proname not in DISTRIBUTED)
        for row in connection.execute(
            _FUNCTIONS_FOUND, {"schema": schema, "names": list(FUNCTIONS)}
        )
    }


def _triggers(connection: Connection, schema: str) -> frozenset[tuple[str, str]]:
    rows = connection.execute(_TRIGGERS, {"schema": schema})
    return frozenset((row.relname, row.tgname) for row in rows)


def _name(signature: str) -> str:
    return signature.rpartition(".")[2].partition("(")[0]


def _kinds(connection: Connection, schema: str) -> Mapping[str, str]:
    cluster = find(connection, schema)
    return {} if cluster is None else cluster.kinds


def _wanted() -> dict[str, str]:
    """How each table is to be kept: what others refer to comes first."""
    kinds = {REGISTER: "n"}
    for table in metadata.sorted_tables:
        kinds[table.name] = "h" if "user_id" in table.c else "n"
    # Reference tables first: the others' foreign keys to them are added last. Then what all others
    # lie beside.
    order = {"n": 0, "h": 2}
    return dict(sorted(kinds.items(), key=lambda each: order[each[1]] - (each[0] == sessions.name)))


def _keys() -> Iterator[tuple[Table, ForeignKeyConstraint]]:
    """The foreign keys to a reference table."""
    for table in metadata.sorted_tables:
        for key in sorted(table.foreign_key_constraints, key=lambda each: str(each.name)):
            if "user_id" not in key.referred_table.c:
                yield table, key


def _plan(schema: str, connection: Connection) -> list[Step]:
    state = _state(connection, schema)
    connection.rollback()
    return list(_steps(schema, state))


def _steps(schema: str, state: _State) -> Iterator[Step]:
    wanted = _wanted()
    lacking = [name for name, kind in wanted.items() if state.kinds.get(name) != kind]
    dropped = set()
    for table, key in _keys():
        # A reference table would pull in what refers to it, which then cannot be distributed, and
        # loses its comments.
        if state.kinds.get(table.name) is None and str(key.name) in state.keys:
            dropped.add(str(key.name))
            yield Step(
                f"drop the foreign key {key.name} for the time being",
                f'ALTER TABLE "{schema}".{table.name} DROP CONSTRAINT {key.name}',
            )
    if ("artifacts", _REMOVALS_TRIGGER) in state.triggers:
        # A part's trigger cannot write to the copies on all nodes.
        yield Step(
            f"drop the trigger {_REMOVALS_TRIGGER}: a sweep finds the objects of deleted files",
            f'DROP TRIGGER {_REMOVALS_TRIGGER} ON "{schema}".artifacts',
        )
    for name in lacking:
        place = _place(schema, name)
        if wanted[name] == "n":
            yield Step(
                f"copy {name} to every node",
                f"SELECT create_reference_table({_literal(place)})",
            )
        else:
            beside = "none" if name == sessions.name else _place(schema, sessions.name)
            yield Step(
                f"distribute {name} by user_id",
                f"SELECT create_distributed_table({_literal(place)}, 'user_id',"
                f" colocate_with => {_literal(beside)})",
            )
    # From those that refer to others to what they refer to: a truncation includes the former.
    for name in reversed(list(wanted)):
        if name in state.hidden:
            yield Step(
                f"remove the rows that {name} held before it was copied or distributed",
                "SELECT truncate_local_data_after_distributing_table("
                f"{_literal(_place(schema, name))})",
            )
    for table, key in _keys():
        if str(key.name) not in state.keys or str(key.name) in dropped:
            yield Step(f"add the foreign key {key.name}", _added(schema, table, key))
    for (name, column), value in state.settings.items():
        yield Step(
            f"set {_NOT_CARRIED} of {name}.{column} on its parts",
            f"SELECT result FROM run_command_on_shards({_literal(_place(schema, name))},"  # noqa: S608 - names of our own
            f" 'ALTER TABLE %s ALTER {column} SET ({_NOT_CARRIED} = {value})') WHERE NOT success",
            asks=True,
        )
    for signature, done in state.functions.items():
        if done:
            continue
        name = _name(signature)
        if name in DISTRIBUTED:
            yield Step(
                f"run {name} where its user is",
                f"SELECT create_distributed_function({_literal(signature)}, 'user_id',"
                f" colocate_with => {_literal(_place(schema, sessions.name))}"
                # In a transaction of the client, too.
                f"{', force_delegation => true' if name == 'at_part_1' else ''})",
            )
        else:
            yield Step(
                f"copy {name} to every node",
                f"SELECT create_distributed_function({_literal(signature)})",
            )
    for name, kind in wanted.items():
        if kind == "h" and (name, GUARD) not in state.triggers:
            yield Step(
                f"guard {name} against writes to a part that has moved",
                f"CREATE TRIGGER {GUARD} BEFORE INSERT OR UPDATE OR DELETE"
                f" ON {_place(schema, name)} FOR EACH STATEMENT"
                f' EXECUTE FUNCTION "{schema}".require_part_1()',
            )


def _added(schema: str, table: Table, key: ForeignKeyConstraint) -> str:
    columns = ", ".join(each.name for each in key.columns)
    referred = ", ".join(each.column.name for each in key.elements)
    action = f" ON DELETE {key.ondelete}" if key.ondelete else ""
    return (
        f'ALTER TABLE "{schema}".{table.name} ADD CONSTRAINT {key.name} FOREIGN KEY ({columns})'
        f' REFERENCES "{schema}".{key.referred_table.name} ({referred}){action}'
    )


def _apply(step: Step, connection: Connection) -> None:
    # Ours touch rows of the same user alone, so of the same node.
    connection.exec_driver_sql("SET LOCAL citus.enable_unsafe_triggers = on")
    done = connection.exec_driver_sql(step.sql)
    refused = done.scalars().first() if step.asks else None
    if refused is not None:
        raise DatabaseUnavailable(
            f"A node of the cluster did not {step.what} ({refused}); check that all of its nodes "
            "run, then run: adkpg db distribute",
            written=None,
        )
    connection.commit()


def _state(connection: Connection, schema: str) -> _State:
    kinds = _kinds(connection, schema)
    place = {"schema": schema}
    distributed = {name for name, kind in kinds.items() if kind == "h"}
    settings = {
        (row.relname, row.attname): row.value
        for row in connection.execute(_SETTINGS, place)
        if row.relname in _wanted()
    }
    if distributed:
        settings = {
            (name, column): value
            for (name, column), value in settings.items()
            if name not in distributed or not _is_set(connection, schema, name, column)
        }
    return _State(
        kinds,
        frozenset(connection.scalars(_FOREIGN_KEYS, place)),
        _triggers(connection, schema),
        frozenset(connection.scalars(_HIDDEN, place)),
        _functions(connection, schema),
        settings,
    )


def _is_set(connection: Connection, schema: str, name: str, column: str) -> bool:
    rows = connection.execute(
        text(
            "SELECT success, result FROM run_command_on_shards(:place,"  # noqa: S608 - names of our own
            " 'SELECT attoptions IS NOT NULL FROM pg_attribute"
            " WHERE attrelid = ''%s''::regclass AND attname = ''" + column + "''')"
        ),
        {"place": _place(schema, name)},
    )
    return all(row.success and row.result == "t" for row in rows)


def _place(schema: str, name: str) -> str:
    return f'"{schema}".{name}'


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_REMOVALS_TRIGGER = "artifacts_note_removal"
_FOREIGN_KEYS = text(
    "SELECT conname::text FROM pg_constraint WHERE contype = 'f'"
    " AND connamespace = to_regnamespace(quote_ident(:schema))"
)
_TRIGGERS = text(
    "SELECT c.relname, t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
    " WHERE NOT tgisinternal AND c.relnamespace = to_regnamespace(quote_ident(:schema))"
)
_HIDDEN = text(
    "SELECT c.relname FROM pg_class c"
    " WHERE c.relkind = 'r' AND c.relnamespace = to_regnamespace(quote_ident(:schema))"
    " AND pg_relation_size(c.oid) > 0"
)
_SETTINGS = text(
    "SELECT c.relname, a.attname, o.option_value AS value FROM pg_class c"
    " JOIN pg_attribute a ON a.attrelid = c.oid"
    " CROSS JOIN LATERAL pg_options_to_table(a.attoptions) o"
    " WHERE c.relkind = 'r' AND c.relnamespace = to_regnamespace(quote_ident(:schema))"
    " AND o.option_name = 'n_distinct'"
)
_FUNCTIONS_FOUND = text(
    "SELECT format('%I.%I(%s)', n.nspname, p.proname, oidvectortypes(p.proargtypes)) AS signature,"
    " p.proname, o.objid IS NOT NULL AS known,"
    " o.distribution_argument_index IS NOT NULL AS distributed"
    " FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
    " LEFT JOIN pg_catalog.pg_dist_object o"
    " ON o.classid = 'pg_proc'::regclass AND o.objid = p.oid"
    " WHERE n.nspname = :schema AND p.proname = ANY(:names) ORDER BY p.proname"
)
