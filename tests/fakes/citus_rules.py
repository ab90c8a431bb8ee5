"""What a statement that Citus sees must keep to, so that it runs it: no server needed.

Statements about users are hidden from it, those of functions, of an app or of all users are not.
Each rule has an example that breaks it, which a cluster refuses or sends to several nodes. Those of
migrations are about tables that are distributed already.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from adkpg.tables import metadata

PERSONAL = frozenset(table.name for table in metadata.tables.values() if "user_id" in table.c)
SHARED = frozenset(table.name for table in metadata.tables.values()) - PERSONAL

_CLOCKS = r"CURRENT_TIMESTAMP|now\(\)|clock_timestamp\(\)|statement_timestamp\(\)"
# Which the parser does not know; another of the same place says as much here.
_OPERATORS = {"<#>": "<->", "<~>": "<->", " AS BIT VARYING": " AS TEXT", "BIT(": "VARCHAR("}


@dataclass(frozen=True)
class Rule:
    """One thing that Citus does not do.

    Attributes:
      says: What a statement does instead.
      broken_by: Yields what of a statement breaks it.
      example: A statement that does; ``{schema}`` is adkpg's.
      refused: What Citus says to the example; None: it asks several nodes.
    """

    says: str
    broken_by: Callable[[exp.Expression], Iterator[str]]
    example: str
    refused: str | None = None


def parsed(sql: str) -> exp.Expression:
    """Returns a statement's tree."""
    for operator, other in _OPERATORS.items():
        sql = sql.replace(operator, other)
    (tree,) = sqlglot.parse(sql, read="postgres")
    assert isinstance(tree, exp.Expression)
    return tree


def broken(sql: str) -> list[str]:
    """Returns what breaks a rule in a statement, with the rule's name before each."""
    if sql.startswith("LOCK TABLE"):
        return []
    tree = parsed(sql)
    return [f"{name}: {what}" for name, rule in RULES.items() for what in rule.broken_by(tree)]


def _of_one_user(tree: exp.Expression) -> bool:
    return _user(tree) is not None


def _user(tree: exp.Expression) -> str | None:
    """What all of a statement's rows are said to belong to, if it is about one user."""
    if "user" not in tree.meta:  # each rule asks
        found = re.search(
            r"user_id = (CAST\(\$\d+ AS VARCHAR\)|\(CAST\(\$\d+ AS [^)]*\)\)\[\d\])", _sql(tree)
        )
        tree.meta["user"] = found[1] if found else None
    user: str | None = tree.meta["user"]
    return user


def _sql(node: exp.Expression) -> str:
    return node.sql(dialect="postgres")


def _steps(tree: exp.Expression) -> Iterator[exp.Expression]:
    yield from tree.find_all(exp.Select, exp.Update, exp.Delete)


def _tables(step: exp.Expression) -> Iterator[exp.Table]:
    """The tables that a step itself reads or changes."""
    sources: list[exp.Expression | None] = []
    if isinstance(step, exp.Update | exp.Delete):
        sources.append(step.this)
    for key in ("from", "from_", "using"):
        given = step.args.get(key)
        for each in given if isinstance(given, list) else [given]:
            sources.append(each.this if isinstance(each, exp.From) else each)
    sources += [join.this for join in step.args.get("joins") or []]
    for source in sources:
        if isinstance(source, exp.Table):
            yield source
            for join in source.args.get("joins") or []:
                if isinstance(join.this, exp.Table):
                    yield join.this


def _joined(step: exp.Expression) -> Iterator[exp.Expression]:
    for key in ("from", "from_"):
        given = step.args.get(key)
        if isinstance(given, exp.From):
            yield from given.this.args.get("joins") or []
    yield from step.args.get("joins") or []


def _without_user(tree: exp.Expression) -> Iterator[str]:
    """Of a statement about one user: steps with a table whose user it does not name."""
    if not _of_one_user(tree):
        return
    for step in _steps(tree):
        conditions = [step.args.get("where"), *(join.args.get("on") for join in _joined(step))]
        said = " ".join(_sql(each) for each in conditions if each is not None)
        for table in _tables(step):
            name = re.escape(table.alias or table.name)
            if table.name in PERSONAL and not re.search(
                rf"(?<![\w.])(?:\w+\.)?{name}\.user_id = (?:CAST\(\$|\(CAST\(\$)", said
            ):
                yield f"{table.name} in {_sql(step)[:120]}"


def _clock_in_conflict(tree: exp.Expression) -> Iterator[str]:
    for conflict in tree.find_all(exp.OnConflict):
        for each in conflict.args.get("expressions") or []:
            if re.search(_CLOCKS + r"|pg_column_size", _sql(each), re.IGNORECASE):
                yield _sql(each)


