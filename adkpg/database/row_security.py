"""Row-level security: the policies of every table, the functions that they ask, who may pass.

The scope of a statement (`adkpg.scopes`) is two settings of the server that end with the
transaction. ``enter_scope`` sets them, ``scope_app`` and ``scope_user`` read them and raise where
no caller did. Policies ask these in a subquery: once for each scan, not for each row, and equal to
what the statement itself says, so that Postgres checks it once and keeps to its indexes.

The tables' owner and admitted roles may enter the scope of all users. An admission is a
policy of the table of revisions, which there is with and without row-level security: it binds
nothing there, and names the role. Rights and policies follow from it, whichever came first.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Table, text
from sqlalchemy.ext.asyncio import AsyncEngine

from adkpg.errors import ConfigurationError, SchemaError
from adkpg.keys import APP_WIDE
from adkpg.tables import EVERY, REGISTER, metadata

EVERY_SCOPE = "-c adkpg.app_name=* -c adkpg.user_id=*"
"""As an option of the server: the scope of all users, for a role that may, for one connection."""

_USERS = "users"
"""The policy that lets an app's users write the state that all of them read."""

_LOCK_KEY = 0x61646B7068  # next to the migrations'
_LOCK_TIMEOUT_S = 10

_USING = 'USING ((SELECT "{schema}".scope_is_every()))'
_FUNCTIONS = (
    # Declared STABLE, since a volatile condition would be asked for each row instead of first.
    """enter_scope(app_name text, user_id text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
    BEGIN
        PERFORM pg_catalog.set_config('adkpg.app_name', ':' || app_name, true),
                pg_catalog.set_config('adkpg.user_id', ':' || user_id, true);
        RETURN true;
    END $$""",
    # The bodies that name a table or a function of ours are parsed now: a schema can be renamed.
    f"""may_enter_every_scope() RETURNS boolean LANGUAGE sql STABLE RETURN (
        SELECT r.rolbypassrls OR EXISTS (
            SELECT FROM pg_catalog.pg_policy p, unnest(p.polroles) AS admitted(role)
             WHERE p.polrelid = '{{schema}}.{REGISTER}'::regclass
               AND starts_with(p.polname::text, '{EVERY} ')
               AND pg_catalog.pg_has_role(admitted.role, 'USAGE')
        ) FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
    )""",  # noqa: S608 - our own words
    """refuse_every_scope() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RAISE EXCEPTION 'enter_every_scope: the role % is not admitted', current_user
            USING ERRCODE = 'insufficient_privilege';
    END $$""",
    """enter_every_scope() RETURNS boolean LANGUAGE sql STABLE RETURN
        CASE WHEN {schema}.may_enter_every_scope()
        THEN pg_catalog.set_config('adkpg.app_name', '*', true)
             = pg_catalog.set_config('adkpg.user_id', '*', true)
        ELSE {schema}.refuse_every_scope() END""",
    *(
        f"""scope_{of}() RETURNS text LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS $$
        DECLARE
            entered text := pg_catalog.current_setting('adkpg.{setting}', true);
        BEGIN
            IF entered IS NULL OR entered = '' THEN
                RAISE EXCEPTION 'no scope was entered' USING ERRCODE = 'ADK01';
            END IF;
            RETURN CASE WHEN entered <> '*' THEN pg_catalog.substr(entered, 2) END;
        END $$"""
        for of, setting in (("app", "app_name"), ("user", "user_id"))
    ),
    """scope_is_every() RETURNS boolean LANGUAGE sql STABLE PARALLEL RESTRICTED
    RETURN pg_catalog.current_setting('adkpg.app_name', true) IS NOT DISTINCT FROM '*'""",
)


def functions(schema: str) -> str:
    """Returns the SQL that makes the functions, for what is to recognise them."""
    return "".join(_created(schema))


def _created(schema: str) -> Iterator[str]:
    for function in _FUNCTIONS:
        body = function.replace("{schema}", f'"{schema}"')
        yield f'CREATE OR REPLACE FUNCTION "{schema}".{body};'


def entering(schema: str, scope: Sequence[str]) -> str:
    """Returns what is sent along with BEGIN, as one message, to enter a scope.

    Args:
      schema: The functions'.
      scope: The app and the user; none of them is all users.
    """
    # A message of several statements takes no parameters; of hexadecimal digits nothing escapes.
    values = (f"convert_from('\\x{each.encode().hex()}'::bytea, 'UTF8')" for each in scope)
    function = "enter_scope" if scope else "enter_every_scope"
    return f'; SELECT "{schema}".{function}({", ".join(values)})'


def protected() -> list[Table]:
    """Returns the tables that have policies: those of a person, and those of an app."""
    return [table for table in metadata.sorted_tables if "app_name" in table.c]


