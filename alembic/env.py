"""How Alembic runs the migrations: on the connection handed over, else on Settings' database."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlalchemy import Connection, MetaData, column, literal, table, text, update
from sqlalchemy.schema import CreateSchema

from adkpg import Database, Settings
from adkpg.database.migrating import migrations
from adkpg.tables import REGISTER, metadata

config = context.config


def schema() -> str:
    """Returns the Postgres schema to migrate."""
    handed_over: str | None = config.attributes.get("schema")
    return handed_over or Settings().database_schema


def target() -> MetaData:
    """Returns the tables under the configured schema's name."""
    copy = MetaData(schema=schema())
    for one in metadata.sorted_tables:
        one.to_metadata(copy, schema=schema())
    return copy


def include_name(name: str | None, kind: str, _parents: Any) -> bool:
    """Looks at our schema only; the rest of the database belongs to others."""
    return name == schema() if kind == "schema" else True


def include_object(
    _object: Any, name: str | None, kind: str, _reflected: bool, _other: Any
) -> bool:
    """Leaves out the HNSW indexes, which are built per model when a scope needs one."""
    return not (kind == "index" and name is not None and name.startswith("memory_vectors_hnsw_"))


def note_oldest_code(
    ctx: MigrationContext, step: MigrationInfo, heads: Collection[Any], run_args: Mapping[str, Any]
) -> None:
    """Writes next to a revision which versions of adkpg work with its tables."""
    version = table(REGISTER, column("works_with"), schema=schema())
    for revision in heads:
        works_with = literal(migrations.works_with(context.script, revision), literal_execute=True)
        ctx.execute(update(version).values(works_with=works_with))


def configure(**options: Any) -> None:
    """Configures Alembic for both ways of running."""
    context.configure(
        target_metadata=target(),
        version_table=REGISTER,
        version_table_schema=schema(),
        include_schemas=True,
        include_name=include_name,
        include_object=include_object,
        transaction_per_migration=True,
        on_version_apply=note_oldest_code,
        compare_server_default=False,
        **options,
    )


def run(connection: Connection) -> None:
    """Migrates on an open connection."""
    migrations.require_schema(connection, schema())
    connection.commit()  # autocommit_block() refuses a transaction begun outside of Alembic
    configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()


def run_offline() -> None:
    """Prints the SQL; never connects."""
    # Without the style, each % of a function would be written twice, as some drivers need it.
    configure(dialect_name="postgresql", dialect_opts={"paramstyle": "named"}, literal_binds=True)
    with context.begin_transaction():
        context.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        context.execute(CreateSchema(schema(), if_not_exists=True))
        context.run_migrations()


async def run_on_settings() -> None:
    """Connects to ADKPG_DATABASE_URL, for the alembic command in a checkout."""
    async with Database() as database:
        engine = await database.engine()
        async with engine.connect() as connection:
            await connection.run_sync(run)


if context.is_offline_mode():
    run_offline()
elif (handed_over := config.attributes.get("connection")) is not None:
    run(handed_over)
else:
    asyncio.run(run_on_settings())