def _clock_beside_a_column(tree: exp.Expression) -> Iterator[str]:
    for update in tree.find_all(exp.Update):
        for each in update.expressions:
            for added in each.expression.find_all(exp.Add, exp.Sub):
                if re.search(_CLOCKS, _sql(added), re.IGNORECASE) and added.find(exp.Column):
                    yield _sql(added)


def _insert_in_a_step(tree: exp.Expression) -> Iterator[str]:
    for steps in tree.find_all(exp.With):
        if tree.find(exp.Insert) and _of_one_user(tree):
            yield _sql(steps)[:120]


def _deleted_beside_others(tree: exp.Expression) -> Iterator[str]:
    if not _of_one_user(tree):
        for each in tree.find_all(exp.Delete):
            given = each.args.get("using") or []
            if each.this.name in PERSONAL and any(one.name in PERSONAL for one in given):
                yield _sql(each)[:120]


def _insert_of_union(tree: exp.Expression) -> Iterator[str]:
    for insert in tree.find_all(exp.Insert):
        if isinstance(insert.expression, exp.Union):
            yield _sql(insert)[:120]


def _values_with_subquery(tree: exp.Expression) -> Iterator[str]:
    for insert in tree.find_all(exp.Insert):
        if isinstance(insert.expression, exp.Values) and insert.expression.find(exp.Select):
            yield _sql(insert)[:120]


def _recursion_of_many(tree: exp.Expression) -> Iterator[str]:
    if not _of_one_user(tree):
        for given in tree.find_all(exp.With):
            if given.args.get("recursive"):
                yield _sql(given)[:120]


def _lock_anywhere(tree: exp.Expression) -> Iterator[str]:
    for step in tree.find_all(exp.Select):
        if any("pg_advisory" in _sql(each).lower() for each in step.expressions) and not (
            step.args.get("from") or step.args.get("from_")
        ):
            yield _sql(step)[:120]


def _looked_up_without_user(tree: exp.Expression) -> Iterator[str]:
    """Of a statement about many: rows that are looked up for persons' rows, of any user."""
    if _of_one_user(tree):
        return
    for inner in tree.find_all(exp.Select):
        outer = inner.parent_select
        own = {table.alias or table.name for table in _tables(inner)}
        if outer is None or not any(table.name in PERSONAL for table in _tables(inner)):
            continue
        others = {each.alias or each.name for each in _tables(outer) if each.name in PERSONAL}
        asked = {column.table for column in inner.find_all(exp.Column)} - own
        said = _sql(inner)
        for other in others & asked:
            if not re.search(rf"user_id = {other}\.user_id|{other}\.user_id = ", said):
                yield said[:120]


def _looked_up_for_a_page(tree: exp.Expression) -> Iterator[str]:
    """Of a statement about many: persons' rows looked up for each row of a page of others."""
    if _of_one_user(tree):
        return
    pages = {
        step.alias
        for step in tree.find_all(exp.CTE)
        if step.this.args.get("limit") and any(t.name in PERSONAL for t in _tables(step.this))
    }
    for lateral in tree.find_all(exp.Lateral):
        outer, inner = lateral.parent_select, lateral.find(exp.Select)
        if outer is None or inner is None:
            continue
        if {each.name for each in _tables(outer)} & pages and any(
            table.name in PERSONAL for table in _tables(inner)
        ):
            yield _sql(inner)[:120]


