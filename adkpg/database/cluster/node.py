"""Cluster: what a database is to the others of one that Citus makes, by its own account."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, text

COORDINATOR = 0
"""The group of the node that tables are made on; every worker has another one."""


class Cluster(NamedTuple):
    """A database with Citus.

    Attributes:
      version: Of Citus.
      group: This node's; see `COORDINATOR`.
      kinds: The kinds of the schema's tables, by name: ``h`` is distributed, ``n`` a reference
        table. Tables that only one server has are not among them.
    """

    version: str
    group: int
    kinds: Mapping[str, str]

    @property
    def is_coordinator(self) -> bool:
        """Whether tables are made, migrated and distributed from here."""
        return self.group == COORDINATOR

    @property
    def is_distributed(self) -> bool:
        """Whether some table of the schema lies on other nodes, too."""
        return bool(self.kinds)


def find(connection: Connection, schema: str) -> Cluster | None:
    """Asks a database what it is to its cluster; None without Citus."""
    version = connection.scalar(_VERSION)
    if version is None:
        return None
    group = connection.scalar(GROUP)
    kinds = connection.execute(_KINDS, {"schema": schema})
    return Cluster(version, group, {row.relname: row.partmethod for row in kinds})


def users_of_parts(connection: Connection, schema: str) -> tuple[str, ...]:
    """Returns a user for each part of the distributed tables, whom its hash sends there."""
    return tuple(connection.scalars(_USERS, {"sessions": f'"{schema}".sessions'}))


def takes_parts(connection: Connection) -> bool:
    """Whether some node of a cluster takes parts of distributed tables."""
    return bool(connection.scalar(_TAKES_PARTS))


# A hundred for each part: that one has none happens in e^100 clusters once.
_USERS = text(
    "SELECT min(n)::text FROM generate_series(1, 100 * (SELECT count(*)"
    " FROM pg_catalog.pg_dist_shard WHERE logicalrelid = CAST(:sessions AS regclass)))"
    " n GROUP BY get_shard_id_for_distribution_column(CAST(:sessions AS regclass), n::text)"
    " ORDER BY 1"
)
_VERSION = text("SELECT extversion FROM pg_extension WHERE extname = 'citus'")
GROUP = text("SELECT groupid FROM pg_catalog.pg_dist_local_group")
"""Reads the group of a node; the database must have Citus."""
# The first use makes the only node there is one that does.
_TAKES_PARTS = text(
    "SELECT coalesce(bool_or(shouldhaveshards AND isactive AND noderole = 'primary'), true)"
    " FROM pg_catalog.pg_dist_node"
)
_KINDS = text(
    "SELECT c.relname, p.partmethod::text FROM pg_catalog.pg_dist_partition p"
    " JOIN pg_class c ON c.oid = p.logicalrelid"
    " WHERE c.relnamespace = to_regnamespace(quote_ident(:schema))"
    " AND (p.partmethod = 'h' OR (p.partmethod = 'n' AND p.repmodel = 't'))"
)
