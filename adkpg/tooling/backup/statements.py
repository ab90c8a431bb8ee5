"""What is in a schema, and SQL of the script that restores; the queries are in statements.sql."""

import re
from collections.abc import Collection, Mapping
from typing import TypedDict

from adkpg.queries import Queries, Query, Statement
from adkpg.tables import EVERY, GUARD, REGISTER

_sql = Queries(__file__)


class Named(TypedDict):
    """A table."""

    name: str


class There(TypedDict):
    """Whether something is there."""

    there: bool


class Strings(TypedDict):
    """How texts are quoted."""

    standard: bool


class Counted(TypedDict):
    """How many rows a table has."""

    rows: int


@_sql.query()
def select_tables(*, schema: str) -> Query[Named]:
    """Reads the names of the tables in a schema, in this order."""


@_sql.query()
def select_schema(*, schema: str) -> Query[There]:
    """Reads whether there is a schema."""


@_sql.query()
def select_strings() -> Query[Strings]:
    """Reads whether a backslash in a text is only a backslash, as in the file."""


def count_rows(schema: str, name: str, *, guarded: bool) -> Query[Counted]:
    """Counts the rows of one table, which may be of any revision.

    Args:
      schema: Where it is.
      name: The table's.
      guarded: Whether policies hide rows; it enters the scope of all users first, by a role that
        may.
    """
    sql = f'SELECT count(*) AS rows FROM "{schema}".{_quoted(name)}'  # noqa: S608 - quoted
    if guarded:
        # A condition without columns is checked before any row is read.
        sql = f'SELECT * FROM ({sql} OFFSET 0) AS counted WHERE "{schema}".enter_every_scope()'  # noqa: S608 - the same
    return Query(Statement(sql, Counted), {})


def _quoted(name: str) -> str:
    """Returns a name as SQL has it, without what `Statement` takes for a parameter."""
    escaped = re.sub(r"\W", lambda found: f"\\+{ord(found[0]):06x}", name)
    return f'"{name}"' if escaped == name else f'U&"{escaped}"'


def begin(
    schema: str,
    pgvector: str,
    *,
    exists: bool,
    tables: Collection[str],
    functions: Collection[str],
) -> str:
    """Returns what comes before a backup's own SQL: a schema without its names, and pgvector.

    Privileges on the database are needed only for what is not there.

    Args:
      schema: The tables'.
      pgvector: Where pgvector is, or is to be, as SQL has it.
      exists: Whether there is the schema.
      tables: Those to drop.
      functions: Those to drop.
    """
    dropped = f"""
        SET lock_timeout = '30s';
        DO $adkpg$
        DECLARE each text;
        BEGIN
            {_keeping_rights(schema)}
            FOR each IN SELECT pg_catalog.format('DROP TABLE IF EXISTS %s CASCADE', c.oid::regclass)
                FROM pg_catalog.pg_class c
                WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind IN ('r', 'p')
                AND c.relname = ANY ({_names(tables)}) AND {_MADE_BY_HAND.format("c")}
            LOOP EXECUTE each; END LOOP;
            FOR each IN SELECT pg_catalog.format('DROP ROUTINE IF EXISTS %s', p.oid::regprocedure)
                FROM pg_catalog.pg_proc p WHERE p.pronamespace = '{schema}'::regnamespace
                AND p.proname = ANY ({_names(functions)}) AND {_MADE_BY_HAND.format("p")}
            LOOP EXECUTE each; END LOOP;
        END $adkpg$;
    """  # noqa: S608 - the setting allows letters, digits and underscores
    made = f'CREATE SCHEMA "{schema}";'
    return f"BEGIN;\n{dropped if exists else made}\n{_PGVECTOR.format(pgvector)}\n"


def _names(names: Collection[str]) -> str:
    quoted = ", ".join(f"'{name}'" for name in sorted(names))  # of letters, digits and underscores
    return f"ARRAY[{quoted}]::text[]"


_MADE_BY_HAND = (
    "NOT EXISTS (SELECT FROM pg_catalog.pg_depend d"
    " WHERE d.classid = {0}.tableoid AND d.objid = {0}.oid AND d.deptype = 'e')"
)
# Not IF NOT EXISTS: a coordinator tells workers so, which ask for its owner.
_PGVECTOR = """
    DO $adkpg$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'vector') THEN
            CREATE EXTENSION vector SCHEMA {};
        END IF;
    END $adkpg$;
"""


