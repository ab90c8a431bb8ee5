"""Builds an index in a migration while other clients go on writing."""

from collections.abc import Sequence
from typing import Any

from alembic import op
from sqlalchemy import text
from sqlalchemy.sql.elements import TextClause

_IS_VALID = text(
    "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
    " JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = :schema AND c.relname = :name"
)


def build(name: str, table: str, columns: Sequence[str | TextClause], **options: Any) -> None:
    """Builds an index of a table, in the revision that is being applied.

    A revision that calls this does nothing else: what comes before it is committed first, and a
    build cannot be in a transaction. One that was interrupted leaves an index that no query reads;
    it is dropped and built again.

    Args:
      name: The index's.
      table: Without its schema.
      columns: Names, or expressions as `text`.
      **options: As of Alembic's ``create_index``.
    """
    context = op.get_context()
    schema = context.version_table_schema
    with context.autocommit_block():
        if not context.as_sql:
            found = op.get_bind().scalar(_IS_VALID, {"schema": schema, "name": name})
            if found is False:
                op.drop_index(name, schema=schema, postgresql_concurrently=True)
        op.create_index(
            name,
            table,
            list(columns),
            schema=schema,
            postgresql_concurrently=True,
            if_not_exists=True,
            **options,
        )