_USER = "$1::VARCHAR"
RULES = {
    "user": Rule(
        "In each step each table with persons' rows says user_id = $n itself.",
        _without_user,
        "SELECT (SELECT max(e.seq) FROM {schema}.events AS e WHERE e.user_id = s.user_id LIMIT 1)"
        f" FROM {{schema}}.sessions AS s WHERE s.user_id = {_USER}"
        " OR s.user_id = (SELECT x.user_id FROM {schema}.sessions AS x LIMIT 1)",
    ),
    "clock": Rule(
        "DO UPDATE SET takes the time from excluded.",
        _clock_in_conflict,
        "INSERT INTO {schema}.app_settings (app_name) VALUES ($1::VARCHAR)"
        " ON CONFLICT (app_name) DO UPDATE SET updated_at = now()",
        "must be marked IMMUTABLE",
    ),
    "clock beside a column": Rule(
        "What UPDATE sets adds no column to the time of the clock.",
        _clock_beside_a_column,
        "UPDATE {schema}.sessions SET expires_at = now() + ttl"
        f" WHERE app_name = 'a' AND sessions.user_id = {_USER}",
        "STABLE functions used in UPDATE queries cannot be called with column references",
    ),
    "insert in a step": Rule(
        "Nothing is inserted in or after a WITH about one user.",
        _insert_in_a_step,
        "WITH moved AS (UPDATE {schema}.sessions SET revision = revision + 1"
        f" WHERE app_name = 'a' AND sessions.user_id = {_USER} RETURNING app_name, user_id),"
        " made AS (INSERT INTO {schema}.user_states (app_name, user_id, state)"
        " SELECT app_name, user_id, '{{}}' FROM moved RETURNING app_name)"
        " SELECT count(*) FROM made",
    ),
    "delete beside others": Rule(
        "Rows of several users are deleted by what is in the row itself.",
        _deleted_beside_others,
        "DELETE FROM {schema}.memories AS m USING {schema}.memory_tombstones AS t"
        " WHERE m.event_id = t.event_id AND m.app_name = $1::VARCHAR",
        "complex joins are only supported",
    ),
    "union": Rule(
        "What is inserted is no UNION ALL.",
        _insert_of_union,
        "INSERT INTO {schema}.user_states (app_name, user_id, state)"
        " SELECT app_name, user_id, '{{}}'::jsonb FROM {schema}.sessions"
        " WHERE user_id = $1::VARCHAR"
        " UNION ALL SELECT app_name, user_id, '{{}}'::jsonb FROM {schema}.user_states"
        " WHERE user_id = $1::VARCHAR",
        "INSERT has more target columns than expressions",
    ),
    "values": Rule(
        "VALUES have no subquery.",
        _values_with_subquery,
        "INSERT INTO {schema}.user_states (app_name, user_id, state)"
        " VALUES ('a', $1::VARCHAR, (SELECT '{{}}'::jsonb FROM generate_series(1, 1)))",
        "subqueries are not supported within INSERT",
    ),
    "recursion": Rule(
        "A recursive step is about one user.",
        _recursion_of_many,
        "WITH RECURSIVE r AS (SELECT user_id FROM {schema}.sessions WHERE app_name = $1::VARCHAR"
        " UNION SELECT s.user_id FROM {schema}.sessions AS s JOIN r ON s.user_id > r.user_id)"
        " SELECT * FROM r",
        "recursive CTEs are only supported",
    ),
    "advisory lock": Rule(
        "An advisory lock is taken from rows of the user, so on the node that has them.",
        _lock_anywhere,
        "SELECT pg_advisory_xact_lock(hashtext($1::VARCHAR))",
        "stays on the node that is asked",
    ),
    "look-up of many": Rule(
        "What is looked up for a person's row is that person's: it says user_id = theirs.",
        _looked_up_without_user,
        "SELECT s.session_id, (SELECT max(e.seq) FROM {schema}.events AS e"
        " WHERE e.app_name = s.app_name) FROM {schema}.sessions AS s"
        " WHERE s.app_name = $1::VARCHAR",
        "complex joins are only supported",
    ),
    "look-up for a page": Rule(
        "Nothing of persons is looked up, by LATERAL, for the rows of a step with a LIMIT.",
        _looked_up_for_a_page,
        "WITH page AS (SELECT user_id, session_id FROM {schema}.sessions"
        " WHERE app_name = $1::VARCHAR ORDER BY session_id LIMIT 10)"
        " SELECT * FROM page CROSS JOIN LATERAL (SELECT count(*) FROM {schema}.events AS e"
        " WHERE e.user_id = page.user_id AND e.session_id = page.session_id) AS counted",
        "cannot push down this subquery",
    ),
}
"""By name."""


@dataclass(frozen=True)
class MigrationRule:
    """One thing that Citus does not do to a table that is distributed or copied to all nodes.

    Attributes:
      says: What a migration does instead.
      broken_by: A pattern of a statement that breaks it, with ``table``, and ``columns`` of a key.
      example: A statement that does.
      refused: What Citus says to it.
    """

    says: str
    broken_by: str
    example: str
    refused: str