def policies(schema: str, table: Table) -> dict[str, str]:
    """Returns a table's policies for all roles by their names, as the SQL that follows the table.

    Reading and writing is one person's; what an app knows for all its users, they read.
    """
    app, user = (f'(SELECT "{schema}".scope_{of}())' for of in ("app", "user"))
    of_app = f"app_name = {app}"
    if "user_id" not in table.c:
        if table.name != "app_states":
            return {"own": f"USING ({of_app})"}
        # All users of the app read it, so it is written in no user's scope, except by `_USERS`.
        written = f"{of_app} AND {user} = U&'{_escaped(APP_WIDE)}'"
        return {"read": f"FOR SELECT USING ({of_app})", **_written(written)}
    # An equality would be one more thing that few rows meet: the planner would take any index that
    # begins with the user for good enough. It cannot see into a CASE, which costs next to nothing.
    own, shared = (
        f"{of_app} AND CASE WHEN user_id = {user} THEN true ELSE {otherwise} END"
        for otherwise in ("false", f"user_id = U&'{_escaped(APP_WIDE)}'")
    )
    if table.name == "audit":  # that a person was forgotten is noted of the app
        noted = f"{of_app} AND user_id = U&'{_escaped(APP_WIDE)}'"
        return {"own": f"USING ({own})", "note": f"FOR INSERT WITH CHECK ({noted})"}
    if not table.info.get("app_wide"):
        return {"own": f"USING ({own})"}
    return {
        "read": f"FOR SELECT USING ({shared})",
        **_written(own),
    }


def _written(condition: str) -> dict[str, str]:
    return {
        "insert": f"FOR INSERT WITH CHECK ({condition})",
        "update": f"FOR UPDATE USING ({condition})",
        "delete": f"FOR DELETE USING ({condition})",
    }


def admitting(schema: str, role: str) -> str:
    """Returns the SQL that lets a role enter the scope of all users, as a worker must.

    Where there is no row-level security yet, it only notes that: switching it on does the rest.
    """
    name, to, using = literal(f"{EVERY} {role}"), literal(role), _USING.format(schema=schema)
    return "; ".join(
        (
            f"DO $adkpg$ DECLARE place regclass; BEGIN PERFORM pg_advisory_xact_lock({_LOCK_KEY})",
            *(f"EXECUTE {literal(each)}" for each in _registered(schema, role)),
            f"""IF to_regprocedure('"{schema}".enter_every_scope()') IS NOT NULL"""
            f" THEN EXECUTE {literal(_callable(schema, role))}",
            "END IF",
            # A table without policies yet gets this one along with the others.
            "FOR place IN SELECT oid FROM pg_class WHERE relforcerowsecurity"  # noqa: S608 - quoted
            f""" AND relnamespace = '"{schema}"'::regnamespace"""
            f" LOOP EXECUTE format('DROP POLICY IF EXISTS %I ON %s',"
            f" {name}, place)",
            f"EXECUTE format('CREATE POLICY %I ON %s TO %I {using}', {name}, place, {to})",
            "END LOOP",
            "END $adkpg$",
        )
    )


def _registered(schema: str, role: str) -> tuple[str, str]:
    name, place = quoted(f"{EVERY} {role}"), f'"{schema}".{REGISTER}'
    return (
        f"DROP POLICY IF EXISTS {name} ON {place}",
        f"CREATE POLICY {name} ON {place} TO {quoted(role)} USING (true)",
    )


def _callable(schema: str, role: str) -> str:
    return f'GRANT EXECUTE ON FUNCTION "{schema}".enter_every_scope() TO {quoted(role)}'


def quoted(name: str) -> str:
    """Returns a name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """Returns a text as SQL takes it."""
    return "'" + value.replace("'", "''") + "'"


def _escaped(value: str) -> str:
    return "".join(f"\\{ord(each):04x}" for each in value)


async def is_on(engine: AsyncEngine, schema: str) -> bool:
    """Whether the tables have row-level security."""
    async with engine.connect() as connection:
        return bool(await connection.scalar(_IS_ON, {"schema": schema}))


async def enter_every_scope(engine: AsyncEngine, schema: str) -> None:
    """Fails, as a statement would, in a role that does not see all users' rows."""
    async with engine.connect() as connection:
        await connection.exec_driver_sql(f'SELECT "{schema}".enter_every_scope()')


async def switch_on(engine: AsyncEngine, schema: str, *, users_write: bool | None) -> None:
    """Makes what is missing of functions and policies, and forces them on the tables' owner too.

    Admitted roles and the tables' owner may enter the scope of all users. Other roles lose rights
    to it, such as those of default privileges. Idempotent, and safe from many processes
    simultaneously. Each table is locked for a moment.

    Args:
      engine: Connects as the tables' owner or as an administrator.
      schema: Holds the tables.
      users_write: Whether an app's users write the state that all of them read; None leaves it as
        it is, and at first the app alone does.
    """
    async with engine.connect() as connection:
        await connection.run_sync(_switch_on, schema, users_write)


