"""Where a measurement finds tables and indexes: in the schema, or as parts on each node. No I/O.

On a cluster the tables that clients name are empty: rows lie in parts, whose names Citus makes. So
a node is asked to measure the parts that it has, and says of which table each is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

from sqlalchemy import BindParameter, Text, TextClause, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY


class SchemaParameters(TypedDict):
    """The name of the schema."""

    schema: str


_SCHEMA = bindparam("schema", type_=Text)
_CAST: dict[type[Any], str] = {Text: "text", ARRAY: "text[]"}

_PLACED = (
    "FROM pg_dist_shard s JOIN pg_dist_partition d USING (logicalrelid)"
    " JOIN pg_dist_placement p USING (shardid) JOIN pg_class t ON t.oid = s.logicalrelid"
    " JOIN pg_namespace n ON n.oid = t.relnamespace AND n.nspname = {schema}"
)
_HERE = "p.groupid = (SELECT groupid FROM pg_dist_local_group)"


@dataclass(frozen=True)
class Relations:
    """FROM items for the SQL of a measurement; ``{schema}`` stands for the schema's name.

    Attributes:
      tables: As ``r``: oid, name, and copied: whether every node has all of its rows.
      indexes: As ``r``: oid (NULL: a part lacks it), of (its table's oid), name, whole (whether the
        index that clients name is), copied.
    """

    tables: str
    indexes: str


_IN_SCHEMA = Relations(
    tables="(SELECT c.oid, c.relname AS name, false AS copied FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = {schema}"
    " WHERE c.relkind IN ('r', 'p')) AS r",
    indexes="(SELECT i.indexrelid AS oid, i.indrelid AS of, c.relname AS name,"
    " i.indisvalid AND i.indisready AND i.indislive AS whole, false AS copied"
    " FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = {schema}) AS r",
)
_ON_NODE = Relations(
    tables="(SELECT to_regclass(shard_name(t.oid, s.shardid))::oid AS oid, t.relname AS name,"
    f" d.partmethod = 'n' AS copied {_PLACED} WHERE {_HERE}) AS r",
    indexes="(SELECT to_regclass(shard_name(i.indexrelid, s.shardid))::oid AS oid,"
    " to_regclass(shard_name(t.oid, s.shardid))::oid AS of, x.relname AS name,"
    " i.indisvalid AND i.indisready AND i.indislive AS whole, d.partmethod = 'n' AS copied"
    f" {_PLACED} JOIN pg_index i ON i.indrelid = t.oid JOIN pg_class x ON x.oid = i.indexrelid"
    f" WHERE {_HERE}) AS r",
)


def forms(measure: Callable[[Relations], str]) -> tuple[TextClause, TextClause]:
    """Returns what measures a schema's tables, and what asks for it on a cluster.

    Args:
      measure: Returns the SQL, whose rows have a name, and say whether what has it is copied.

    Returns:
      The SQL as it is, and for a cluster what has the rows of `on_each_node`; the schema is a
      parameter of both.
    """
    here = measure(_IN_SCHEMA).replace("{schema}", ":schema")
    return text(here).bindparams(_SCHEMA), on_each_node(measure(_ON_NODE), _SCHEMA)


def on_each_node(sql: str, *parameters: BindParameter[Any]) -> TextClause:
    """Asks every node of a cluster: node (host and port), success, result.

    Without success, the result is why; else the rows of the SQL as a JSON array.

    Args:
      sql: A query. A parameter's name in braces stands for its value, a text or an array as text.
      *parameters: Of texts, or of arrays of texts.
    """
    command = sql.replace("%", "%%")
    for number, each in enumerate(parameters, 1):
        command = command.replace(f"{{{each.key}}}", f"%{number}$L")
    command = f"SELECT coalesce(json_agg(row_to_json(found)), '[]') FROM ({command}) AS found"  # noqa: S608 - our own words
    values = "".join(f", CAST(:{each.key} AS {_CAST[type(each.type)]})" for each in parameters)
    return text(
        "SELECT format('%s:%s', n.nodename, n.nodeport) AS node, a.success, a.result"  # noqa: S608 - our own words
        f" FROM run_command_on_all_nodes(format(CAST(:command AS text){values})) AS a"
        " JOIN pg_dist_node n USING (nodeid) ORDER BY n.groupid, n.nodeid"
    ).bindparams(bindparam("command", command, type_=Text), *parameters)