def end(schema: str, rows: Mapping[str, int]) -> str:
    """Returns what comes after: every table must hold what was read, else nothing is restored.

    A cluster's backup has other triggers than one server.
    """
    checks = "\n".join(
        f'IF (SELECT count(*) FROM "{schema}"."{name}") <> {count} THEN RAISE EXCEPTION'  # noqa: S608 - its own tables
        f" 'the table {name} does not hold the % rows of the backup', {count}; END IF;"
        for name, count in rows.items()
    )
    return (
        f"DO $adkpg$ BEGIN\n{checks}\n{_triggers_of_one_server(schema)}\nEND $adkpg$;\n"
        f"{_giving_rights_back(schema)}\nCOMMIT;\n"
    )


def _keeping_rights(schema: str) -> str:
    """Notes what other roles may do to the tables, and which are admitted to all users' scope."""
    tables = f"c.relnamespace = '{schema}'::regnamespace AND c.relkind IN ('r', 'p')"
    return f"""
        PERFORM set_config('adkpg.rights', json_build_object(
            'granted', (
                SELECT coalesce(json_agg(json_build_object(
                    'place', pg_catalog.format('%I.%I', '{schema}', c.relname),
                    'role', CASE WHEN r.oid IS NULL THEN 'PUBLIC' ELSE quote_ident(r.rolname) END,
                    'of', a.privilege_type,
                    'more', CASE WHEN a.is_grantable THEN 'WITH GRANT OPTION' ELSE '' END
                )), '[]')
                FROM pg_catalog.pg_class c CROSS JOIN aclexplode(c.relacl) a
                    LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
                WHERE {tables} AND a.grantee <> c.relowner
            ),
            'admitted', (
                SELECT coalesce(json_agg(r.rolname), '[]')
                FROM pg_catalog.pg_class c JOIN pg_catalog.pg_policy p ON p.polrelid = c.oid
                    JOIN pg_catalog.pg_roles r ON r.oid = ANY (p.polroles)
                WHERE {tables} AND c.relname = '{REGISTER}' AND r.oid <> c.relowner
                    AND starts_with(p.polname::text, '{EVERY} ')
            )
        )::text, false);
    """  # noqa: S608 - the setting allows letters, digits and underscores


def _giving_rights_back(schema: str) -> str:
    """Gives what was noted, instead of what roles have of new tables by default."""
    granted = (
        "FROM json_to_recordset(kept->'granted') AS g(place text, role text, of text, more text)"
        " WHERE to_regclass(place) IS NOT NULL"
    )
    return f"""
        DO $adkpg$
        DECLARE
            kept json := nullif(current_setting('adkpg.rights', true), '');
            each record;
        BEGIN
            FOR each IN SELECT DISTINCT place, CASE WHEN r.oid IS NULL THEN 'PUBLIC'
                    ELSE quote_ident(r.rolname) END AS role
                FROM (SELECT DISTINCT place {granted}) AS p
                    JOIN pg_catalog.pg_class c ON c.oid = place::regclass
                    CROSS JOIN aclexplode(c.relacl) a
                    LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
                WHERE a.grantee <> c.relowner
            LOOP EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM %s', each.place, each.role);
            END LOOP;
            FOR each IN SELECT * {granted}
            LOOP EXECUTE pg_catalog.format(
                'GRANT %s ON %s TO %s %s', each.of, each.place, each.role, each.more);
            END LOOP;
            FOR each IN SELECT value AS role FROM json_array_elements_text(kept->'admitted')
            LOOP EXECUTE pg_catalog.format(
                'CREATE POLICY %I ON "{schema}".{REGISTER} TO %I USING (true)',
                '{EVERY} ' || each.role, each.role);
            END LOOP;
        END $adkpg$;
    """  # noqa: S608 - the setting allows letters, digits and underscores


def _triggers_of_one_server(schema: str) -> str:
    """As the revision makes them; tables of an older one have no such function."""
    return f"""
        DECLARE
            guarded regclass;
        BEGIN
        FOR guarded IN SELECT t.tgrelid FROM pg_catalog.pg_trigger t
            JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
            WHERE t.tgname = '{GUARD}' AND c.relnamespace = '{schema}'::regnamespace
        LOOP EXECUTE pg_catalog.format('DROP TRIGGER {GUARD} ON %s', guarded);
        END LOOP;
        IF to_regprocedure('"{schema}".note_artifact_removal()') IS NOT NULL AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_trigger WHERE tgname = 'artifacts_note_removal'
                AND tgrelid = pg_catalog.to_regclass('"{schema}".artifacts')) THEN
            CREATE TRIGGER artifacts_note_removal AFTER DELETE ON "{schema}".artifacts
                FOR EACH ROW WHEN (OLD.location IS NOT NULL)
                EXECUTE FUNCTION "{schema}".note_artifact_removal();
        END IF;
        END;
    """  # noqa: S608 - the setting allows letters, digits and underscores


def vacuum(schema: str, name: str) -> str:
    """Returns what makes a restored table as quick as the old one: its statistics and map."""
    return f'VACUUM (ANALYZE) "{schema}"."{name}"'