def _switch_on(connection: Connection, schema: str, users_write: bool | None) -> None:
    if not {"sessions", REGISTER} <= _known(connection, schema).keys():
        connection.rollback()
        return
    admitted = _alone(connection, schema)
    for statement in _created(schema):
        connection.exec_driver_sql(statement)
    callers = connection.scalars(_CALLERS, {"schema": schema}).all()
    for role in set(callers) - admitted:
        grantee = "PUBLIC" if role is None else quoted(role)
        connection.exec_driver_sql(
            f'REVOKE ALL ON FUNCTION "{schema}".enter_every_scope() FROM {grantee}'
        )
    for role in sorted(admitted - set(callers)):
        connection.exec_driver_sql(_callable(schema, role))
    connection.commit()
    known = _known(connection, schema)
    connection.rollback()
    for table in (table for table in protected() if table.name in known):
        if not any(_missing(schema, table, known[table.name], admitted, users_write)):
            continue
        # A role that was admitted meanwhile found no policies here, or made its own.
        admitted = _alone(connection, schema)
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT_S}s'")
        found = _known(connection, schema)[table.name]
        for statement in _missing(schema, table, found, admitted, users_write):
            connection.exec_driver_sql(statement)
        connection.commit()


def _alone(connection: Connection, schema: str) -> set[str]:
    """Begins a change that no admission interrupts; returns who is admitted.

    It is made in the role of the tables' owner, who is one of them and can change it later.
    """
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    known = _known(connection, schema)
    owner, admitted = known["sessions"].owner, set(known[REGISTER].admitted)
    connection.exec_driver_sql(f"SET LOCAL ROLE {quoted(owner)}")
    if owner not in admitted:
        for statement in _registered(schema, owner):
            connection.exec_driver_sql(statement)
    return admitted | {owner}


def _known(connection: Connection, schema: str) -> dict[str, Row[Any]]:
    return {row.relname: row for row in connection.execute(_KNOWN, {"schema": schema})}


def _missing(
    schema: str, table: Table, found: Row[Any], admitted: set[str], users_write: bool | None
) -> Iterator[str]:
    place = f'"{schema}".{table.name}'
    if table.name == "app_states" and users_write not in (None, _USERS in found.policies):
        app = f'(SELECT "{schema}".scope_app())'
        yield (
            f"CREATE POLICY {_USERS} ON {place} USING (app_name = {app})"
            if users_write
            else f"DROP POLICY {_USERS} ON {place}"
        )
    for name, policy in policies(schema, table).items():
        if name not in found.policies:
            yield f"CREATE POLICY {name} ON {place} {policy}"
    for role in sorted(set(found.admitted) - admitted):
        yield f"DROP POLICY {quoted(f'{EVERY} {role}')} ON {place}"
    for role in sorted(admitted - set(found.admitted)):
        name = quoted(f"{EVERY} {role}")
        yield f"CREATE POLICY {name} ON {place} TO {quoted(role)} {_USING.format(schema=schema)}"
    if not found.forced:
        yield f"ALTER TABLE {place} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"


async def verify(engine: AsyncEngine, schema: str) -> None:
    """Refuses what would leave users unprotected.

    Raises:
      ConfigurationError: The role passes all policies.
      SchemaError: A table has none.
    """
    await verify_role(engine)
    async with engine.connect() as connection:
        rows = await connection.execute(_KNOWN, {"schema": schema})
        known = {row.relname: row.forced for row in rows}
    bare = [table.name for table in protected() if not known.get(table.name)]
    if bare:
        raise SchemaError(
            f"ADKPG_ROW_LEVEL_SECURITY is on, but {', '.join(bare)} in the schema {schema} have no "
            "row-level security; run with the same setting: adkpg db upgrade"
        )


async def verify_role(engine: AsyncEngine) -> None:
    """Refuses a role that passes all policies.

    Raises:
      ConfigurationError: It does.
    """
    async with engine.connect() as connection:
        role, passes = (await connection.execute(_ROLE)).one()
    if passes:
        raise ConfigurationError(
            f"ADKPG_ROW_LEVEL_SECURITY is on, but Postgres holds the role {role} to no policy, "
            "since it is a superuser or has BYPASSRLS; connect as one that `adkpg db grants` "
            "prints the rights of."
        )


_CALLERS = text(
    "SELECT r.rolname FROM pg_proc p"
    " CROSS JOIN aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
    " LEFT JOIN pg_roles r ON r.oid = a.grantee"
    " WHERE p.proname = 'enter_every_scope'"
    " AND p.pronamespace = to_regnamespace(quote_ident(:schema))"
)
_ROLE = text("SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
_IS_ON = text(
    "SELECT bool_or(relforcerowsecurity) FROM pg_class"
    " WHERE relkind IN ('r', 'p') AND relnamespace = to_regnamespace(quote_ident(:schema))"
)
_KNOWN = text(
    "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity AS forced,"
    " pg_get_userbyid(c.relowner)::text AS owner,"
    " array_remove(array_agg(p.polname::text), NULL) AS policies,"
    " array_remove(array_agg(CASE WHEN starts_with(p.polname::text, 'every ')"
    " THEN (SELECT rolname::text FROM pg_roles WHERE oid = p.polroles[1]) END), NULL) AS admitted"
    " FROM pg_class c LEFT JOIN pg_policy p ON p.polrelid = c.oid"
    " WHERE c.relkind IN ('r', 'p') AND c.relnamespace = to_regnamespace(quote_ident(:schema))"
    " GROUP BY c.oid"
)