_TABLE = r'(ONLY )?(?P<table>[\w."]+)'
_ALTERED = rf"ALTER TABLE (IF EXISTS )?{_TABLE} (.*, ?)?"
MIGRATION_RULES = {
    "column option": MigrationRule(
        "What is set of a column is set by run_command_on_shards, and of the table itself.",
        _ALTERED + r"ALTER (COLUMN )?\S+ (SET|RESET) ?(\(|STORAGE\b|STATISTICS\b)",
        "ALTER TABLE {schema}.sessions ALTER COLUMN state SET (n_distinct = 5)",
        "alter table command is currently unsupported",
    ),
    "key of some": MigrationRule(
        "A key of persons' rows has user_id.",
        rf"CREATE UNIQUE INDEX .*? ON {_TABLE} ?(USING \w+ )?\((?P<columns>[^)]*)",
        "CREATE UNIQUE INDEX one_event ON {schema}.events (event_id) WHERE user_id <> ''",
        "creating unique indexes on non-partition columns",
    ),
    "constraint of some": MigrationRule(
        "A key of persons' rows has user_id.",
        _ALTERED + r"ADD (.* )?(UNIQUE|PRIMARY KEY|EXCLUDE)\b[^(,]*\((?P<columns>[^)]*)",
        "ALTER TABLE {schema}.events ADD CONSTRAINT one_event UNIQUE (event_id)",
        "Distributed relations cannot have UNIQUE",
    ),
    "unique column": MigrationRule(
        "A key of persons' rows has user_id.",
        _ALTERED + r"ADD (COLUMN )?(?!CONSTRAINT\b)\w+ \w.*?\bUNIQUE(?! ?\()(?P<columns>)",
        "ALTER TABLE {schema}.events ADD COLUMN token uuid UNIQUE",
        "Distributed relations cannot have UNIQUE",
    ),
    "trigger": MigrationRule(
        "No trigger: what it would write may be on another node.",
        rf"CREATE (OR REPLACE )?(CONSTRAINT )?TRIGGER .*? ON {_TABLE}",
        "CREATE TRIGGER told AFTER INSERT ON {schema}.events"
        " FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "triggers are not supported",
    ),
    "trigger switched": MigrationRule(
        "No trigger is switched on or off: there are none on nodes.",
        _ALTERED + r"(ENABLE|DISABLE) (REPLICA |ALWAYS )?TRIGGER",
        "ALTER TABLE {schema}.sessions DISABLE TRIGGER ALL",
        "triggers are not supported",
    ),
    "numbered": MigrationRule(
        "No column is added that numbers rows by itself.",
        _ALTERED + r"ADD (COLUMN )?\S+ (\w*SERIAL\b|.*\bIDENTITY\b)",
        "ALTER TABLE {schema}.sessions ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY",
        "cannot execute ADD COLUMN commands involving identity columns",
    ),
    "numbered from now on": MigrationRule(
        "No column becomes one that numbers rows by itself.",
        _ALTERED + r"ALTER (COLUMN )?\S+ ADD GENERATED\b",
        "ALTER TABLE {schema}.sessions ALTER revision ADD GENERATED ALWAYS AS IDENTITY",
        "alter table command is currently unsupported",
    ),
    "type of user_id": MigrationRule(
        "user_id keeps its type, by which rows are distributed.",
        _ALTERED + r'ALTER (COLUMN )?"?user_id"? (SET DATA )?TYPE\b',
        "ALTER TABLE {schema}.sessions ALTER COLUMN user_id TYPE varchar",
        "cannot execute ALTER TABLE command involving partition column",
    ),
}
"""By name."""


ALLOWED = (
    "ALTER TABLE {schema}.sessions ADD COLUMN unique_name varchar(36) DEFAULT 'UNIQUE'",
    "ALTER TABLE {schema}.events ADD UNIQUE (app_name, user_id, event_id, seq)",
    "ALTER TABLE {schema}.app_states ADD CONSTRAINT one_time UNIQUE (updated_at)",
    "ALTER TABLE {schema}.sessions ADD CONSTRAINT excluded CHECK (revision >= 0)",
    "ALTER TABLE {schema}.sessions ALTER state SET COMPRESSION pglz",
    "CREATE UNIQUE INDEX one_seq ON {schema}.events USING btree (app_name, user_id, event_id)",
    "ALTER TABLE {schema}.sessions ALTER revision TYPE numeric",
)
"""What migrations may do to distributed tables."""


def broken_in_migrations(sql: str) -> list[str]:
    """Returns what breaks a rule in the SQL of migrations, as Alembic writes it.

    What one does to a table that it makes is left out: this is distributed in the end.
    """
    found = []
    for revision in re.split("-- Running upgrade .*", sql):
        bare = re.sub(r"\$\$.*?\$\$", "", re.sub(r"--.*", "", revision), flags=re.DOTALL)
        statements = [" ".join(each.split()) for each in re.split(r";\s*\n", bare)]
        made = {_table(each[1]) for each in map(_CREATED.match, statements) if each}
        found += [
            f"{name}: {what}" for each in statements for name, what in _broken_by_step(each, made)
        ]
    return found


_CREATED = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\S+)")


def _broken_by_step(statement: str, made: set[str]) -> Iterator[tuple[str, str]]:
    unquoted = re.sub("'(?:[^']|'')*'", "''", statement)
    for name, rule in MIGRATION_RULES.items():
        found = re.match(rule.broken_by, unquoted, re.IGNORECASE)
        if found is None or _table(found["table"]) not in (PERSONAL | SHARED) - made:
            continue
        if "columns" in found.groupdict() and (
            _table(found["table"]) in SHARED or re.search(r"\buser_id\b", found["columns"] or "")
        ):
            continue
        yield name, statement[:120]
    if re.match("(WITH|SELECT|INSERT|UPDATE|DELETE) ", statement):
        for each in broken(statement):
            name, _, what = each.partition(": ")
            yield name, what


def _table(name: str) -> str:
    return name.rpartition(".")[2].strip('"')
